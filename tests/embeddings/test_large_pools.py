"""Pools larger than memory: rows in a file or projected, inputs chunk by chunk."""

import math
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor
from zoo import ConvNet, N, mlp

import jostle

K = 4


def test_rows_in_a_file_need_no_memory_of_their_size(tmp_path: Any) -> None:
    command = (
        "import sys, torch, jostle, re, pathlib\n"
        "held = lambda: int(re.search(r'RssAnon:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])\n"
        "model, x = torch.nn.Linear(2, 2000), torch.randn(2000, 2)\n"
        "jostle.deviations(model, x[:10], jolts=2)\n"
        "before, most = held(), 0\n"
        "look = torch.isfinite\n"
        "def peek(rows):\n"
        "    global most; most = max(most, held()); return look(rows)\n"
        "torch.isfinite = peek\n"
        "rows = jostle.deviations(model, x, jolts=10, rows_file=sys.argv[1], buffer_bytes=1600)\n"
        "print((most - before) * 1024, rows.nbytes)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path / "rows")],
        capture_output=True,
        text=True,
        check=True,
    )
    extra, size = map(int, done.stdout.split())
    assert size == 160_000_000
    assert extra < size / 2


def test_one_chunk_of_inputs_is_held_at_a_time() -> None:
    alive: list[weakref.ref[Tensor]] = []

    class Watched(torch.utils.data.Dataset[Tensor]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, position: int) -> Tensor:
            most.append(sum(ref() is not None for ref in alive))
            return torch.full((6,), float(position))

    def collate(items: list[Tensor]) -> Tensor:
        batch = torch.stack(items)
        alive.append(weakref.ref(batch))
        return batch

    most: list[int] = []
    jostle.deviations(mlp(), Watched(), jolts=2, batch_size=4, buffer_bytes=2 * 4 * 6 * 4, collate_fn=collate)
    assert max(most) <= 3  # a chunk of two batches, and the one for a first look


def test_rows_in_a_file_are_the_same_rows(tmp_path: Any) -> None:
    model, x = ConvNet(), torch.randn(N, 1, 8, 8)
    path = tmp_path / "rows.bin"
    path.write_bytes(b"old" * 1000)
    mapped = jostle.deviations(model, x, jolts=K, seed=0, rows_file=path)
    expected = jostle.deviations(model, x, jolts=K, seed=0)
    assert torch.equal(mapped, expected)
    stored = np.fromfile(path, dtype=np.float32).reshape(expected.shape)
    assert np.array_equal(stored, expected.numpy())
    picks = jostle.k_center(mapped, 4)
    assert picks.tolist() == jostle.k_center(expected, 4).tolist()


def test_projection_is_unbiased_for_squared_distances() -> None:
    model, x = mlp(), torch.randn(N, 6)
    plain = torch.pdist(jostle.deviations(model, x, jolts=30, seed=0)).square()
    wide = jostle.deviations(model, x, jolts=30, seed=0, project=4000)
    assert wide.shape == (N, 4000)
    ratio = torch.pdist(wide).square() / plain
    assert float((ratio - 1).abs().max()) < 6 * math.sqrt(2 / 4000)


def test_projection_does_not_depend_on_chunks() -> None:
    model, x = mlp(), torch.randn(N, 6)
    rows = [
        jostle.deviations(model, x, jolts=K, seed=0, project=5, batch_size=4, buffer_bytes=b)
        for b in (1, 2**20)
    ]
    assert torch.equal(rows[0], rows[1])
