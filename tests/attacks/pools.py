"""The ways in which people hold examples, and values that nobody expects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

Inputs = Tensor | dict[str, Tensor]
ODD_VALUES = ("duplicates", "constant", "huge", "tiny", "nan", "inf", "one outlier")


@dataclass
class Held:
    """A pool, and the bytes behind it."""

    pool: Any
    how: str
    arrays: list[Tensor | np.ndarray]
    file: Path | None = None

    def fingerprint(self) -> str:
        """The sum of all bytes of the pool."""
        found = hashlib.sha256()
        for array in self.arrays:
            found.update(np.ascontiguousarray(array).tobytes())
        if self.file is not None:
            found.update(self.file.read_bytes())
        return found.hexdigest()


class Items(Dataset[Any]):
    """A dataset that knows its length and its items, and nothing else."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def odd(chance: Random, inputs: Tensor, value: str) -> Tensor:
    """The same inputs, with values that nobody expects."""
    n = len(inputs)
    if n == 0:
        return inputs
    if value == "duplicates":
        return inputs[torch.tensor([chance.randrange(min(n, 3)) for _ in range(n)])]
    if value == "constant":
        return torch.full_like(inputs, chance.choice([0.0, 1.0, -3.5]))
    if value in ("huge", "tiny"):
        return inputs * (1e30 if value == "huge" else 1e-40)
    changed = inputs.clone()
    changed[chance.randrange(n)] = {"nan": torch.nan, "inf": torch.inf, "one outlier": 1e4}[value]
    return changed


def held(chance: Random, inputs: Inputs, folder: Path) -> Held:
    """The inputs in a random holder."""
    if isinstance(inputs, dict):
        return chance.choice(DICT_HOLDERS)(chance, inputs)
    return chance.choice(TENSOR_HOLDERS)(chance, inputs, folder)


def plain(inputs: Inputs) -> Any:
    """The same inputs in the plainest holder there is: of their own memory."""
    return (
        {key: value.clone() for key, value in inputs.items()} if isinstance(inputs, dict) else inputs.clone()
    )


def labels(chance: Random, n: int) -> list[int]:
    """Targets inside a pool, which nobody may look at."""
    return [chance.randrange(10**6) for _ in range(n)]


def as_tensor(chance: Random, x: Tensor, folder: Path) -> Held:
    return Held(x, "tensor", [x])


def as_view(chance: Random, x: Tensor, folder: Path) -> Held:
    whole = torch.cat([x, x]).repeat_interleave(2, 0)
    return Held(whole[: 2 * len(x) : 2], "view of a larger tensor", [whole])


def as_numpy(chance: Random, x: Tensor, folder: Path) -> Held:
    array = x.numpy().copy()
    return Held(array, "numpy array", [array])


def as_read_only(chance: Random, x: Tensor, folder: Path) -> Held:
    array = x.numpy().copy()
    array.flags.writeable = False
    return Held(array, "read-only numpy array", [array])


def as_memory_map(chance: Random, x: Tensor, folder: Path) -> Held:
    if not len(x):
        return as_numpy(chance, x, folder)
    path = folder / "pool.npy"
    np.save(path, x.numpy())
    return Held(np.load(path, mmap_mode=chance.choice(["r", "r+", "c"])), "memory map", [], path)


def as_list(chance: Random, x: Tensor, folder: Path) -> Held:
    return Held(list(x), "list of tensors", [x])


def as_pairs(chance: Random, x: Tensor, folder: Path) -> Held:
    return Held(list(zip(x, labels(chance, len(x)), strict=True)), "list of pairs", [x])


def as_dataset(chance: Random, x: Tensor, folder: Path) -> Held:
    columns = (x, torch.tensor(labels(chance, len(x)))) if chance.random() < 0.5 else (x,)
    return Held(TensorDataset(*columns), "TensorDataset", [x])


def as_items(chance: Random, x: Tensor, folder: Path) -> Held:
    return Held(Items([row.numpy() for row in x]), "dataset of arrays", [x])


def as_subset(chance: Random, x: Tensor, folder: Path) -> Held:
    mixed = torch.cat([torch.full_like(x, 7.0), x])
    return Held(Subset(TensorDataset(mixed), range(len(x), 2 * len(x))), "subset", [mixed])


def as_loader(chance: Random, x: Tensor, folder: Path) -> Held:
    size = chance.randint(1, 9)
    return Held(DataLoader(TensorDataset(x), batch_size=size), f"loader of {size}", [x])


TENSOR_HOLDERS: list[Callable[[Random, Tensor, Path], Held]] = [
    as_tensor, as_view, as_numpy, as_read_only, as_memory_map, as_list, as_pairs, as_dataset, as_items, as_subset,
    as_loader,
]  # fmt: skip


def as_columns(chance: Random, x: dict[str, Tensor]) -> Held:
    n = len(next(iter(x.values())))
    pool: dict[str, Any] = dict(x) if chance.random() < 0.5 else {k: v.numpy().copy() for k, v in x.items()}
    pool |= {"labels": labels(chance, n)} if chance.random() < 0.5 else {}
    return Held(
        pool, "dict of columns", [*x.values(), *(v for v in pool.values() if not isinstance(v, list))]
    )


def rows(chance: Random, x: dict[str, Tensor]) -> list[dict[str, Any]]:
    n = len(next(iter(x.values())))
    known = labels(chance, n)
    return [{key: value[i] for key, value in x.items()} | {"labels": known[i]} for i in range(n)]


def as_dicts(chance: Random, x: dict[str, Tensor]) -> Held:
    return Held(rows(chance, x), "list of dicts", [*x.values()])


def as_dict_items(chance: Random, x: dict[str, Tensor]) -> Held:
    return Held(Items(rows(chance, x)), "dataset of dicts", [*x.values()])


def as_dict_loader(chance: Random, x: dict[str, Tensor]) -> Held:
    return Held(DataLoader(Items(rows(chance, x)), batch_size=3), "loader of dicts", [*x.values()])


DICT_HOLDERS: list[Callable[[Random, dict[str, Tensor]], Held]] = [
    as_columns, as_dicts, as_dict_items, as_dict_loader,
]  # fmt: skip


def labeled(chance: Random, inputs: Inputs, targets: Tensor) -> Any:
    """A labeled set of these inputs, in one of the forms that are taken."""
    if isinstance(inputs, dict):
        items: list[Any] = [
            {key: value[i] for key, value in inputs.items()} | {"labels": targets[i]}
            for i in range(len(targets))
        ]
    elif chance.random() < 0.5:
        return TensorDataset(inputs, targets)
    else:
        items = list(zip(inputs, targets, strict=True))
    return items if chance.random() < 0.7 else DataLoader(Items(items), batch_size=4)
