"""A labeled set: its inputs as a pool, its targets for the methods that need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from jostle.inputs.frames import is_frame, labeled_frame, paired
from jostle.inputs.items import target_of
from jostle.inputs.pool import Pool
from jostle.inputs.sources import Collate


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
        return torch.stack([torch.as_tensor(target_of(item)) for item in each(self.dataset)])


def each(dataset: Any) -> Iterator[Any]:
    """A dataset's items in order: not every dataset knows how to be iterated."""
    return (dataset[position] for position in range(len(dataset)))
