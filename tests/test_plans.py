"""Plans tell what then happens: passes exactly, memory within 25 %; times are a file of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from quick import QUICK
from torch import nn
from torch.utils.data import TensorDataset
from zoo import ConvNet

import jostle
from jostle import cli, strategies
from jostle.inference.runner import tallied

CLASSIFYING = [
    name
    for name in strategies.names()
    if name != "ll4al" and "classification" in strategies.describe(name).tasks
]
LOOKS = 40  # examples that first looks may take: shapes, dropout's places, heads


@pytest.mark.parametrize("name", CLASSIFYING)
def test_passes_are_those_that_are_made(name: str) -> None:
    torch.manual_seed(0)
    model, pool = ConvNet(), torch.randn(400, 1, 8, 8)
    labeled = TensorDataset(torch.randn(60, 1, 8, 8), torch.arange(60) % 4)
    settings = {key: value for key, value in QUICK.get(name, {}).items() if key != "fit"}
    strategy = strategies.build(name, **settings)
    call: dict[str, Any] = {"labeled": labeled, "fit": lambda dataset, seed: ConvNet(), "seed": 0}
    plan = strategy.plan(model, pool, 6, **call)
    with tallied() as tally:
        strategy.select(model, pool, 6, **call)
    assert plan.passes <= tally.examples <= plan.passes + LOOKS
    assert plan.peak >= max(plan.memory["rows"], plan.memory["selection"]) > 0
    assert f"{plan.passes:,} examples through the model" in str(plan)


def test_a_plan_makes_hardly_any_pass_and_changes_nothing(unchanged: Any) -> None:
    model, pool = ConvNet(), torch.randn(300, 1, 8, 8)
    check = unchanged(model)
    before = torch.get_rng_state()
    with tallied() as tally:
        jostle.NoiseStability().plan(model, pool, 5, batch_size=8)
    assert tally.examples == 0, "a rehearsal counts nowhere"
    assert torch.equal(torch.get_rng_state(), before)
    check()


TRIES = 6  # peaks of one call differ by a factor of two: allocator and system give pages back when they like
MEASURED = """
import json, re, sys, torch, jostle
from pathlib import Path
from torch import nn

def bytes_of(field):
    return int(re.search(field + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

torch.set_num_threads(1)
name, settings, size = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
model = nn.Sequential(nn.Linear(50, 300), nn.ReLU(), nn.Linear(300, 60))
pool = torch.randn(size, 50)
known = torch.utils.data.TensorDataset(torch.randn(50, 50), torch.arange(50) % 60)
strategy = jostle.strategies.build(name, **settings)
plan = strategy.plan(model, pool, 40, labeled=known, seed=0, progress=False)
jostle.strategies.build(name, **settings | {"memory_bytes": None}).select(
    model, pool[:500], 40, labeled=known, seed=0, progress=False
)
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
before = bytes_of("VmRSS")
strategy.select(model, pool, 40, labeled=known, seed=0, progress=False)
print(json.dumps([plan.peak, bytes_of("VmHWM") - before]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the peak of a process")
@pytest.mark.parametrize(
    ("name", "settings", "size"),
    [
        ("noise-stability", {"num_perturbations": 20, "memory_bytes": 100_000_000}, 30_000),  # rows in a file
        ("coreset", {}, 100_000),  # 120 MB of features in memory
    ],
)
def test_memory_is_told_within_a_quarter(name: str, settings: dict[str, Any], size: int) -> None:
    words = [sys.executable, "-c", MEASURED, name, json.dumps(settings), str(size)]
    seen = list[float]()
    for _ in range(TRIES):
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        told, real = json.loads(done.stdout)
        seen.append(told / real)
        if 0.75 < seen[-1] < 1.25:
            return
    pytest.fail(f"promised over real memory, each time: {seen}")


def test_files_and_cheaper_ways_are_shown() -> None:
    model, pool = nn.Linear(4, 30), torch.randn(40_000, 4)
    spilled = jostle.NoiseStability(memory_bytes=200_000_000).plan(model, pool, 5)
    assert spilled.file == 40_000 * 30 * 30 * 4
    assert spilled.memory["rows"] < spilled.file / 2
    assert "temporary file" in str(spilled)
    assert "144 MB of rows" in str(spilled)
    assert any("num_perturbations=10: 440,000 passes" in way for way in spilled.suggestions)


def test_the_command_line_prints_a_plan_and_picks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from jostle import models\n\ndef load():\n    return models.build('digits-cnn', seed=0)\n"
    )
    strategy = "noise-stability(num_perturbations=3)"

    def pick(*words: str) -> int | str | None:
        with pytest.raises(SystemExit) as ended:
            cli.main(["pick", "--model", "mine.py:load", "--pool", "digits", "-n", "5", "--strategy", *words])
        return ended.value.code

    assert pick(strategy, "--plan") == 0
    out = capsys.readouterr().out
    assert out.startswith("noise-stability: 5 of ")
    assert "passes" in out
    assert not (tmp_path / "picks.csv").exists()
    assert pick(strategy, "--work", "work") == 0
    assert (tmp_path / "work" / "rows.npy.journal").exists()
    picks = (tmp_path / "picks.csv").read_text()
    assert pick(strategy, "--work", "work") == 0
    assert (tmp_path / "picks.csv").read_text() == picks
    assert pick("margin", "--work", "work") == 2
    assert "margin has no such rows" in capsys.readouterr().err
