"""The ways in which people hold examples, and values that nobody expects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
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
    """The inputs in a random holder, some with targets inside, which nobody may look at."""
    targets = [chance.randrange(10**6) for _ in range(size(inputs))]
    if isinstance(inputs, dict):
        return chance.choice(holders_of_columns(chance, inputs, targets))()
    return chance.choice(holders_of_tensors(chance, inputs, targets, folder))()


def size(inputs: Inputs) -> int:
    """How many examples there are."""
    return len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)


def plain(inputs: Inputs) -> Any:
    """The same inputs in the plainest holder there is: of their own memory."""
    return {key: x.clone() for key, x in inputs.items()} if isinstance(inputs, dict) else inputs.clone()


def holders_of_tensors(
    chance: Random, x: Tensor, targets: list[int], folder: Path
) -> list[Callable[[], Held]]:
    """Every way to hold the rows of a tensor."""
    n, array, labels, batch = len(x), x.numpy().copy(), torch.tensor(targets), chance.randint(1, 9)
    larger, mixed = torch.cat([x, x]).repeat_interleave(2, 0), torch.cat([torch.full_like(x, 7.0), x])

    def read_only() -> Held:
        array.flags.writeable = False
        return Held(array, "read-only numpy array", [array])

    def memory_map() -> Held:
        path = folder / "pool.npy"
        np.save(path, array)
        return Held(np.load(path, mmap_mode=chance.choice(["r", "r+", "c"])), "memory map", [], path)

    return [
        lambda: Held(x, "tensor", [x]),
        lambda: Held(larger[: 2 * n : 2], "view of a larger tensor", [larger]),
        lambda: Held(array, "numpy array", [array]),
        read_only,
        memory_map if n else read_only,
        lambda: Held(list(x), "list of tensors", [x]),
        lambda: Held(list(zip(x, targets, strict=True)), "list of pairs", [x]),
        lambda: Held(TensorDataset(*chance.choice([(x,), (x, labels)])), "TensorDataset", [x]),
        lambda: Held(Items([row.numpy() for row in x]), "dataset of arrays", [x]),
        lambda: Held(Subset(TensorDataset(mixed), range(n, 2 * n)), "subset", [mixed]),
        lambda: Held(DataLoader(TensorDataset(x), batch_size=batch), f"loader of {batch}", [x]),
    ]


def holders_of_columns(chance: Random, x: dict[str, Tensor], targets: list[int]) -> list[Callable[[], Held]]:
    """Every way to hold the rows of named tensors."""
    rows, tensors = rows_of(x, targets), list(x.values())
    columns: dict[str, Any] = chance.choice([dict(x), {key: each.numpy().copy() for key, each in x.items()}])
    named = chance.choice([columns, columns | {"labels": targets}])
    return [
        lambda: Held(named, "dict of columns", [*tensors, *columns.values()]),
        lambda: Held(rows, "list of dicts", tensors),
        lambda: Held(Items(rows), "dataset of dicts", tensors),
        lambda: Held(DataLoader(Items(rows), batch_size=3), "loader of dicts", tensors),
    ]


def rows_of(x: dict[str, Tensor], targets: Sequence[Any]) -> list[dict[str, Any]]:
    return [{key: each[i] for key, each in x.items()} | {"labels": y} for i, y in enumerate(targets)]


def labeled(chance: Random, inputs: Inputs, targets: Tensor) -> Any:
    """A labeled set of these inputs, in one of the forms that are taken."""
    if isinstance(inputs, Tensor) and chance.random() < 0.5:
        return TensorDataset(inputs, targets)
    items: list[Any] = (
        rows_of(inputs, targets)  # type: ignore[arg-type]
        if isinstance(inputs, dict)
        else list(zip(inputs, targets, strict=True))
    )
    return items if chance.random() < 0.7 else DataLoader(Items(items), batch_size=4)
