"""Plans tell times within a factor of 2: where passes take them, and where selection does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import scipy.cluster.hierarchy  # noqa: F401 - loaded here, so that no clock runs meanwhile
import sklearn.cluster  # noqa: F401
import torch
from quick import QUICK
from threadpoolctl import threadpool_limits
from torch import nn
from torch.utils.data import TensorDataset

from jostle import strategies

TRAINED = {"vaal", "sraal", "qbc", "core-gcn", "uncertain-gcn"}  # whose trainings are named, not timed
UNKNOWN = {"alfa-mix", "drop-query"}  # at most what is told: how many predictions flip shows in the work
INSTANT = {"random"}
TIMED = [name for name in strategies.names() if name not in TRAINED | UNKNOWN | INSTANT]
TURNS = 3  # a machine under load is slow now and then


@pytest.fixture(autouse=True)
def without_other_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads that wait for each other take processor time, too: so there is one."""
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


def ratio(name: str, model: nn.Module, pool: torch.Tensor, n: int) -> float:
    """Told seconds over real ones, the best of some turns that alternate."""
    labeled = TensorDataset(pool[:40] + 1, torch.arange(40) % 6)
    strategy = strategies.build(name, **QUICK.get(name, {}))
    joined = strategy.join(model, pool[:2], 0).model
    call: dict[str, Any] = {"labeled": labeled, "seed": 0, "progress": False}
    told, real = list[float](), list[float]()
    for _ in range(TURNS):
        told.append(sum(strategy.plan(joined, pool, n, **call).seconds.values()))
        real.append(sum(strategy.select(joined, pool, n, **call).seconds.values()))
        if len(told) > 1 and 0.5 < min(told) / min(real) < 2:
            break
    return min(told) / min(real)


@pytest.mark.parametrize(
    "name", [name for name in TIMED if name != "bait"]
)  # its steps take longer than passes
def test_where_passes_take_the_time(name: str) -> None:
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2)]
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, 6))
    assert 0.5 < ratio(name, model, torch.randn(300, 1, 28, 28), 4) < 2


@pytest.mark.parametrize(
    ("name", "size", "n"),
    [
        ("bait", 1500, 20),
        ("batch-bald", 2000, 15),
        ("cluster-margin", 3000, 50),
        ("default", 4000, 120),
        ("flip-cover", 4000, 150),
        ("lcmd", 8000, 150),
        ("max-herding", 6000, 100),
        ("noise-stability-d", 8000, 150),
        ("prob-cover", 4000, 20),
        ("typiclust", 6000, 60),
    ],
)
def test_where_selection_takes_the_time(name: str, size: int, n: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    pool = torch.randn(size, 32) * torch.linspace(0.2, 2, 32)
    assert 0.5 < ratio(name, model, pool, n) < 2
