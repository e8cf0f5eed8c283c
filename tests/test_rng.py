"""Threads and the global random state: they wait for each other, and a wait that may be for ever is said."""

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset
from zoo import mlp

import jostle
from jostle import models, rng


def drawn() -> float:
    with rng.seeded_globals(0):
        return float(torch.rand(()))


def drawn_late() -> float:
    """What a thread draws that has to wait for this one."""
    with ThreadPoolExecutor(1) as threads:
        with rng.seeded_globals(1):
            late = threads.submit(drawn)
            assert not wait([late], timeout=0.2).done
            drawn()  # the thread that holds it may come again
        return late.result()


def test_a_thread_waits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rng, "PATIENCE", 0.01)
    with pytest.warns(UserWarning, match="another thread's call holds"):
        late = drawn_late()
    assert late == drawn()


@pytest.mark.filterwarnings("error:another thread's call")  # or this test would wait for ever
def test_a_fit_that_trains_in_another_thread_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rng, "PATIENCE", 0.01)

    def fit(dataset: Any, seed: int) -> nn.Module:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(models.build, "mlp", inputs=6, outputs=3, seed=seed).result()

    labeled = TensorDataset(torch.randn(6, 6), torch.arange(6) % 3)
    with pytest.raises(UserWarning, match="trains in a thread of its own"):
        jostle.select("qbc", mlp(), torch.randn(20, 6), n=2, labeled=labeled, fit=fit, seed=0)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(drawn).result() == drawn()  # and no lock is left behind
