"""A user's own data: a function that returns it, in a file or registered under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import default_collate

from jostle.datasets.data import Batch, Data, Fields, Inputs, Kind, Split
from jostle.datasets.errors import DataError
from jostle.datasets.images import ImageFiles
from jostle.datasets.tables import labels
from jostle.datasets.text import Texts
from jostle.tasks import VOID

EXPECTED = "expected a Data, (inputs, targets, test inputs, test targets), or inputs alone as a pool"


@dataclass(frozen=True, eq=False)
class Items:
    """A dataset of single items as batches; of items that are tuples, the first part is the input."""

    items: Any  # __len__ and __getitem__(int)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Tensor) -> Batch:
        rows = [self.items[i] for i in index.tolist()]
        return default_collate([row[0] if isinstance(row, tuple | list) else row for row in rows])  # type: ignore[no-any-return]


def as_data(made: object, name: str) -> Data:
    """What a user's function returned, as a `Data`.

    Numbers become float32 (bytes from 0 to 255 become 0 to 1). Whole numbers as targets mean classes, or maps
    of them; other numbers mean regression; words are classes.
    """
    if isinstance(made, Data):
        return made
    if isinstance(made, tuple):
        if len(made) != 4:
            raise DataError(f"{name} returned {len(made)} things: {EXPECTED}")
        return _labelled(name, *made)
    inputs = _inputs(made, name)
    nothing = torch.empty(0)
    return Data(name, "unlabelled", Split(inputs, nothing), Split(torch.empty(0), nothing))


def _labelled(name: str, inputs: object, targets: object, later: object, later_targets: object) -> Data:
    first, second = _array(targets, name), _array(later_targets, name)
    kind, goals, classes = _goals(np.concatenate([first, second]), name)
    train = Split(_inputs(inputs, name), goals[: len(first)])
    test = Split(_inputs(later, name), goals[len(first) :])
    return Data(name, kind, train, test, classes)


def _array(values: object, name: str) -> NDArray[Any]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim == 0:
        raise DataError(f"{name} returned {type(values).__name__} as targets, expected one for each input")
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _goals(targets: NDArray[Any], name: str) -> tuple[Kind, Tensor, tuple[str, ...]]:
    if targets.dtype.kind in "USO":
        return "classification", *labels([str(value) for value in targets])
    if targets.dtype.kind == "f" and targets.ndim == 1:
        return "regression", torch.from_numpy(targets.astype(np.float32)), ()
    if targets.dtype.kind not in "iub" or targets.ndim not in (1, 3):
        raise DataError(
            f"{name}: targets of {targets.dtype} {targets.shape}; expected (n,), or maps of whole numbers"
        )
    kind: Kind = "classification" if targets.ndim == 1 else "segmentation"
    counted = targets[targets != VOID] if kind == "segmentation" else targets
    classes = tuple(str(i) for i in range(int(counted.max(initial=-1)) + 1))
    return kind, torch.from_numpy(targets.astype(np.int64)), classes


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
