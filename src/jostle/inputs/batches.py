"""A batch of inputs, as a model takes it: its examples counted, its arrays seen or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

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
    """The same `inputs`, with `change` made to every array in them."""
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
