"""A batch of inputs, as a model takes it: its examples counted, its arrays seen or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

Inputs = Any  # a tensor, a list of tensors (several arguments), or a dict of tensors (arguments by name)


def mapped(change: Callable[[Any], Any], inputs: Inputs) -> Inputs:
    """The same `inputs`, with `change` made to every array in them."""
    if isinstance(inputs, Mapping):
        return {key: mapped(change, value) for key, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return [mapped(change, value) for value in inputs]
    return change(inputs) if isinstance(inputs, (Tensor, np.ndarray)) else inputs


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
    return count(inputs[0]) if isinstance(inputs, (tuple, list)) else len(inputs)


def arrays(inputs: Inputs) -> Iterator[Tensor]:
    """Every tensor of a batch of `inputs`."""
    if isinstance(inputs, Mapping):
        inputs = list(inputs.values())
    if isinstance(inputs, (tuple, list)):
        for value in inputs:
            yield from arrays(value)
    elif isinstance(inputs, Tensor):
        yield inputs
