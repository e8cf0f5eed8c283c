"""Views of a data set without copies: some of its rows, a pool, a labeled dataset of (x, y)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from jostle.datasets.data import Data, Split
from jostle.inputs import Batched, Pool
from jostle.training.train import Indexed


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of inputs that are read batch by batch."""

    whole: Indexed
    ids: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Tensor) -> Any:
        return self.whole[self.ids[index]]


def take_rows(whole: Any, ids: Tensor) -> Any:
    """Return some rows: of a tensor a tensor, of anything else a view."""
    return whole[ids] if isinstance(whole, Tensor) else Part(whole, ids)


def as_pool(inputs: Indexed, ids: Tensor | None = None) -> Pool:
    """Return inputs as a pool whose positions are their ids."""
    return Pool(Batched(inputs), torch.arange(len(inputs)) if ids is None else ids)


class Examples(Dataset[tuple[Any, Tensor]]):
    """Labeled examples of a split that are not tensors: one for a position, a batch for a tensor of positions.

    Texts of unequal length are padded for a batch only, so they cannot be put together one by one.
    """

    by_batch = True

    def __init__(self, inputs: Indexed, targets: Indexed) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int | Tensor) -> tuple[Any, Tensor]:
        if isinstance(index, Tensor):
            return self.inputs[index], self.targets[index]
        row, target = self[torch.tensor([index])]
        first = {key: column[0] for key, column in row.items()} if isinstance(row, dict) else row[0]
        return first, target[0]


def take_labeled(split: Split, ids: Tensor) -> Dataset[Any]:
    """Return some labeled examples of a split as a dataset of (x, y)."""
    return as_dataset(take_rows(split.inputs, ids), take_rows(split.targets, ids))


def as_dataset(inputs: Any, targets: Any) -> Dataset[Any]:
    """Return inputs and their targets as a dataset of (x, y)."""
    if isinstance(inputs, Tensor) and isinstance(targets, Tensor):
        return TensorDataset(inputs, targets)
    return Examples(inputs, targets)


def as_labeled_dataset(data: Data) -> Dataset[Any]:
    """Return all training examples of a data set as a dataset of (x, y)."""
    return take_labeled(data.train, torch.arange(len(data.train)))


def split_columns(dataset: Any) -> tuple[Any, Any]:
    """Return the inputs and the targets of a dataset of (x, y)."""
    if isinstance(dataset, TensorDataset):
        return dataset.tensors[0], dataset.tensors[1]
    if isinstance(dataset, Examples):
        return dataset.inputs, dataset.targets
    items = [dataset[position] for position in range(len(dataset))]
    return torch.stack([x for x, _ in items]), torch.stack([torch.as_tensor(y) for _, y in items])
