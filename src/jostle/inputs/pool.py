"""Any dataset, array or tensor, seen as inputs only: targets cannot leak into a strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler, TensorDataset, default_collate

Inputs = Any  # a tensor, a list of tensors (several arguments), or a dict of tensors (arguments by name)
Collate = Callable[[list[Any]], Any]

LABEL_KEYS = frozenset({"label", "labels", "label_ids", "target", "targets"})


@dataclass(frozen=True)
class Columns:
    """Whole arrays held side by side, sliced without touching single examples."""

    arrays: Any  # a tensor or array (n, ...), or a dict of these

    def __len__(self) -> int:
        arrays = list(self.arrays.values()) if isinstance(self.arrays, Mapping) else [self.arrays]
        lengths = {len(array) for array in arrays}
        if len(lengths) != 1:
            raise ValueError(f"the pool's columns have different lengths: {sorted(lengths)}")
        return lengths.pop()

    def batches(self, positions: Tensor, size: int, workers: int) -> Iterator[Inputs]:
        """Inputs of `size` examples at a time."""
        contiguous = len(positions) > 0 and bool((positions.diff() == 1).all())
        for start in range(0, len(positions), size):
            part = positions[start : start + size]
            index = slice(int(part[0]), int(part[-1]) + 1) if contiguous else part
            yield mapped(partial(rows_of, index=index), self.arrays)


@dataclass(frozen=True)
class Batched:
    """A holder that says `by_batch`: it gives a whole batch for a tensor of positions."""

    holder: Any

    def __len__(self) -> int:
        return len(self.holder)

    def batches(self, positions: Tensor, size: int, workers: int) -> Iterator[Inputs]:
        """Inputs of `size` examples at a time."""
        return (inputs_of(self.holder[part]) for part in positions.split(size))


@dataclass(frozen=True)
class Items:
    """A dataset read item by item, by worker processes if asked to."""

    dataset: Any
    collate: Collate | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, positions: Tensor, size: int, workers: int) -> Iterator[Inputs]:
        """Inputs of `size` examples at a time; targets are dropped before anything looks at them."""
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
            return inputs_of(self.collate(items))
        inputs = [inputs_of(item) for item in items]
        try:
            return default_collate(inputs)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"cannot batch these examples: {shapes(inputs)}; {error}; {REMEDY}") from error


Source = Columns | Batched | Items

REMEDY = "give them one shape, or pass collate_fn= to pad or transform them"


@dataclass(frozen=True)
class Pool:
    """Inputs by position, batch by batch; `Pool.of` makes one of anything that holds inputs."""

    source: Source
    positions: Tensor  # (n,) of the examples in the user's own numbering
    workers: int = 0
    largest_batch: int | None = None  # the user's DataLoader knows what fits

    @classmethod
    def of(cls, holder: Any, collate_fn: Collate | None = None, num_workers: int = 0) -> Pool:
        """See a tensor, array, dict of columns, dataset, data loader or list as inputs."""
        if isinstance(holder, Pool):
            return holder
        largest = None
        if isinstance(holder, DataLoader):
            largest = holder.batch_size
            holder, collate_fn, num_workers = unshuffled(holder, collate_fn, num_workers)
        source = as_source(holder, collate_fn)
        return cls(source, torch.arange(len(source), device="cpu"), num_workers, largest)

    def __len__(self) -> int:
        return len(self.positions)

    def without(self, excluded: Any) -> Pool:
        """The pool less some positions; all of it less None."""
        if excluded is None:
            return self
        gone = as_positions(excluded)
        if len(gone) and not (int(gone.min()) >= 0 and int(gone.max()) < len(self.source)):
            raise ValueError(
                f"exclude holds positions {int(gone.min())} to {int(gone.max())}, "
                f"but the pool's positions are 0 to {len(self.source) - 1}"
            )
        return replace(self, positions=self.positions[~torch.isin(self.positions, gone)])

    def take(self, places: Tensor) -> Pool:
        """The examples at these places of this pool."""
        return replace(self, positions=self.positions[places])

    def batches(self, size: int) -> Iterator[Inputs]:
        """All inputs in order, `size` examples at a time."""
        return self.source.batches(self.positions, size, self.workers)

    def first(self, count: int) -> Inputs:
        """The first few inputs as one batch."""
        if not len(self):
            raise ValueError("the pool is empty: there is nothing to choose from")
        return next(
            replace(self.take(torch.arange(min(count, len(self)), device="cpu")), workers=0).batches(count)
        )


@dataclass(frozen=True)
class Labeled:
    """A dataset of (x, y): inputs as a pool, and targets for the methods that need them."""

    dataset: Any
    inputs: Pool

    @classmethod
    def of(cls, dataset: Any, collate_fn: Collate | None = None, num_workers: int = 0) -> Labeled:
        """See a dataset of (x, y) as inputs and targets."""
        inputs = Pool.of(dataset, collate_fn, num_workers)
        return cls(dataset.dataset if isinstance(dataset, DataLoader) else dataset, inputs)

    def __len__(self) -> int:
        return len(self.inputs)

    def targets(self) -> Tensor:
        """All targets, (m, ...)."""
        if isinstance(self.dataset, TensorDataset) and len(self.dataset.tensors) > 1:
            return self.dataset.tensors[1]
        if isinstance(self.dataset, Mapping):
            return torch.as_tensor(target_of(self.dataset))
        return torch.stack([torch.as_tensor(target_of(item)) for item in each(self.dataset)])


def as_source(holder: Any, collate: Collate | None) -> Source:
    """Whole arrays where the holder is made of them, else its items."""
    if isinstance(holder, TensorDataset) and collate is None:
        return Columns(holder.tensors[0])
    if isinstance(holder, (Tensor, np.ndarray)) and collate is None:
        return columns(holder)
    if getattr(holder, "by_batch", False):
        return Batched(holder)
    if isinstance(holder, Mapping):
        return named_columns(holder)
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


def as_positions(excluded: Any) -> Tensor:
    """Positions as a tensor on the CPU; a mask or fractions are refused, since they would be misread."""
    if isinstance(excluded, Tensor):
        excluded = excluded.cpu()
    held = np.asarray(sorted(excluded) if isinstance(excluded, (set, frozenset)) else excluded)
    if held.size and not np.issubdtype(held.dtype, np.integer):
        raise ValueError(
            f"exclude holds positions, whole numbers; got {held.dtype}: of a mask, pass its nonzero places"
        )
    return torch.from_numpy(held.astype(np.int64).reshape(-1))


def check_count(n: int, candidates: Pool, inputs: Pool) -> None:
    """n examples can be chosen from the candidates, or an error that says why not."""
    if not len(inputs):
        raise ValueError("the pool is empty: there is nothing to choose from")
    if isinstance(n, bool) or int(n) != n or n < 1:
        raise ValueError(f"asked for n={n} examples; n is a whole number of at least 1")
    if n > len(candidates):
        less = f" less {len(inputs) - len(candidates)} excluded" if len(candidates) < len(inputs) else ""
        raise ValueError(f"asked for {n} examples from a pool of {len(inputs)}{less}")


def named_columns(holder: Mapping[str, Any]) -> Columns:
    """The columns that a model takes: labels and words are left out, but never all there is."""
    inputs = {key: holder[key] for key in holder if key not in LABEL_KEYS}
    kept = {key: as_column(key, inputs[key]) for key in inputs if not is_words(inputs[key])}
    check_kept(kept, holder)
    return Columns(kept)


def check_kept(kept: Mapping[str, Any], holder: Mapping[str, Any]) -> None:
    """Something is left for the model, or an error that says what was not."""
    if not kept:
        gone = ", ".join(map(repr, holder)) or "none"
        raise ValueError(f"the pool has no column of numbers; left out as words or labels: {gone}")


def as_column(key: str, values: Any) -> Tensor | np.ndarray:
    """A column of a pool as an array of numbers, or an error that names it."""
    if isinstance(values, (Tensor, np.ndarray)) and values.dtype != object:
        return values
    try:  # an array of objects may hold lists that are equally long
        column = np.asarray(values.tolist() if hasattr(values, "tolist") else values)
    except ValueError:
        raise ValueError(
            f"column {key!r} holds examples of unequal length: pad them, "
            "or pass a list of examples and collate_fn="
        ) from None
    if column.dtype.kind in "OSU":
        kinds = ", ".join(sorted({type(entry).__name__ for entry in column.flat}))
        raise ValueError(f"column {key!r} holds {kinds}, which no model takes: leave it out")
    return column


def is_words(values: Any) -> bool:
    """Whether a column or a target is text, judged by its first entry that is there."""
    return isinstance(first_entry(values), (str, bytes))


def first_entry(values: Any) -> Any:
    """The first entry of nested lists or arrays that is not None."""
    whole = (str, bytes, Tensor, Mapping)
    while isinstance(values, Iterable) and not isinstance(values, whole) and getattr(values, "ndim", 1) > 0:
        values = next((value for value in values if value is not None), None)
    return values


def columns(array: Tensor | np.ndarray) -> Columns:
    """An array of examples."""
    if array.ndim == 0 or (isinstance(array, np.ndarray) and array.dtype == object):
        raise TypeError(
            f"a pool needs an array (n, ...) of numbers; got {array.dtype} of shape {array.shape}"
        )
    return Columns(array)


def unshuffled(
    loader: DataLoader[Any], collate: Collate | None, workers: int
) -> tuple[Any, Collate | None, int]:
    """A loader's dataset, collate function and workers; a shuffling one is an error."""
    if loader.batch_size is None and loader.batch_sampler is None:
        raise ValueError("this DataLoader has batch_size=None, so its items may be batches: pass its dataset")
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    if isinstance(loader.dataset, IterableDataset) or not isinstance(sampler, SequentialSampler):
        raise ValueError(
            f"this DataLoader takes its order from {type(sampler).__name__}: positions would mean nothing; "
            "pass one with shuffle=False and no sampler, or its dataset"
        )
    own = loader.collate_fn if loader.collate_fn is not default_collate else None
    return loader.dataset, collate or own, workers or loader.num_workers


def inputs_of(item: Any) -> Inputs:
    """What the model is given of one item or batch: never its targets."""
    if isinstance(item, Mapping):
        kept = {key: value for key, value in item.items() if key not in LABEL_KEYS}
        kept = {key: numeric(value) for key, value in kept.items() if not isinstance(value, (str, bytes))}
        check_kept(kept, item)
        return kept
    if isinstance(item, (tuple, list)) and item and not isinstance(item[0], Number):
        return inputs_of(item[0]) if isinstance(item[0], Mapping) else numeric(item[0])
    return numeric(item)


def target_of(item: Any) -> Any:
    """The target of one labelled item."""
    if isinstance(item, Mapping):
        found = [item[key] for key in item if key in LABEL_KEYS]
    else:
        found = list(item[1:2]) if isinstance(item, (tuple, list)) else []
    if found and is_words(found[0]):
        word = first_entry(found[0])
        raise TypeError(f"labels are numbers here; got {str(word)!r}: give each class a number from 0 on")
    if found:
        return found[0]
    raise TypeError(f"a labelled set holds (x, y) items or dicts with a label; got {type(item).__name__}")


def each(dataset: Any) -> Iterator[Any]:
    """A dataset's items in order: not every dataset knows how to be iterated."""
    return (dataset[position] for position in range(len(dataset)))


def numeric(value: Any) -> Any:
    """Lists of numbers as tensors, since collating would transpose them."""
    return torch.tensor(value) if isinstance(value, list) and value and is_numbers(value) else value


def is_numbers(value: Sequence[Any]) -> bool:
    """Whether a list holds numbers only, nested ones included."""
    return all(
        isinstance(entry, Number) or (isinstance(entry, list) and is_numbers(entry)) for entry in value
    )


def shapes(inputs: list[Any]) -> str:
    """The shapes in a batch, for an error."""
    found = sorted({str(tuple(x.shape)) if hasattr(x, "shape") else type(x).__name__ for x in inputs})
    return "they are " + ", ".join(found[:5])


def rows_of(array: Tensor | np.ndarray, index: slice | Tensor) -> Tensor:
    """Some rows of an array; of a memory-mapped file only these are read."""
    return array[index] if isinstance(array, Tensor) else torch.from_numpy(np.array(array[index]))


def mapped(change: Callable[[Any], Any], inputs: Inputs) -> Inputs:
    """Inputs with every array in them changed."""
    if isinstance(inputs, Mapping):
        return {key: mapped(change, value) for key, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return [mapped(change, value) for value in inputs]
    return change(inputs) if isinstance(inputs, (Tensor, np.ndarray)) else inputs


def count(inputs: Inputs) -> int:
    """How many examples a batch holds."""
    if isinstance(inputs, Mapping):
        return count(next(iter(inputs.values())))
    return count(inputs[0]) if isinstance(inputs, (tuple, list)) else len(inputs)


def arrays(inputs: Inputs) -> Iterator[Tensor]:
    """Every tensor of a batch."""
    if isinstance(inputs, Mapping):
        inputs = list(inputs.values())
    if isinstance(inputs, (tuple, list)):
        for value in inputs:
            yield from arrays(value)
    elif isinstance(inputs, Tensor):
        yield inputs
