"""Rows that would not fit go to a temporary file by themselves, for every strategy and selector, and it is told."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from selector_rows import fitting, normal
from torch import nn
from torch.utils.data import TensorDataset

import jostle
from jostle import selectors
from jostle.inference import memory
from jostle.rows.geometry import is_mapped, mapped_rows, release, rows_again, spilled_rows

N, D = 3000, 40


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, D), nn.ReLU(), nn.Linear(D, 5))


@pytest.fixture
def pool() -> torch.Tensor:
    return torch.randn(N, 8, generator=torch.Generator().manual_seed(0))


def open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    return [os.readlink(each) for each in folder.iterdir() if each.is_symlink() and each.exists()]


@pytest.mark.parametrize("name", ["noise-stability", "coreset", "badge", "max-herding", "typiclust"])
def test_large_rows_go_to_a_file_and_the_picks_are_the_same(
    name: str, model: nn.Module, pool: torch.Tensor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings: dict[str, Any] = {"num_perturbations": 4} if name == "noise-stability" else {}
    labeled = TensorDataset(torch.randn(10, 8), torch.arange(10) % 5)
    strategy = jostle.strategies.build(name, **settings)
    plain = strategy.select(model, pool, 7, labeled=labeled, seed=0)
    assert plain.notes == ()
    monkeypatch.setattr(memory.MemoryBudget, "spills", lambda self, size: size > 10_000)
    spilled = strategy.select(model, pool, 7, labeled=labeled, seed=0)
    assert spilled.indices.tolist() == plain.indices.tolist()
    assert str(tmp_path) in spilled.notes[0]
    assert "temporary file" in spilled.notes[0]
    assert not list(tmp_path.iterdir()), "nothing is left behind"
    assert not [path for path in open_files() if path.startswith(str(tmp_path))]


def test_the_rule_is_half_of_what_is_allowed() -> None:
    given = memory.MemoryBudget(1000, None)
    assert (given.spills(500), given.spills(501)) == (False, True)
    free = memory.MemoryBudget(None, 1000)
    assert (free.allowed, free.spills(250), free.spills(251)) == (500, False, True)
    assert given.buffer(10**6) == 250


def test_the_least_of_all_readings_is_free_and_half_of_it_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(memory, "_available", lambda: 5000)
    monkeypatch.setattr(memory, "_left_in_group", lambda: 3000)  # a container's limit
    assert memory.free_bytes(cpu) == 3000

    def check(needed: int, given: int | None = None) -> None:
        estimate = memory.Estimate(passes=0, rows=needed, what="it", remedy="less")
        memory.Placement(estimate, memory.MemoryBudget.of(given, cpu, [])).check("bait")

    check(1500)
    check(1501, given=1501)
    with pytest.raises(
        ValueError, match=r"bait would need 1,501 bytes for it, more than half of the 3,000 that"
    ):
        check(1501)


def test_a_system_that_says_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise OSError

    for name in ("_available", "_left_in_group", "_pages", "_windows"):
        monkeypatch.setattr(memory, name, fails)
    assert memory.free_bytes(torch.device("cpu")) == memory.UNKNOWN


def test_embedded_rows_in_a_file_outlive_the_call(model: nn.Module, pool: torch.Tensor) -> None:
    rows = jostle.embeddings.build("features", memory_bytes=N * D * 4).embed(model, pool)
    assert is_mapped(rows)
    assert torch.equal(rows, jostle.embeddings.build("features").embed(model, pool))


@pytest.mark.parametrize("name", selectors.names())
def test_every_selector_picks_the_same_of_mapped_rows(name: str) -> None:
    rows = fitting(name, normal(500, 12))
    mapped = spilled_rows(tuple(rows.shape), rows.dtype)
    mapped.copy_(rows)
    chosen = selectors.build(name)
    centers = rows[:9] + 1 if chosen.uses_centers else None
    own, other = (chosen.pick(each, 6, centers=centers, seed=3) for each in (rows, mapped))
    assert own.positions.tolist() == other.positions.tolist()
    torch.testing.assert_close(own.scores, other.scores, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(mapped, rows), "rows stay as they are"


def test_released_rows_are_still_there(tmp_path: Path) -> None:
    rows = mapped_rows(tmp_path / "rows", (100, 50), torch.float32)
    rows.copy_(torch.arange(5000.0).view(100, 50))
    release(rows)
    release(torch.zeros(3))  # of no file
    assert float(rows.sum()) == sum(range(5000))
    again = rows_again(tmp_path / "rows", (100, 50), torch.float32)
    assert again is not None
    assert torch.equal(again, rows)
    assert rows_again(tmp_path / "rows", (100, 51), torch.float32) is None
    (tmp_path / "other").write_bytes(b"no rows")
    assert rows_again(tmp_path / "other", (1,), torch.float32) is None


@pytest.mark.parametrize(
    "name", [name for name in jostle.strategies.names() if name not in ("vaal", "sraal", "ll4al")]
)
def test_every_strategy_refuses_what_it_has_no_memory_for_before_the_work(
    name: str, pool: torch.Tensor
) -> None:
    seen = [0]

    class Counted(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen[0] += len(x)
            return super().forward(x)

    numbers = "classification" not in jostle.strategies.describe(name).tasks
    model = nn.Sequential(Counted(8, D), nn.ReLU(), nn.Dropout(0.3), nn.Linear(D, 1 if numbers else 5))
    labeled = TensorDataset(torch.randn(10, 8), torch.randn(10, 1) if numbers else torch.arange(10) % 5)
    strategy = jostle.strategies.build(name, memory_bytes=2000)
    with pytest.raises(ValueError, match=r"would need [\d,]+ bytes for .*, more than memory_bytes=2,000"):
        strategy.select(model, pool, 5, labeled=labeled, fit=lambda dataset, seed: model, seed=0)
    assert seen[0] < 20, "only a first look"
