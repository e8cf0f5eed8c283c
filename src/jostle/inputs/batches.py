"""A batch of inputs, as a model takes it: its examples counted, its arrays seen or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

Inputs = Any  # a tensor, a list of tensors (several arguments), or a dict of tensors (arguments by name)


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
