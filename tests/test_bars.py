"""Progress bars count examples while scoring and picks while selecting, to the end, in the words of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from quick import QUICK
from torch.utils.data import TensorDataset
from zoo import ConvNet

import jostle
from jostle import strategies
from jostle.core.planning import in_seconds as planned_words
from jostle.inference import context
from jostle.utils.progress import Advance, time_left

N, M, PICKS = 120, 20, 6  # M: labeled examples, and targets of epig
TRAINED = {
    "training vaal",
    "training sraal",
    "training the committee",
    "graph network",
    "mixing",
}  # count steps


class Bars:
    """What bars were shown: a name, how many steps there are, how many were made."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, list[float]]] = []

    @contextmanager
    def bar(self, what: str, total: int, show: bool | None = None) -> Iterator[Advance]:
        steps: list[float] = []
        self.seen.append((what, total, steps))
        yield steps.append

    def of(self, what: str) -> list[tuple[str, int, list[float]]]:
        return [seen for seen in self.seen if seen[0].startswith(what)]


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> Bars:
    made = Bars()
    monkeypatch.setattr(context, "progress_bar", made.bar)
    return made


def called(name: str, **settings: Any) -> None:
    torch.manual_seed(0)
    pool = torch.randn(N, 1, 8, 8)
    task = "classification" if "classification" in strategies.describe(name).tasks else "regression"
    labels = torch.randn(M, 4) if task == "regression" else torch.arange(M) % 4
    labeled = TensorDataset(torch.randn(M, 1, 8, 8), labels)
    strategy = strategies.build(name, **QUICK.get(name, {}) | settings)
    model = strategy.join(ConvNet(), pool[:2], 0).model
    options: dict[str, Any] = {
        "labeled": labeled,
        "fit": lambda dataset, seed: ConvNet(),
        "task": task,
        "seed": 0,
    }
    strategy.select(model, pool, PICKS, **options)


@pytest.mark.parametrize("name", strategies.names())
def test_every_strategy_shows_its_selection_and_comes_to_an_end(name: str, bars: Bars) -> None:
    called(name, **({"targets": M} if name == "epig" else {}))
    ((_, total, steps),) = bars.of("selecting")
    assert total == (3 * PICKS if name in ("bait", "bait-binary") else PICKS)  # 2n are added and n dropped
    assert sum(steps) == total
    for what, examples, made in bars.seen:
        if what not in TRAINED and what != "selecting":
            assert examples in (N, N + M), "examples, not examples times perturbations"
            assert sum(made) == pytest.approx(examples)


@pytest.mark.parametrize(
    "selector",
    ["k-center", "k-means++", "k-dpp", "lcmd", "herding", "prob-cover", "typical", "weighted-k-means"],
)
def test_slow_selectors_count_their_picks(selector: str, bars: Bars) -> None:
    called("noise-stability", selector=selector)
    ((_, total, steps),) = bars.of("selecting")
    assert sum(steps) == total == PICKS
    assert steps[0] > 0, "not all at the end"


def test_a_bar_on_a_terminal_tells_the_time_left(capfd: pytest.CaptureFixture[str]) -> None:
    jostle.NoiseStability(num_perturbations=2).select(
        ConvNet(), torch.randn(40, 1, 8, 8), n=2, seed=0, progress=True
    )
    shown = capfd.readouterr().err
    assert "40/40" in shown
    assert " left" in shown
    assert time_left(30, 25, 100) == f"about {planned_words(90)} left" == "about 90 s left"
    assert [time_left(*given) for given in ((600, 1, 31), (500, 0, 100), (3, 100, 100))] == [
        "about 5 h left",
        "",
        "about 0 s left",
    ]
