"""Paths of the fingerprint that a small pool in memory never takes: files, shards, arrays, labeling, runs."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from jostle import strategies
from jostle.core import Embedding, Query
from jostle.selectors import selector
from jostle.selectors.shards import LocalShards, Shard

Case = tuple[str, Callable[[], Any]]

SIZE, LABELED, WIDTH, CLASSES = 800, 30, 12, 10
MEMORY = 1_500_000  # bytes: rows of 960,000 spill, and the rest fits
ROW_CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "longest": {"selector": "longest"},
    "normalized": {"normalize": True},
    "head alone": {"parameters": ["4.*"]},
    "front alone": {"parameters": ["0.*"]},
    "spilled": {"memory_bytes": MEMORY},
    "spilled, narrow": {"memory_bytes": MEMORY, "projection_dim": 200},
    "small buffer": {"buffer_bytes": 4_000},
}
SHARDED = ("noise-stability", "coreset", "badge", "margin")
SHARDS = (1, 3, 7)
ARRAYS = ("entropy", "margin", "badge", "coreset", "max-herding", "uncertainty-herding", "margin-herding",
          "typiclust", "prob-cover", "random", "power-margin", "egl", "cluster-margin")  # fmt: skip
LARGE = ("default", "noise-herding", "flip-cover", "badge", "coreset", "margin-herding", "lcmd", "typiclust")
PROTOCOL = """
title = "tiny"
dataset = "digits"
initial = 10
pick = 4
rounds = 3
candidates = 40
test = 60
seeds = 1
[model]
use = "digits-cnn"
[training]
epochs = 2
batch = 8
optimizer = "adam"
lr = 2e-3
[strategies.random]
[strategies.margin]
[strategies.default]
[strategies.noise-stability]
num_perturbations = 3
"""


def paths() -> Iterator[Case]:
    """Key and what gives the value, for each further path."""
    model, pool, labeled = large_scene()
    for task in ("classification", "regression"):
        for name in LARGE:
            known = (
                labeled
                if task == "classification"
                else TensorDataset(labeled.tensors[0], torch.zeros(LABELED, CLASSES))
            )
            call = {"labeled": known, "task": task, "seed": 5}
            key = {"noise-herding": "jolt-herding"}.get(name, name)
            yield f"large {task} {key}", partial(picks_of, strategies.build(name), model, pool, 5, call)
    yield from rows_in_files(model, pool)
    yield from in_shards(model, pool, labeled)
    yield from of_arrays()
    yield "labeling", labeling_round
    yield "run", run_picks


def large_scene() -> tuple[nn.Module, Tensor, TensorDataset]:
    """A small network and a pool that is large enough to be shortlisted, spilled and sharded."""
    rng = torch.Generator().manual_seed(2)
    torch.manual_seed(3)
    layers = (nn.Linear(WIDTH, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, CLASSES))
    pool = torch.randn(SIZE, WIDTH, generator=rng)
    targets = torch.arange(LABELED) % CLASSES
    labeled = TensorDataset(torch.randn(LABELED, WIDTH, generator=rng), targets)
    return nn.Sequential(*layers).eval(), pool, labeled


def as_numbers(query: Query) -> Tensor:
    """Positions and scores of picks."""
    return torch.cat([torch.from_numpy(query.indices).double(), torch.from_numpy(query.scores)])


def picks_of(
    strategy: strategies.Strategy, model: nn.Module, pool: Any, n: int, call: dict[str, Any]
) -> Tensor:
    """The picks of a call."""
    return as_numbers(strategy.select(model, pool, n, **call))


def rows_in_files(model: nn.Module, pool: Tensor) -> Iterator[Case]:
    """Noise stability in memory, spilled, and in a file of the user's: new, resumed and read again."""
    for key, settings in ROW_CASES.items():
        strategy = strategies.build("noise-stability", **settings)
        yield f"rows {key} picks", partial(picks_of, strategy, model, pool, 20, {"seed": 4})
        yield f"rows {key}", partial(strategy.embed, model, pool, seed=4)
    yield "chosen of spilled rows", partial(spilled_picks, model, pool)
    yield "cached", partial(cached_rows, model, pool)


def spilled_picks(model: nn.Module, pool: Tensor) -> Tensor:
    """Picks among rows that lie in a temporary file, for which a whole call would ask for more memory."""
    rows = strategies.build("noise-stability", memory_bytes=MEMORY).embed(model, pool, seed=4)
    found = [selector(name).pick(rows, 20, seed=4) for name in ("k-center", "k-means++", "longest")]
    return torch.cat([part.double() for picks in found for part in picks])


def cached_rows(model: nn.Module, pool: Tensor) -> Tensor:
    """Rows of three calls with one file: cut off half way, resumed, and read again."""
    with TemporaryDirectory() as folder:
        strategy = strategies.build("noise-stability", cache_path=Path(folder) / "rows.npy")
        data = CutOff(pool)
        call: dict[str, Any] = {"seed": 4, "batch_size": 16}
        with suppress(InterruptedError):
            strategy.embed(model, data, **call)
        data.end = len(pool)
        found = [strategy.embed(model, data, **call), strategy.embed(model, data, **call)]
        return torch.cat([torch.as_tensor(rows).clone() for rows in found])


class CutOff(Dataset[Tensor]):
    """A pool that cannot be read beyond some example, until `end` says otherwise."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.end = len(rows) // 2

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Tensor:
        if place >= self.end:
            raise InterruptedError("the pool is cut off here")
        return self.rows[place]


def in_shards(model: nn.Module, pool: Tensor, labeled: Any) -> Iterator[Case]:
    """Picks among rows that lie in several shards of this process."""
    for name in SHARDED:
        strategy = strategies.build(name)
        assert isinstance(strategy, Embedding)
        for shards in SHARDS:
            yield f"shards {name} {shards}", partial(sharded_picks, strategy, model, pool, labeled, shards)


def sharded_picks(strategy: Embedding, model: nn.Module, pool: Tensor, labeled: Any, shards: int) -> Tensor:
    """Picks over shards of unequal sizes."""
    rows = strategy.embed(model, pool, labeled=labeled, seed=6)
    cuts = [len(rows) * number**2 // shards**2 for number in range(shards + 1)]
    parts = [torch.arange(start, stop) for start, stop in pairwise(cuts)]
    here = LocalShards([Shard(rows[part], part) for part in parts])
    found = selector(strategy.selector).pick_over(here, 25, seed=6)
    return torch.cat([found.positions.double(), found.scores.double()])


def of_arrays() -> Iterator[Case]:
    """Picks of arrays in place of a model."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(4), 300)
    features = rng.normal(size=(300, 6)).astype(np.float32)
    known = {
        "features": features[:20] + 1,
        "probabilities": probabilities[:20],
        "labels": np.arange(20) % 4,
    }
    for name in ARRAYS:
        arrays = {"probabilities": probabilities, "features": features, "labeled": known}
        yield f"arrays {name}", partial(picks_of_arrays, name, arrays)


def picks_of_arrays(name: str, arrays: dict[str, Any]) -> Tensor:
    """The picks of a strategy among arrays."""
    return as_numbers(strategies.select(name, n=8, seed=2, **arrays))


def labeling_round() -> str:
    """What a labeling project asks for in three rounds, all answered by a rule."""
    from jostle.labeling import Session

    draw = random.Random(0)
    words = {
        "bill": ["invoice", "refund", "card"],
        "bug": ["crash", "error", "log"],
        "thanks": ["love", "best"],
    }
    with TemporaryDirectory() as folder:
        table = Path(folder) / "tickets.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "message"])
            for number in range(120):
                topic = draw.choice(list(words))
                writer.writerow([f"t{number}", " ".join([*draw.choices(words[topic], k=3), str(number)])])
        session = Session.open(table, text="message", answers=list(words), batch=10, encoder="words", seed=7)
        asked: list[str] = []
        for _ in range(3):
            session.train()
            for question in session.ask(10, "ann"):
                message = str(session.content(question.key))
                answer = next(topic for topic in words if any(word in message for word in words[topic]))
                session.tell(question.key, answer, "ann")
                asked.append(f"{question.key} {answer}")
        return "\n".join(asked)


def run_picks() -> str:
    """The picks of each cycle of a tiny experiment."""
    with TemporaryDirectory() as folder:
        protocol, out = Path(folder) / "tiny.toml", Path(folder) / "out"
        protocol.write_text(PROTOCOL)
        command = [sys.executable, "-m", "jostle", "run", str(protocol), "--out-dir", str(out), "--no-report"]
        subprocess.run(command, check=True, capture_output=True)
        found: dict[str, Any] = {}
        for path in sorted(out.rglob("*.jsonl")):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found[path.relative_to(out).as_posix()] = [line.get("picked") for line in lines]
        return json.dumps(found, sort_keys=True)
