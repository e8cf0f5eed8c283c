"""Threads and the global random state: they wait for each other, and a wait that may be for ever is said."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
import torch
from torch import Tensor, nn
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
        threads.submit(float).result()  # the thread is there
        with rng.seeded_globals(1):
            late = threads.submit(drawn)
            assert not wait([late], timeout=0.5).done
            drawn()  # the thread that holds it may come again
        return late.result()


def test_seed_and_purpose_alone_decide_a_draw() -> None:
    calls = [(0, "query", 1), (1, "query", 1), (0, "query", 2), (0, "start", 1), (0, "query1")]
    seeds = [rng.derive(*call) for call in calls]
    assert len(set(seeds)) == len(calls)
    assert seeds == [rng.derive(*call) for call in calls]


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded")
@pytest.mark.parametrize("holder", ["another thread", "a model in another thread", "the thread that forks"])
def test_a_fork_meanwhile_leaves_no_lock_in_the_child(holder: str) -> None:
    def forked_exit_code() -> int:
        child = os.fork()
        if not child:
            signal.alarm(20)  # ends a child that waits for ever
            os._exit(0 if (drawn(), picked()) == expected else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def picked() -> list[int]:
        return jostle.select("entropy", model, pool, n=2, seed=0).indices.tolist()

    model, pool = mlp(), torch.randn(20, 6)
    expected = drawn(), picked()
    if holder == "the thread that forks":
        with rng.seeded_globals(1):
            assert forked_exit_code() == 0
        return
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        with rng.seeded_globals(1):
            inside.set()
            done.wait()

    class Waiting(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            inside.set()
            done.wait()
            return super().forward(x)

    def select() -> None:
        jostle.select("entropy", Waiting(6, 3), torch.randn(20, 6), n=2)

    thread = threading.Thread(target=hold if holder == "another thread" else select)
    thread.start()
    inside.wait()
    try:
        assert forked_exit_code() == 0
    finally:
        done.set()
        thread.join()


def test_a_first_call_draws_nothing_from_the_global_generators() -> None:
    command = """if True:
        import random, sys
        import numpy, torch
        def states():
            return random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        def drawing(self, x):
            drawn.append(random.random())
            return super(Drawing, self).forward(x)
        Drawing, drawn = type("Drawing", (torch.nn.Linear,), {"forward": drawing}), []
        before = states()
        import jostle
        model = Drawing(2, 3)
        after = states()
        for progress in (True, None):
            jostle.select("noise-stability", model, torch.ones(9, 2).cumsum(0), n=2, seed=0, progress=progress)
        assert states() == after and before[:2] == after[:2]
        half = len(drawn) // 2
        assert half and drawn[:half] == drawn[half:]  # the first call loads what the second does not
        """
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
