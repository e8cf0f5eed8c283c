"""Batches and items of inputs, and the sources they are read from: arrays, holders of batches, datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

Inputs = Any  # a tensor, a list of tensors (several arguments), a dict of them (by name), or an ExampleList


class ExampleList(list[Any]):
    """A batch of examples that need not have one shape: the model takes the whole list as its only argument.

    Args:
        iterable: The examples.
    """


class SparseRows:
    """A sparse matrix of scipy as rows (n, d): a batch of them is made dense when it is read.

    Args:
        matrix: The sparse matrix or array, (n, d).
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2:
            raise TypeError(f"a sparse array must be (n, d); got shape {matrix.shape}")
        self.matrix = matrix.tocsr()
        self.shape, self.dtype, self.ndim = self.matrix.shape, self.matrix.dtype, 2

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.asarray(self.matrix[index].toarray())  # (b, d)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.matrix.toarray(), dtype)

    def part(self, start: int, stop: int) -> SparseRows:
        """The rows from `start` up to `stop`."""
        return SparseRows(self.matrix[start:stop])


def mapped(change: Callable[[Any], Any], inputs: Inputs) -> Inputs:
    """Return `inputs` with `change` applied to every array in them."""
    if isinstance(inputs, Mapping):
        return {key: mapped(change, value) for key, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        changed = [mapped(change, value) for value in inputs]
        return ExampleList(changed) if isinstance(inputs, ExampleList) else changed
    return change(inputs) if isinstance(inputs, (Tensor, np.ndarray, SparseRows)) else inputs


def unshared(tensor: Tensor, given: Tensor) -> Tensor:
    """A `tensor` made of a `given` one, copied where it still lies in the same memory."""
    same = tensor.device == given.device and tensor.data_ptr() == given.data_ptr()
    return tensor.clone() if same else tensor


def versions(inputs: Inputs) -> list[int]:
    """How often each tensor of a batch of `inputs` has been written into."""
    return [0 if array.is_inference() else array._version for array in arrays(inputs)]


def count(inputs: Inputs) -> int:
    """How many examples a batch of `inputs` holds."""
    if isinstance(inputs, Mapping):
        return count(next(iter(inputs.values())))
    several = isinstance(inputs, (tuple, list)) and not isinstance(inputs, ExampleList)
    return count(inputs[0]) if several else len(inputs)


def arrays(inputs: Inputs) -> Iterator[Tensor]:
    """Every tensor of a batch of `inputs`."""
    if isinstance(inputs, Mapping):
        inputs = list(inputs.values())
    if isinstance(inputs, (tuple, list)):
        for value in inputs:
            yield from arrays(value)
    elif isinstance(inputs, Tensor):
        yield inputs


LABEL_KEYS = frozenset({"label", "labels", "label_ids", "target", "targets"})


def inputs_of(item: Any) -> Inputs:
    """Return the inputs of one item or batch, without its targets."""
    if isinstance(item, Mapping):
        kept = {key: value for key, value in item.items() if key not in LABEL_KEYS}
        kept = {key: numeric(value) for key, value in kept.items() if not isinstance(value, (str, bytes))}
        check_kept(kept, item)
        return kept
    several = isinstance(item, tuple) or (isinstance(item, list) and not is_numbers(item))
    if several and item:  # a list of numbers is an input; a tuple is (x, y), also where x is a number
        return inputs_of(item[0]) if isinstance(item[0], Mapping) else numeric(item[0])
    return numeric(item)


def target_of(item: Any) -> Any:
    """The target of one labeled item."""
    found: list[Any] = list(item[1:2]) if isinstance(item, (tuple, list)) else []
    if isinstance(item, Mapping):
        found = [item[key] for key in item if key in LABEL_KEYS]
    if not found:
        raise TypeError(f"a labeled set holds (x, y) items or dicts with a label; got {type(item).__name__}")
    refuse_words(found[0])
    return found[0]


def refuse_words(targets: Any) -> None:
    """An error where targets are words."""
    if is_words(targets):
        word = str(first_entry(targets))
        raise TypeError(f"labels are numbers here; got {word!r}: give each class a number from 0 on")


def check_kept(kept: Mapping[str, Any], holder: Mapping[str, Any]) -> None:
    """Something is left for the model, or an error that says what was not."""
    if not kept:
        gone = ", ".join(map(repr, holder)) or "none"
        raise ValueError(f"the pool has no column of numbers; left out as words or labels: {gone}")


def is_words(values: Any) -> bool:
    """Whether a column or a target is text, judged by its first entry that is there."""
    return isinstance(first_entry(values), (str, bytes))


def first_entry(values: Any) -> Any:
    """The first entry of nested lists or arrays that is not None."""
    whole = (str, bytes, Tensor, Mapping)
    while isinstance(values, Iterable) and not isinstance(values, whole) and getattr(values, "ndim", 1) > 0:
        values = next((value for value in values if value is not None), None)
    return values


def numeric(value: Any) -> Any:
    """Lists of numbers as tensors, since collating would transpose them."""
    return torch.tensor(value) if isinstance(value, list) and value and is_numbers(value) else value


def is_numbers(value: Sequence[Any]) -> bool:
    """Whether a list holds numbers only, nested ones included."""
    return all(
        isinstance(entry, Number) or (isinstance(entry, list) and is_numbers(entry)) for entry in value
    )


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
        batches = [part.tolist() for part in positions.split(size)]
        yield from DataLoader(
            self.dataset, batch_sampler=batches, num_workers=workers, collate_fn=self.collated
        )

    def collated(self, items: list[Any]) -> Inputs:
        """One batch of inputs; the user's own collate function sees whole items."""
        inputs = [inputs_of(item) for item in items]
        if self.collate is list:
            return ExampleList(inputs)
        if self.collate is not None:
            made = self.collate(items)
            listed = example_list(made, inputs)
            return inputs_of(made) if listed is None else listed
        if isinstance(inputs[0], (str, bytes)):
            raise TypeError(
                f"the pool holds text, such as {inputs[0][:40]!r}, which no model takes: turn it into numbers first, "
                "or pass collate_fn= a function from a list of texts to a batch"
            )
        try:
            return default_collate(inputs)
        except (RuntimeError, TypeError) as error:
            shapes = {str(tuple(x.shape)) if hasattr(x, "shape") else type(x).__name__ for x in inputs}
            raise ValueError(
                f"cannot batch these examples: they are {', '.join(sorted(shapes)[:5])}; {error}; give them one "
                "shape, or pass collate_fn= to pad or transform them (collate_fn=list for a model that takes a list "
                "of examples)"
            ) from error


def example_list(made: Any, own: list[Inputs]) -> ExampleList | None:
    """The examples of a collated batch that was kept as a list, as detectors take it; None where it was put together.

    Args:
        made: What a collate function returned: a list of examples, or (examples, targets).
        own: The inputs of the items that it was given.
    """
    for held in (made, made[0] if isinstance(made, (tuple, list)) and made else None):
        if isinstance(held, (tuple, list)) and len(held) == len(own):
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


def parted(positions: Tensor, starts: Sequence[int]) -> Iterator[Tensor]:
    """Positions, cut wherever the next lies in another of the parts that begin at `starts`."""
    if not len(starts) or not len(positions):
        yield positions
        return
    parts = torch.searchsorted(torch.tensor(starts), positions, right=True)
    yield from positions.split(parts.unique_consecutive(return_counts=True)[1].tolist())


def rows_of(array: Tensor | np.ndarray | SparseRows, index: slice | Tensor) -> Tensor:
    """Some rows of an array; of a memory-mapped file only these are read."""
    if isinstance(array, Tensor):
        return array[index]
    places = index.numpy() if isinstance(index, Tensor) else index  # numpy takes a tensor of one for a number
    return torch.from_numpy(np.array(array[places]))


def cut(holder: Any, start: int, stop: int) -> Any:
    """Return the examples of a holder from `start` up to `stop`, to be sent; None where it cannot be cut.

    A part has memory of its own, as a view would take all of it along, and paths that hold in any folder.
    """
    if isinstance(holder, Tensor):
        return holder[start:stop].clone()
    if isinstance(holder, np.ndarray):
        return holder[start:stop].copy()
    if isinstance(holder, (list, tuple)):
        return holder[start:stop]
    return holder.part(start, stop) if hasattr(holder, "part") else None
