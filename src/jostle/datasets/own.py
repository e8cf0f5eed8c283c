"""A user's own data: a function that returns it, in a file or registered under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import default_collate

from jostle.datasets.data import Batch, Data, Fields, Inputs, Split
from jostle.datasets.errors import DataError
from jostle.datasets.images import ImageFiles
from jostle.datasets.tables import labels
from jostle.datasets.text import Texts
from jostle.tasks import TASKS

EXPECTED = (
    "expected a Data, (inputs, targets, test inputs, test targets) and perhaps the task, "
    "or inputs alone as a pool"
)


@dataclass(frozen=True, eq=False)
class Items:
    """A dataset of single items as batches; of items that are tuples, the first part is the input."""

    items: Any  # __len__ and __getitem__(int)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Tensor) -> Batch:
        rows = [self.items[i] for i in index.tolist()]
        return default_collate([row[0] if isinstance(row, tuple | list) else row for row in rows])  # type: ignore[no-any-return]


def meant(name: str) -> str:
    """What a name that no catalogue has may stand for, where a folder or a file goes by it."""
    path = Path(name).expanduser()
    if path.is_dir():
        return f"; for the folder {name}, write folder:{name}"
    if path.is_file():
        return f"; for the file {name}, write " + (
            f"{name}:FUNCTION" if path.suffix == ".py" else f"csv:{name}"
        )
    return ""


def as_data(made: object, name: str) -> Data:
    """What a user's function returned, as a `Data`.

    Numbers become float32 (bytes from 0 to 255 become 0 to 1). Unless a task is named, whole numbers as targets
    mean classes, rows of them sequences, maps of them segmentation; rows of true and false mean multi-label; other
    numbers mean regression; words are classes.
    """
    if isinstance(made, Data):
        return made
    if isinstance(made, tuple):
        if len(made) not in (4, 5):
            raise DataError(f"{name} returned {len(made)} things: {EXPECTED}")
        return _labelled(name, *made)
    inputs = _inputs(made, name)
    nothing = torch.empty(0)
    return Data(name, None, Split(inputs, nothing), Split(torch.empty(0), nothing))


def _labelled(
    name: str,
    inputs: object,
    targets: object,
    later: object,
    later_targets: object,
    task: str | None = None,
) -> Data:
    first, second = _array(targets, name), _array(later_targets, name)
    if first.shape[1:] != second.shape[1:]:
        raise DataError(f"{name}: targets of shape {first.shape}, test targets of shape {second.shape}")
    both = np.concatenate([first, second])
    task = task or _task_of(both, name)
    goals, classes = _goals(both, task, name)
    train = Split(_inputs(inputs, name), goals[: len(first)])
    test = Split(_inputs(later, name), goals[len(first) :])
    return Data(name, task, train, test, classes)


def _array(values: object, name: str) -> NDArray[Any]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim == 0:
        raise DataError(f"{name} returned {type(values).__name__} as targets, expected one for each input")
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _task_of(targets: NDArray[Any], name: str) -> str:
    """The task as the targets tell; an error where they could mean two."""
    found = {
        ("w", 1): "classification",
        ("i", 1): "classification",
        ("b", 1): "classification",
        ("f", 1): "regression",
        ("b", 2): "multi-label",
        ("i", 2): "sequence",
        ("i", 3): "segmentation",
        ("b", 3): "segmentation",
    }.get((_letter(targets), targets.ndim))
    if found is None:
        raise DataError(
            f"{name}: targets of {targets.dtype} {targets.shape}; expected (n,), or rows or maps of whole numbers"
        )
    if found == "sequence" and np.isin(targets, (0, 1)).all():
        raise DataError(
            f"{name}: targets {targets.shape} of 0 and 1 could be labels of each example or of each token: "
            "return the task as a fifth thing, 'multi-label' or 'sequence'"
        )
    return found


def _letter(targets: NDArray[Any]) -> str:
    """Words, whole numbers, bools or other numbers: w, i, b or f."""
    return {"U": "w", "S": "w", "O": "w", "u": "i"}.get(targets.dtype.kind, targets.dtype.kind)


def _goals(targets: NDArray[Any], task: str, name: str) -> tuple[Tensor, tuple[str, ...]]:
    """Targets as a task counts them, and its classes."""
    if _letter(targets) == "w" and targets.ndim == 1 and task == "classification":
        return labels([str(value) for value in targets])
    if _letter(targets) not in "ibf":
        raise DataError(f"{name}: targets of {targets.dtype} {targets.shape} for {task}; expected numbers")
    if task == "regression":
        return torch.from_numpy(targets.astype(np.float32)), ()
    if task == "multi-label":
        return torch.from_numpy(targets.astype(np.float32)), _numbered(targets[0].size)
    ignored = getattr(TASKS.get(task), "ignored", None)
    counted = targets if ignored is None else targets[targets != ignored]
    return torch.from_numpy(targets.astype(np.int64)), _numbered(int(counted.max(initial=-1)) + 1)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(count))


def _inputs(values: object, name: str) -> Inputs:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        values = torch.from_numpy(values)
    if isinstance(values, Tensor):
        if values.dtype == torch.uint8:
            return values.float() / 255
        return values.float() if values.is_floating_point() else values  # whole numbers may be token ids
    if isinstance(values, Mapping):
        return Fields({key: torch.as_tensor(column) for key, column in values.items()})
    if isinstance(values, Sequence) and values and isinstance(values[0], str):
        return Texts(tuple((text,) for text in values))
    if hasattr(values, "__len__") and hasattr(values, "__getitem__"):
        return values if isinstance(values, Fields | Texts | ImageFiles) else Items(values)
    raise DataError(f"{name} returned {type(values).__name__} as inputs: {EXPECTED}")
