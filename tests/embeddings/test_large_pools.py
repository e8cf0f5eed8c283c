"""Pools larger than memory: rows in a file or projected, inputs chunk by chunk."""

import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from zoo import ConvNet, N, mlp

import jostle
from jostle.inference import memory

K = 4


def test_rows_in_a_file_need_no_memory_of_their_size(tmp_path: Any) -> None:
    command = (
        "import sys, torch, jostle, re, pathlib\n"
        "held = lambda: int(re.search(r'RssAnon:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])\n"
        "model, x = torch.nn.Linear(2, 2000), torch.randn(1000, 2)\n"
        "jostle.deviations(model, x[:10], num_perturbations=2)\n"
        "before, most = held(), 0\n"
        "look = torch.isfinite\n"
        "def peek(rows):\n"
        "    global most; most = max(most, held()); return look(rows)\n"
        "torch.isfinite = peek\n"
        "rows = jostle.deviations(model, x, num_perturbations=10, cache_path=sys.argv[1], buffer_bytes=1600)\n"
        "print((most - before) * 1024, rows.nbytes)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path / "rows")],
        env=os.environ
        | {"MALLOC_MMAP_THRESHOLD_": "1000000"},  # what is freed goes back at once, and is not counted
        capture_output=True,
        text=True,
        check=True,
    )
    extra, size = map(int, done.stdout.split())
    assert size == 80_000_000
    assert extra < size / 2


def test_rows_in_a_file_are_the_same_rows(tmp_path: Any) -> None:
    model, x = ConvNet(), torch.randn(N, 1, 8, 8)
    path = tmp_path / "made" / "rows.npy"
    before = jostle.deviations(model, x, num_perturbations=K, seed=1, cache_path=path)
    kept = before.clone()
    mapped = jostle.deviations(
        model, x, num_perturbations=K, seed=0, cache_path=path
    )  # rows make way for rows
    assert torch.equal(before, kept)
    expected = jostle.deviations(model, x, num_perturbations=K, seed=0)
    assert torch.equal(mapped, expected)
    stored = np.load(path, mmap_mode="r")
    assert np.array_equal(stored, expected.numpy())
    picks = jostle.k_center(mapped, 4)
    assert picks.tolist() == jostle.k_center(expected, 4).tolist()


def test_rows_are_put_over_nothing_but_rows(tmp_path: Path) -> None:
    pool = tmp_path / "pool.npy"
    np.save(pool, torch.randn(N, 6).numpy())
    (tmp_path / "notes.csv").write_text("position,label\n1,cat\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "rows.npy")
    before = {path: path.read_bytes() for path in (pool, tmp_path / "notes.csv")}
    x = np.load(pool, mmap_mode="r")
    for name in ("pool.npy", "notes.csv", "folder", "link"):
        with pytest.raises(FileExistsError, match=f"{name}.* (name another file in cache_path=|name a file)"):
            jostle.deviations(mlp(), x, num_perturbations=K, cache_path=tmp_path / name)
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        jostle.deviations(mlp(), x, num_perturbations=K, cache_path=pool / "rows")
    assert all(path.read_bytes() == content for path, content in before.items())
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "empty").touch()  # as tempfile makes it
    assert jostle.deviations(mlp(), x, num_perturbations=K, cache_path=tmp_path / "empty").shape == (N, K * 3)


VOCABULARY = 50_257


def test_rows_that_do_not_fit_are_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(nn.Linear):
        seen = 0

        def forward(self, x: Tensor) -> Tensor:
            Counted.seen += len(x)
            return super().forward(x)

    model, x = Counted(2, VOCABULARY), torch.randn(6400, 2)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 8 * 2**30)
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda folder: SimpleNamespace(free=30 * 10**9))
    with pytest.raises(
        ValueError,
        match=r"38,597,376,000 bytes for deviations.* half of .*projection_dim=512.*cache_path=",
    ):
        jostle.deviations(model, x, space="logits", num_perturbations=30)
    with pytest.raises(
        ValueError, match="more than memory_bytes=1,000: raise memory_bytes, or keep rows narrow"
    ):
        jostle.deviations(model, x[:40], space="logits", num_perturbations=2, memory_bytes=1000)
    with pytest.raises(ValueError, match=r"noise-stability would need .* deviations of 6,400 examples"):
        jostle.select("noise-stability", model, x, 3, space="logits", memory_bytes=10**6)
    assert Counted.seen < 20, "only a first look"
    narrow = jostle.deviations(
        model, x[:40], space="logits", num_perturbations=2, projection_dim=8, memory_bytes=2**24
    )
    assert narrow.shape == (40, 8)


def test_projection_is_unbiased_for_squared_distances() -> None:
    model, x = mlp(), torch.randn(N, 6)
    plain = torch.pdist(jostle.deviations(model, x, num_perturbations=30, seed=0)).square()
    wide = jostle.deviations(model, x, num_perturbations=30, seed=0, projection_dim=4000)
    assert wide.shape == (N, 4000)
    ratio = torch.pdist(wide).square() / plain
    assert float((ratio - 1).abs().max()) < 6 * math.sqrt(2 / 4000)
