"""What holds examples: whole arrays, holders of batches, datasets read item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler, TensorDataset, default_collate

from jostle.inputs.batches import ExampleList, Inputs, SparseRows, mapped
from jostle.inputs.items import LABEL_KEYS, check_kept, inputs_of, is_words

Collate = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Columns:
    """Whole arrays held side by side, sliced without touching single examples."""

    arrays: Any
    """A tensor or array (n, ...), or a dict of these."""

    def __len__(self) -> int:
        arrays = list(self.arrays.values()) if isinstance(self.arrays, Mapping) else [self.arrays]
        lengths = {len(array) for array in arrays}
        if len(lengths) != 1:
            raise ValueError(f"the pool's columns have different lengths: {sorted(lengths)}")
        return lengths.pop()

    def batches(self, positions: Tensor, size: int, workers: int) -> Iterator[Inputs]:
        """Inputs at these `positions`, `size` examples at a time; no `workers` are needed."""
        contiguous = len(positions) > 0 and bool((positions.diff() == 1).all())
        for start in range(0, len(positions), size):
            part = positions[start : start + size]
            index = slice(int(part[0]), int(part[-1]) + 1) if contiguous else part
            yield mapped(partial(rows_of, index=index), self.arrays)


@dataclass(frozen=True)
class Batched:
    """A holder that says `by_batch`: it gives a whole batch for a tensor of positions.

    One that has `starts`, positions at which its parts begin, has no batch that lies in two of these. One that has
    `part(start, stop)` can be cut, and sent elsewhere piece by piece.
    """

    holder: Any
    """What holds the examples."""

    def __len__(self) -> int:
        return len(self.holder)

    def batches(self, positions: Tensor, size: int, workers: int) -> Iterator[Inputs]:
        """Inputs at these `positions`, `size` examples at a time; no `workers` are needed."""
        for part in parted(positions, getattr(self.holder, "starts", ())):
            yield from (inputs_of(self.holder[few]) for few in part.split(size))


@dataclass(frozen=True)
class Items:
    """A dataset read item by item, by worker processes if asked to."""

    dataset: Any
    """What holds the examples, by position."""
    collate: Collate | None = None
    """The user's own way to put examples together; None: torch's."""

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, positions: Tensor, size: int, workers: int) -> Iterator[Inputs]:
        """Inputs at these `positions`, `size` examples at a time, read by so many `workers`; targets are dropped before
        anything looks at them.
        """
        loader = DataLoader(
            self.dataset,
            batch_sampler=[part.tolist() for part in positions.split(size)],
            num_workers=workers,
            collate_fn=self.collated,
        )
        yield from loader

    def collated(self, items: list[Any]) -> Inputs:
        """One batch of inputs; the user's own collate function sees whole items."""
        if self.collate is not None:
            made = self.collate(items)
            listed = example_list(made, items, self.collate is list)
            return inputs_of(made) if listed is None else listed
        inputs = [inputs_of(item) for item in items]
        if isinstance(inputs[0], (str, bytes)):
            raise TypeError(
                f"the pool holds text, such as {inputs[0][:40]!r}, which no model takes: {TOKENISE}"
            )
        try:
            return default_collate(inputs)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"cannot batch these examples: {shapes(inputs)}; {error}; {REMEDY}") from error


def example_list(made: Any, items: list[Any], surely: bool) -> ExampleList | None:
    """The examples of a collated batch that was kept as a list, as detectors take it; None where it was put together.

    Args:
        made: What a collate function returned: a list of examples, or (examples, targets).
        items: What it was given.
        surely: Whether it is known to return a list of the items.
    """
    own = [inputs_of(item) for item in items]
    if surely:
        return ExampleList(own)
    for held in (made, made[0] if isinstance(made, (tuple, list)) and made else None):
        if not isinstance(held, (tuple, list)) or len(held) != len(items):
            continue
        inputs = [inputs_of(each) for each in held]
        pairs = zip(inputs, own, strict=True)
        if all(isinstance(x, Tensor) and isinstance(y, Tensor) and x.ndim == y.ndim for x, y in pairs):
            return ExampleList(inputs)
    return None


@dataclass(frozen=True)
class Window:
    """A few examples of a larger source, which keep their positions there."""

    inside: Source  # numbers them from 0
    start: int
    length: int  # of the larger one

    def __len__(self) -> int:
        return self.length

    def batches(self, positions: Tensor, size: int, workers: int) -> Iterator[Inputs]:
        """Inputs of `size` examples at a time."""
        return self.inside.batches(positions - self.start, size, workers)


Source = Columns | Batched | Items | Window


def cut(holder: Any, start: int, stop: int) -> Any:
    """What a holder has from `start` up to `stop`, to be sent elsewhere; None where it cannot be cut.

    A part has memory of its own, as a view would take all of it along, and paths that hold in any folder.
    """
    if isinstance(holder, Tensor):
        return holder[start:stop].clone()
    if isinstance(holder, np.ndarray):
        return holder[start:stop].copy()
    if isinstance(holder, (list, tuple)):
        return holder[start:stop]
    return holder.part(start, stop) if hasattr(holder, "part") else None


def parted(positions: Tensor, starts: Sequence[int]) -> Iterator[Tensor]:
    """Positions, cut wherever the next lies in another of the parts that begin at `starts`."""
    if not len(starts) or not len(positions):
        yield positions
        return
    parts = torch.searchsorted(torch.tensor(starts), positions, right=True)
    yield from positions.split(parts.unique_consecutive(return_counts=True)[1].tolist())


TOKENISE = "turn it into numbers first, or pass collate_fn= a function from a list of texts to a batch"
REMEDY = (
    "give them one shape, or pass collate_fn= to pad or transform them (collate_fn=list for a model that takes a list "
    "of examples)"
)


def as_source(holder: Any, collate: Collate | None) -> Source:
    """Whole arrays where the holder is made of them, else its items."""
    if isinstance(holder, TensorDataset) and collate is None:
        return columns(holder.tensors[0])
    if isinstance(holder, (Tensor, np.ndarray)) and collate is None:
        return columns(holder)
    if getattr(holder, "by_batch", False):
        return Batched(holder)
    if isinstance(holder, Mapping):
        return named_columns(holder)
    if isinstance(holder, (str, bytes, PurePath)):
        raise TypeError(f"a pool holds examples; got {holder!r}: read what it names, and pass that")
    if hasattr(holder, "toarray"):  # scipy's
        return Columns(SparseRows(holder))
    if isinstance(holder, tuple):
        raise TypeError(
            "a tuple could be examples or (inputs, targets): pass the inputs alone, "
            "a TensorDataset of both, or a list of examples"
        )
    if isinstance(holder, IterableDataset) or not (
        hasattr(holder, "__getitem__") and hasattr(holder, "__len__")
    ):
        raise TypeError(
            f"a pool needs examples by position (len and []); got {type(holder).__name__}: "
            "use a map-style dataset, a tensor, an array or a list"
        )
    return Items(holder, collate)


def named_columns(holder: Mapping[str, Any]) -> Columns:
    """The columns that a model takes: labels and words are left out, but never all there is."""
    inputs = {key: holder[key] for key in holder if key not in LABEL_KEYS}
    kept = {key: as_column(key, inputs[key]) for key in inputs if not is_words(inputs[key])}
    check_kept(kept, holder)
    return Columns(kept)


def as_column(key: str, values: Any) -> Tensor | np.ndarray:
    """A column of a pool as an array of numbers, or an error that names it."""
    if isinstance(values, (Tensor, np.ndarray)) and values.dtype != object:
        check_dense(values)
        return values
    try:  # an array of objects may hold lists that are equally long
        column = np.asarray(values.tolist() if hasattr(values, "tolist") else values)
    except ValueError:
        raise ValueError(
            f"column {key!r} holds examples of unequal length: pad them, "
            "or pass a list of examples and collate_fn="
        ) from None
    if column.dtype.kind in "OSU":
        kinds = ", ".join(sorted({type(entry).__name__.rstrip("_") for entry in column.flat}))
        raise ValueError(f"column {key!r} holds {kinds}, which no model takes: leave it out")
    return column


def columns(array: Tensor | np.ndarray) -> Columns:
    """An array of examples."""
    check_dense(array)
    if array.ndim == 0 or (isinstance(array, np.ndarray) and array.dtype.kind in "OSU"):
        shape = tuple(array.shape)
        raise TypeError(f"a pool needs an array (n, ...) of numbers; got {array.dtype} of shape {shape}")
    return Columns(array)


SPARSE = "a pool is cut into rows, which only dense arrays allow"


def check_dense(array: Tensor | np.ndarray) -> None:
    """Refuse tensors that are sparse, nested or without numbers."""
    if isinstance(array, Tensor) and array.device.type == "meta":
        raise ValueError("the pool is on the meta device, which holds no numbers: make it on the cpu")
    if isinstance(array, Tensor) and (array.layout != torch.strided or array.is_nested):
        how = "pass a list of its tensors and collate_fn=" if array.is_nested else "pass pool.to_dense()"
        raise TypeError(f"{SPARSE}; got a tensor of {array.layout}: {how}")


def unshuffled(
    loader: DataLoader[Any], collate: Collate | None, workers: int
) -> tuple[Any, Collate | None, int]:
    """A loader's dataset, collate function and workers; a shuffling one is an error."""
    if loader.batch_size is None and loader.batch_sampler is None:
        raise ValueError("this DataLoader has batch_size=None, so its items may be batches: pass its dataset")
    if isinstance(loader.dataset, IterableDataset):
        raise ValueError(
            f"this DataLoader reads {type(loader.dataset).__name__}, an IterableDataset without positions: use a "
            "map-style dataset, a tensor, an array or a list"
        )
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    if not isinstance(sampler, SequentialSampler):
        raise ValueError(
            f"this DataLoader takes its order from {type(sampler).__name__}: positions would mean nothing; "
            "pass one with shuffle=False and no sampler, or its dataset"
        )
    own = loader.collate_fn if loader.collate_fn is not default_collate else None
    return loader.dataset, collate or own, workers or loader.num_workers


def shapes(inputs: list[Any]) -> str:
    """The shapes in a batch, for an error."""
    found = sorted({str(tuple(x.shape)) if hasattr(x, "shape") else type(x).__name__ for x in inputs})
    return "they are " + ", ".join(found[:5])


def rows_of(array: Tensor | np.ndarray | SparseRows, index: slice | Tensor) -> Tensor:
    """Some rows of an array; of a memory-mapped file only these are read."""
    if isinstance(array, Tensor):
        return array[index]
    places = (
        index.numpy() if isinstance(index, Tensor) else index
    )  # a tensor of one would be a number to numpy
    return torch.from_numpy(np.array(array[places]))
