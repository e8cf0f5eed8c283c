"""Tables of pandas and polars, and pairs (X, y), as arrays: whatever says `to_numpy` will do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from jostle.inputs.items import LABEL_KEYS, inputs_of, refuse_words
from jostle.inputs.sources import as_column


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
