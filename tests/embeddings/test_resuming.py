"""A long scoring survives: what is done stays done, to the bit, and another call is refused with the difference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from zoo import mlp

import jostle
from jostle.inference.memory import CACHED_CHUNKS

N, K, BATCH = 80, 3, 2
CALL: dict[str, Any] = {"num_perturbations": K, "seed": 0, "batch_size": BATCH, "progress": False}


class Stopped(Exception):  # noqa: N818
    """What a test interrupts a call with."""


class Counting(nn.Module):
    """Counts the examples that it sees, and may end with an error after some."""

    def __init__(self, most: float = float("inf")) -> None:
        super().__init__()
        self.inner = mlp()
        self.box = {"seen": 0, "most": most}  # shared with the private copy, as what cannot be copied is

    def __deepcopy__(self, memo: dict[int, Any]) -> Counting:
        made = Counting()
        made.load_state_dict(self.state_dict())
        made.box = self.box
        return made

    def forward(self, x: Tensor) -> Tensor:
        self.box["seen"] += len(x)
        if self.box["seen"] > self.box["most"]:
            raise Stopped
        return self.inner(x)


@pytest.fixture
def pool() -> Tensor:
    return torch.randn(N, 6, generator=torch.Generator().manual_seed(0))


def half_done(path: Path, pool: Tensor, **changed: Any) -> Counting:
    """A model whose call was interrupted in the middle."""
    torch.manual_seed(0)
    model = Counting(most=N * (K + 1) // 2)
    with pytest.raises(Stopped):
        jostle.deviations(model, pool, cache_path=path, **CALL | changed)
    model.box.update(seen=0, most=float("inf"))
    return model


@pytest.mark.parametrize("settings", [{}, {"projection_dim": 5}])
def test_the_same_call_goes_on_and_gives_the_same_rows(
    tmp_path: Path, pool: Tensor, settings: dict[str, Any]
) -> None:
    model = half_done(tmp_path / "rows", pool, **settings)
    rows = jostle.deviations(model, pool, cache_path=tmp_path / "rows", **CALL | settings)
    chunk = N // CACHED_CHUNKS
    assert (
        model.box["seen"] <= N * (K + 1) // 2 + (K + 1) * chunk + 2 * 4
    )  # one chunk is lost, a few are looked at
    assert torch.equal(rows, jostle.deviations(model, pool, **CALL | settings))
    model.box["seen"] = 0
    again = jostle.deviations(model, pool, cache_path=tmp_path / "rows", **CALL | settings)
    assert torch.equal(again, rows)
    assert model.box["seen"] < 10, "all rows were there"


def test_rows_that_were_changed_on_disk_are_computed_again(tmp_path: Path, pool: Tensor) -> None:
    path = tmp_path / "rows"
    model = half_done(path, pool)
    whole = jostle.deviations(model, pool, **CALL)
    with path.open("rb+") as file:
        file.seek(
            -(64 + 4 * whole.shape[1] * (N - 9)), os.SEEK_END
        )  # a number of the ninth row, before the mark
        file.write(b"\x00\x00\x80\x3f")
    assert not np.array_equal(np.load(path)[:12], whole[:12].numpy())
    assert torch.equal(jostle.deviations(model, pool, cache_path=path, **CALL), whole)


def test_kill_9_loses_one_chunk_at_most(
    tmp_path: Path, pool: Tensor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import os, signal, sys, torch, jostle\n"
        "from torch import nn\n"
        "torch.manual_seed(0)\n"
        "model = nn.Linear(6, 3)\n"
        "pool = torch.randn(80, 6, generator=torch.Generator().manual_seed(0))\n"
        "def space(outputs):\n"
        "    space.seen += len(outputs)\n"
        "    if space.seen > int(sys.argv[2]):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return outputs\n"
        "space.seen = 0\n"
        "jostle.deviations(model, pool, num_perturbations=3, seed=0, batch_size=2, space=space, "
        "cache_path=sys.argv[1])\n"
        "print(space.seen)\n"
    )

    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "rows"), "160"], check=False)
    assert killed.returncode == -signal.SIGKILL
    lines = (tmp_path / "rows.journal").read_text().splitlines()[1:]
    done = json.loads(lines[-1])[0]
    assert 160 / (K + 1) - 2 * N // CACHED_CHUNKS <= done < N
    monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path / "rows"), str(10**6)])
    exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})
    assert int(capsys.readouterr().out) <= (N - done) * (K + 1) + 6
    torch.manual_seed(0)
    rows = jostle.deviations(nn.Linear(6, 3), pool, space="logits", **CALL)
    assert np.array_equal(np.load(tmp_path / "rows"), rows.numpy())


def test_another_call_is_refused_with_the_difference(tmp_path: Path, pool: Tensor) -> None:
    path = tmp_path / "rows"
    model = half_done(path, pool)
    before = path.read_bytes()
    for changed, words in (
        ({"seed": 1}, "seed 0 -> 1"),
        ({"noise_scale": 1e-2}, r"noise_scale 0\.001 -> 0\.01"),
        ({"batch_size": 4}, "micro-batch 2 -> 4"),
        ({"parameters": "*weight"}, r"parameters None -> \*weight"),
        ({"num_perturbations": K + 1}, f"num_perturbations {K} -> {K + 1}"),
        ({"projection_dim": 4}, "projection_dim None -> 4"),
    ):
        with pytest.raises(
            ValueError, match=rf"holds .* of 80 rows of another call: {words}; make the same call"
        ):
            jostle.deviations(model, pool, cache_path=path, **CALL | changed)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    with pytest.raises(ValueError, match=r"another call: model \w+ -> \w+"):
        jostle.deviations(model, pool, cache_path=path, **CALL)
    assert path.read_bytes() == before


def test_a_changed_pool_is_refused_where_it_changed(tmp_path: Path, pool: Tensor) -> None:
    path = tmp_path / "rows"
    model = half_done(path, pool)
    other = pool.clone()
    other[5, 2] += 1
    with pytest.raises(ValueError, match="the pool has changed: its examples 4 to 7 are not those"):
        jostle.deviations(model, other, cache_path=path, **CALL)
    with pytest.raises(ValueError, match="examples 80 -> 70"):
        jostle.deviations(model, pool[:70], cache_path=path, **CALL)


def test_finished_rows_are_used_again_and_make_way_with_a_word(tmp_path: Path, pool: Tensor) -> None:
    path, model = tmp_path / "rows", Counting()

    def picks(n: int, **changed: Any) -> jostle.Query:
        model.box["seen"] = 0
        return jostle.select("noise-stability", model, pool, n, cache_path=path, **CALL | changed)

    first, more = picks(4), picks(9)
    assert model.box["seen"] < 10, "more picks of the same rows perturb nothing"
    assert more.indices[:4].tolist() == first.indices.tolist()
    assert not first.notes
    assert not more.notes
    other = picks(4, noise_scale=1e-2)
    assert model.box["seen"] >= N * (K + 1)
    (note,) = other.notes
    assert "rows of another call, which make way: noise_scale 0.001 -> 0.01" in note


class Times:
    """A function that is an object."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, outputs: Tensor) -> Tensor:
        return self.factor * outputs


def times(factor: float, outputs: Tensor) -> Tensor:
    return factor * outputs


def closed_over(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda outputs: factor * outputs


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (lambda outputs: outputs.exp(), lambda outputs: outputs.tanh()),
        (lambda outputs: 2 * outputs, lambda outputs: 3 * outputs),
        (lambda outputs, factor=2: factor * outputs, lambda outputs, factor=3: factor * outputs),
        (closed_over(2), closed_over(3)),
        (closed_over(torch.tensor(2)), closed_over(torch.tensor(3))),
        (partial(times, 2), partial(times, 3)),
        (Times(2), Times(3)),
    ],
)
def test_rows_of_another_function_are_not_taken_for_those_of_this_one(
    tmp_path: Path, pool: Tensor, was: Callable[[Tensor], Tensor], now: Callable[[Tensor], Tensor]
) -> None:
    path, model = tmp_path / "rows", mlp()
    jostle.deviations(model, pool, space=was, cache_path=path, **CALL)
    rows = jostle.deviations(model, pool, space=now, cache_path=path, **CALL)
    assert torch.equal(rows, jostle.deviations(model, pool, space=now, **CALL))


def test_a_buffer_that_no_file_keeps_is_part_of_a_model(tmp_path: Path, pool: Tensor) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp()
            self.register_buffer("factor", torch.ones(()), persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.factor * self.inner(x)

    model = Scaled()
    jostle.deviations(model, pool, cache_path=tmp_path / "rows", **CALL)
    model.factor.fill_(5)
    rows = jostle.deviations(model, pool, cache_path=tmp_path / "rows", **CALL)
    assert torch.equal(rows, jostle.deviations(model, pool, **CALL))
