"""A pool: any dataset, array, table or loader seen as inputs only; and a labeled set, its inputs and its targets."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler, TensorDataset, default_collate

from jostle.inputs.sources import (
    LABEL_KEYS,
    Batched,
    Collate,
    Columns,
    Inputs,
    Items,
    Source,
    SparseRows,
    Window,
    check_kept,
    inputs_of,
    is_words,
    refuse_words,
    target_of,
)


def is_frame(holder: Any) -> bool:
    """Whether a thing is a table with named columns."""
    return hasattr(holder, "to_numpy") and hasattr(holder, "columns")


def numbers_of(frame: Any) -> NDArray[np.float64]:
    """The columns of a table side by side, (n, columns), labels left out; one of words is an error that names it."""
    kept = [name for name in frame.columns if str(name) not in LABEL_KEYS]
    columns = [np.asarray(as_column(str(name), frame[name].to_numpy())) for name in kept]
    if not columns or any(column.ndim != 1 for column in columns):
        named = ", ".join(map(repr, frame.columns)) or "none"
        raise ValueError(f"a table needs distinct columns of numbers beside its labels; it has {named}")
    return np.stack(columns, axis=1).astype(np.float64)


def labeled_frame(frame: Any) -> TensorDataset:
    """A table with a column of labels, where it has one, as a dataset."""
    inputs = torch.from_numpy(numbers_of(frame))
    labels = [name for name in frame.columns if str(name) in LABEL_KEYS]
    return TensorDataset(inputs, *(as_targets(frame[name].to_numpy()) for name in labels[:1]))


def paired(inputs: Any, targets: Any) -> Any:
    """Inputs and targets held apart, (X, y), as a dataset of both."""
    held = numbers_of(inputs) if is_frame(inputs) else inputs
    goals = as_targets(targets)
    length = len(next(iter(held.values()))) if isinstance(held, Mapping) else len(held)
    if goals.ndim == 0 or length != len(goals):
        raise ValueError(
            f"labeled=(X, y) needs a y for each x; got {length} inputs and y of {tuple(goals.shape)}"
        )
    if isinstance(held, Mapping):
        return {**{key: held[key] for key in held if key not in LABEL_KEYS}, "labels": goals}
    if isinstance(held, np.ndarray):
        held = torch.from_numpy(held if held.flags.writeable else held.copy())
    return TensorDataset(held, goals) if isinstance(held, Tensor) else Pairs(held, goals)


def as_targets(values: Any) -> Tensor:
    """Targets as a tensor; words are an error that says what to do."""
    refuse_words(values)
    return values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))


@dataclass(frozen=True)
class Pairs:
    """A dataset of (x, y) from anything that has inputs by position."""

    inputs: Any
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, position: int) -> tuple[Any, Tensor]:
        return inputs_of(self.inputs[position]), self.targets[position]


@dataclass(frozen=True)
class Pool:
    """Inputs by position, batch by batch; `Pool.of` makes one of anything that holds inputs."""

    source: Source
    """What holds the examples."""
    positions: Tensor
    """Which examples these are in the user's own numbering, (n,)."""
    workers: int = 0
    """Worker processes that read examples."""
    largest_batch: int | None = None
    """At most so many at once, since the user's data loader knows what fits; None: any number."""

    @classmethod
    def of(cls, holder: Any, collate_fn: Collate | None = None, num_workers: int = 0) -> Pool:
        """See a tensor, array, dict of columns, dataset, data loader or list as inputs.

        Args:
            holder: Any of these; a pool is taken as it is.
            collate_fn: Puts examples together to a batch, as a `DataLoader` takes it.
            num_workers: Worker processes that read examples.
        """
        if isinstance(holder, Pool):
            return holder
        source, num_workers, largest = cls.parts_of(holder, collate_fn, num_workers)
        return cls(source, torch.arange(len(source), device="cpu"), num_workers, largest)

    @staticmethod
    def parts_of(holder: Any, collate_fn: Collate | None, num_workers: int) -> tuple[Source, int, int | None]:
        """The source of a pool, its workers and its largest batch, without a list of positions.

        Args:
            holder: As `of` takes it.
            collate_fn: As `of` takes it.
            num_workers: As `of` takes it.
        """
        if isinstance(holder, Pool):
            if len(holder) != len(holder.source):
                raise ValueError("a part of a pool cannot be cut into shards: pass all of it, and exclude=")
            return holder.source, holder.workers, holder.largest_batch
        largest = None
        if isinstance(holder, DataLoader):
            largest = holder.batch_size
            holder, collate_fn, num_workers = unshuffled(holder, collate_fn, num_workers)
        if hasattr(holder, "to_numpy"):
            holder, collate_fn = numbers_of(holder) if is_frame(holder) else holder.to_numpy(), None
        return as_source(holder, collate_fn), num_workers, largest

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def in_arrays(self) -> bool:
        """Whether examples lie in arrays, so that all have one shape."""
        source = self.source.inside if isinstance(self.source, Window) else self.source
        return isinstance(source, Columns)

    def without(self, excluded: Any) -> Pool:
        """The pool less the positions that are `excluded`; all of it less None."""
        if excluded is None:
            return self
        gone = positions_in(excluded, len(self.source))
        return replace(self, positions=self.positions[~torch.isin(self.positions, gone)])

    def take(self, places: Tensor) -> Pool:
        """The examples at these `places` of this pool."""
        return replace(self, positions=self.positions[places])

    def batches(self, size: int) -> Iterator[Inputs]:
        """All inputs in order, `size` examples at a time."""
        return self.source.batches(self.positions, size, self.workers)

    def first(self, count: int) -> Inputs:
        """The first inputs, at most `count`, as one batch."""
        if not len(self):
            raise ValueError("the pool is empty: there is nothing to choose from")
        few = self.take(torch.arange(min(count, len(self)), device="cpu"))
        return next(replace(few, workers=0).batches(count))


def as_source(holder: Any, collate: Collate | None) -> Source:
    """Whole arrays where the holder is made of them, else its items."""
    array = holder.tensors[0] if isinstance(holder, TensorDataset) else holder
    if isinstance(array, (Tensor, np.ndarray)) and collate is None:
        return columns(array)
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
    by_position = hasattr(holder, "__getitem__") and hasattr(holder, "__len__")
    if isinstance(holder, IterableDataset) or not by_position:
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


def check_dense(array: Tensor | np.ndarray) -> None:
    """Refuse tensors that are sparse, nested or without numbers."""
    if isinstance(array, Tensor) and array.device.type == "meta":
        raise ValueError("the pool is on the meta device, which holds no numbers: make it on the cpu")
    if isinstance(array, Tensor) and (array.layout != torch.strided or array.is_nested):
        how = "pass a list of its tensors and collate_fn=" if array.is_nested else "pass pool.to_dense()"
        raise TypeError(
            f"a pool is cut into rows, which only dense arrays allow; got a tensor of {array.layout}: {how}"
        )


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


def positions_in(excluded: Any, size: int) -> Tensor:
    """Distinct positions of a pool of this `size`, ascending, or an error; none for None."""
    if isinstance(excluded, Tensor):
        excluded = excluded.cpu()
    if excluded is None or isinstance(excluded, (set, frozenset)):
        excluded = sorted(excluded or ())
    held = np.asarray(excluded)
    if held.size and not np.issubdtype(held.dtype, np.integer):  # a mask or fractions would be misread
        raise ValueError(
            f"exclude holds positions, whole numbers; got {held.dtype}: of a mask, pass its nonzero places"
        )
    gone = torch.from_numpy(np.unique(held.astype(np.int64)))
    if len(gone) and not (int(gone[0]) >= 0 and int(gone[-1]) < size):
        raise ValueError(
            f"exclude holds positions {int(gone[0])} to {int(gone[-1])}, "
            f"but the pool's positions are 0 to {size - 1}"
        )
    return gone


def check_count(n: int, candidates: Sized, inputs: Sized) -> int:
    """n, so many of the `candidates` as can be chosen, or an error that says why not; `inputs` is the pool before any
    were excluded.
    """
    if not len(inputs):
        raise ValueError("the pool is empty: there is nothing to choose from")
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < 1:
        raise ValueError(f"asked for n={n!r} examples; n is a whole number of at least 1")
    if n > len(candidates):
        less = f" less {len(inputs) - len(candidates)} excluded" if len(candidates) < len(inputs) else ""
        raise ValueError(f"asked for {n} examples from a pool of {len(inputs)}{less}")
    return operator.index(n)


@dataclass(frozen=True)
class Labeled:
    """A dataset of (x, y): inputs as a pool, and targets for the methods that need them."""

    dataset: Any
    """Examples (x, y) by position, or columns of which one is labels."""
    inputs: Pool
    """The same without targets."""

    @classmethod
    def of(cls, dataset: Any, collate_fn: Collate | None = None, num_workers: int = 0) -> Labeled:
        """See a dataset of (x, y), a table with labels, or a pair (X, y) as inputs and targets.

        Args:
            dataset: Any of these.
            collate_fn: Puts examples together to a batch, as a `DataLoader` takes it.
            num_workers: Worker processes that read examples.
        """
        if is_frame(dataset):
            dataset = labeled_frame(dataset)
        elif isinstance(dataset, tuple) and len(dataset) == 2 and not isinstance(dataset[0], tuple):
            dataset = paired(*dataset)
        inputs = Pool.of(dataset, collate_fn, num_workers)
        return cls(dataset.dataset if isinstance(dataset, DataLoader) else dataset, inputs)

    def __len__(self) -> int:
        return len(self.inputs)

    def targets_at_hand(self) -> Tensor | None:
        """All targets (m, ...) if they can be had without reading examples one by one; None otherwise."""
        if not len(self) or not isinstance(self.dataset, (TensorDataset, Mapping)):
            return None
        try:
            return self.targets()
        except (TypeError, ValueError):  # none, or words: an error only for methods that need them
            return None

    def targets(self) -> Tensor:
        """All targets, (m, ...)."""
        if isinstance(self.dataset, TensorDataset) and len(self.dataset.tensors) > 1:
            return self.dataset.tensors[1]
        if isinstance(self.dataset, Mapping):
            return torch.as_tensor(target_of(self.dataset))
        items = (
            self.dataset[place] for place in range(len(self.dataset))
        )  # not every dataset can be iterated
        return torch.stack([torch.as_tensor(target_of(item)) for item in items])
