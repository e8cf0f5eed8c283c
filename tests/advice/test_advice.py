"""Advice: the nearest settings by factors, the arena's numbers from runs, and what is said of a case."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from synthetic_runs import write_runs
from tools.arena import main as write_arena
from tools.arena import with_the_default
from torch import nn
from torch.utils.data import TensorDataset

from jostle import cli, strategies
from jostle.advice import Case, Seen, Setting, advice, advise, nearest


def setting(
    name: str, task: str = "classification", classes: int = 2, labels: int = 10, **seen: float
) -> Setting:
    found = {label: Seen(gain, gain, 5, 1 if gain > 0 else -1, 1.0, 0.05) for label, gain in seen.items()}
    return Setting(name, name, task, classes, 1000, labels, 10, found)


@pytest.fixture
def small_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    known = (
        setting("cold", labels=2, default=0.1, margin=0.3),
        setting("warm", labels=100, default=0.4, margin=0.2),
        setting("many", classes=26, labels=100, default=0.4),
        setting("numbers", "regression", classes=1, default=0.2, lcmd=0.1),
    )
    monkeypatch.setattr(advice, "settings", lambda: known)


@pytest.mark.usefixtures("small_arena")
def test_the_nearest_setting_is_that_of_like_labels_and_classes() -> None:
    def names(*case: int, task: str = "classification") -> list[str]:
        return [each.name for each in nearest(task, *case)]

    assert names(2, 1000, 150, 10) == ["warm", "cold", "many"]
    assert names(2, 1000, 3, 10)[0] == "cold"
    assert names(20, 1000, 80, 10)[0] == "many"
    assert names(2, 1000, 3, 10, task="binary")[0] == "cold"
    assert names(1, 1000, 10, 10, task="regression") == ["numbers"]
    assert names(5, 1000, 10, 10, task="segmentation") == []


@pytest.mark.usefixtures("small_arena")
def test_the_default_is_advised_and_whoever_was_better_is_named() -> None:
    advised = advise(Case("classification", 2, 1000, n=10, labels=3))
    assert advised.strategy == "default"
    assert "in cold, default was ahead of random over 5 seeds: +10% of random's error" in advised.why[1]
    assert "in cold, margin was ahead" in advised.why[2]
    assert len(advise(Case("classification", 2, 1000, n=10, labels=200)).why) == 2  # it is the best itself


def test_groups_have_the_means_of_their_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    first = setting("a", default=0.1, margin=0.3, badge=0.9)
    second = setting("b", default=0.3, margin=-0.1)
    other = setting("c", labels=2, default=0.5)
    known = tuple(replace(each, kind="tables") for each in (first, second, other))
    monkeypatch.setattr(advice, "settings", lambda: known)
    few, more = advice.groups()
    assert (few.few_labels, [each.name for each in more.settings]) == (True, ["a", "b"])
    own = more.record("default")
    assert own is not None
    assert (own.gain, own.worst, own.best, own.ahead, own.behind) == (pytest.approx(0.2), 0.1, 0.3, 2, 0)
    assert own.within == pytest.approx(1.96 * 0.05 / 2**0.5)  # of the mean of two
    best = more.best_except("default")
    assert best is not None
    assert (best.strategy, best.gain, best.behind) == ("margin", pytest.approx(0.1), 1)  # b lacks badge
    assert advice.find_group("tables", 2, 100, 10) == more
    assert advice.find_group("tables", 2, 3, 10) == few
    assert advice.find_group("regressions", 1, 3, 10) is None
    said = advise(Case("classification", 2, 1000, n=10, labels=100)).why[1]
    assert "over 2 settings default took away +20% ± 7% of random's error (+10% to +30%)" in said


@pytest.mark.usefixtures("small_arena")
def test_a_record_over_all_settings() -> None:
    assert advice.record("margin") == (
        "+25% of random's error taken away on average over 2 settings, from +20% to +30%; "
        "clearly ahead of random in 2, clearly behind in 0"
    )
    assert advice.record("entropy") == ""


def test_what_the_package_carries_names_strategies_that_exist() -> None:
    assert advice.settings()
    for each in advice.settings():
        assert each.seen.keys() <= set(strategies.names())
        assert each.best_first[0] in each.seen


def test_runs_of_an_earlier_default_count_for_the_strategy_that_it_was() -> None:
    ran = {"default": {"gain": 0.1}, "margin": {"gain": 0.2}}
    found = with_the_default(ran, "classification")
    assert found["default"] == found["noise-herding"] == {"gain": 0.1}
    found = with_the_default({**ran, "typiclust": {"gain": 0.3}}, "regression")
    assert (found["default"], found["flip-cover"]) == ({"gain": 0.3}, {"gain": 0.1})
    assert "default" not in with_the_default(ran, "regression")


def test_the_file_is_made_of_runs(tmp_path: Path) -> None:
    curves = {"random": [[0.5, 0.6, 0.7], [0.5, 0.6, 0.7]], "margin": [[0.5, 0.8, 0.9], [0.5, 0.7, 0.9]]}
    facts = {"dataset": {"use": "digits"}, "title": "Arena: digits", "initial": 20, "pick": 20}
    folders = [str(write_runs(tmp_path / name, curves, **facts)) for name in ("arena-a", "arena-b")]
    out = tmp_path / "arena.json"
    write_arena([str(out), *folders])
    first, second = json.loads(out.read_text())
    assert (first["name"], second["name"]) == ("arena-a", "arena-b")
    assert (first["title"], first["task"], first["classes"], first["labels"]) == (
        "digits",
        "classification",
        10,
        20,
    )
    margin = first["seen"]["margin"]
    assert margin["seeds"] == 2
    # areas: 60 for random, 75 and 70 for margin, by trapezes; random lacks 40 points of 100
    assert margin["gain"] == pytest.approx((15 + 10) / 2 / 40, abs=1e-3)
    assert margin["error"] == pytest.approx(2.5 / 40, abs=1e-3)  # of two seeds: half their difference
    assert "random" not in first["seen"]


MINE = """
import torch
from torch import nn

def load():
    torch.manual_seed(0)
    return nn.Linear(3, 4)

def pool():
    return torch.randn(200, 3)

def known():
    return torch.randn(12, 3), torch.arange(12) % 4, torch.empty(0, 3), torch.empty(0, dtype=torch.int64)
"""


def test_the_command_tells_strategy_reasons_price_and_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    words = [
        "advise",
        "--model",
        "mine.py:load",
        "--pool",
        "mine.py:pool",
        "--labeled",
        "mine.py:known",
        "-n",
        "5",
    ]
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    said = capsys.readouterr()
    assert end.value.code == 0, said.err
    assert "Use: --strategy default" in said.out
    assert "Why: `default` is linear-herding here" in said.out
    model, pool = nn.Linear(3, 4), torch.randn(200, 3)
    labeled = TensorDataset(torch.randn(12, 3), torch.arange(12) % 4)
    plan = strategies.build("default").plan(model, pool, 5, labeled=labeled)
    assert f"{plan.passes:,} examples through the model" in said.out
    assert "labels saved, %" in said.out
