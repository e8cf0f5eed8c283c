"""Models that write into what they are given: neither the user's data nor the picks suffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import jostle
from jostle.strategies import build
from jostle.tasks import TASKS
from jostle.training.train import evaluate

N = 40
X = torch.randn(N, 6)
X[17] += 10  # what some models change only where it comes up


class Net(nn.Module):
    """A network that changes its inputs as `change` says, or works on a copy."""

    def __init__(self, change: Any, inplace: bool) -> None:
        super().__init__()
        self.change, self.inplace = change, inplace
        self.body, self.out = nn.Linear(6, 8), nn.Linear(8, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.inplace else x.clone()
        self.change(x)
        return self.out(self.drop(torch.relu(self.body(x.to(self.out.weight.dtype)))))


def subtract(x: Tensor) -> None:
    x.sub_(1)


def through_data(x: Tensor) -> None:
    x.data.mul_(2)  # PyTorch does not count this


def cut_some(x: Tensor) -> None:
    if (x > 5).any():
        x.clamp_(max=1)


def on_a_view(x: Tensor) -> None:
    x[:, 1:3].zero_()


def pair(change: Any) -> tuple[Net, Net]:
    torch.manual_seed(0)
    plain, inplace = Net(change, False), Net(change, True)
    inplace.load_state_dict(plain.state_dict())
    return plain, inplace


WAYS: dict[str, dict[str, Any]] = {
    "noise-stability jvp": {"num_perturbations": 4, "estimator": "jvp"},
    "noise-stability features": {"num_perturbations": 4, "space": "features"},
    "noise-stability labeled": {"num_perturbations": 4, "initial_centers": "labeled"},
    "coreset by a function": {"head": lambda model, x: model.body(x.sub_(0.5))},
    "entropy": {},
}  # beside the ways of tests/test_contracts.py


@pytest.mark.parametrize(
    ("way", "change"),
    [
        *((way, subtract) for way in WAYS),
        *(("entropy", each) for each in (through_data, cut_some, on_a_view)),
    ],
)
def test_picks_are_those_of_the_network_that_copies(way: str, change: Any) -> None:
    strategy = build(way.split(" ")[0], **WAYS[way])
    found = []
    for model in pair(change):
        pool, known = X.clone(), TensorDataset(X[:9] + 1, torch.arange(9) % 3)
        kept = known.tensors[0].clone()
        found.append(strategy.select(model, pool, 8, labeled=known, seed=0, batch_size=7))
        assert torch.equal(pool, X)
        assert torch.equal(known.tensors[0], kept)
    assert found[0].indices.tolist() == found[1].indices.tolist()
    np.testing.assert_array_equal(found[0].scores, found[1].scores)


@pytest.mark.parametrize(
    "holder", ["memory-mapped", "TensorDataset", "DataLoader", "views", "list", "dict", "int"]
)
def test_no_holder_lets_a_model_at_the_users_memory(holder: str, tmp_path: Path) -> None:
    x = X.clone() if holder != "int" else (X * 4).long()
    np.save(tmp_path / "x.npy", X.numpy())
    pools: dict[str, Any] = {
        "memory-mapped": np.load(tmp_path / "x.npy", mmap_mode="r+"),
        "TensorDataset": TensorDataset(x, torch.zeros(N)),
        "DataLoader": DataLoader(TensorDataset(x), batch_size=8),
        "views": range(N),
        "list": list(x),
        "dict": {"x": x, "unknown": torch.arange(N)},
        "int": x,
    }
    pool, options = pools[holder], dict[str, Any]()
    if holder == "views":  # a collate function that gives the dataset's own memory
        options = {"collate_fn": lambda items: x[items[0] : items[-1] + 1]}
    kept = x.clone()
    plain, inplace = (
        jostle.select("noise-stability", model, pool, 8, seed=0, num_perturbations=4, batch_size=8, **options)
        for model in pair(subtract)
    )
    assert torch.equal(x, kept)
    assert np.array_equal(np.load(tmp_path / "x.npy"), X.numpy())
    assert plain.indices.tolist() == inplace.indices.tolist()


def test_a_model_may_take_its_batch_apart() -> None:
    class Popping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(6, 3)

        def forward(self, batch: dict[str, Tensor]) -> Tensor:
            return self.net(batch.pop("signal"))

    pool = {"signal": X.clone()}
    assert len(jostle.select("noise-stability", Popping(), pool, 4, seed=0, num_perturbations=3)) == 4
    assert list(pool) == ["signal"]


class InplaceHead(nn.Module):
    """Its head writes into the features."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Sequential(nn.ReLU(inplace=inplace), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


@pytest.mark.parametrize("name", ["badge", "alfa-mix", "egl", "cluster-margin"])
def test_features_are_those_that_the_head_was_given(name: str) -> None:
    plain, inplace = InplaceHead(False), InplaceHead(True)
    inplace.load_state_dict(plain.state_dict())
    known = TensorDataset(torch.randn(9, 6), torch.arange(9) % 3)
    a, b = (build(name, head="head").select(model, X, 8, labeled=known, seed=0) for model in (plain, inplace))
    assert a.indices.tolist() == b.indices.tolist()
    np.testing.assert_array_equal(a.scores, b.scores)


def test_testing_a_model_leaves_the_test_set_alone() -> None:
    plain, inplace = pair(subtract)
    x, y = X.clone(), torch.arange(N) % 3
    first, again = (evaluate(inplace, x, y, TASKS["classification"]) for _ in range(2))
    assert torch.equal(x, X)
    assert first == again == evaluate(plain, x, y, TASKS["classification"])
