"""Every strategy has an oracle, and an oracle sees a strategy that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from attacks.driver import BrokenPromiseError, attempt
from attacks.oracles.checks import CHECKS
from jostle import strategies
from jostle.embeddings import deviations, uncertainty
from jostle.selectors import clusters, herding, prob_cover
from jostle.strategies import alfa_mix, bait, flip_cover
from jostle.strategies.herding import NoiseHerding

SLOW = {
    "badge",
    "power-margin",
    "random",
    "sraal",
    "vaal",
}  # frequencies of many draws, networks that are trained


def test_every_strategy_has_an_oracle() -> None:
    assert set(CHECKS) == set(strategies.names())


def try_scenes(name: str, scenes: int) -> None:
    for seed in range(scenes):
        attempt(name, lambda chance, folder: CHECKS[name](chance, name), seed)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_picks_are_those_of_the_definition(name: str) -> None:
    try_scenes(name, 2 if name in SLOW else 6)


bait_information = bait.information
MUTANTS: list[tuple[str, Any, str, Any]] = [
    ("margin", uncertainty, "small_margin", lambda p: 1 - p.amax(-1)),
    ("entropy", uncertainty, "entropy", lambda p: -(p * p.clamp(min=1e-9).log2()).sum(-1)),
    ("noise-stability", deviations.Deviations, "relative", lambda self, moved, clean: 1.01 * moved),
    ("max-herding", herding.Herding, "sigma", lambda self, centers: 0.9),
    ("uncertainty-herding", herding.Field, "gains", lambda self, near: near @ self.weights),
    ("noise-herding", NoiseHerding, "picker", lambda self, context: herding.Herding(width=0.5)),
    ("prob-cover", prob_cover, "SURFACE", 0.5),
    ("lcmd", clusters, "farthest_of_heaviest", lambda nearest, distances, *keys: int(distances.argmax())),
    ("flip-cover", flip_cover, "LOSS", 0.4),
    ("bait", bait, "information", lambda roots, features: 2 * bait_information(roots, features)),
    ("alfa-mix", alfa_mix, "class_means", lambda known, labels, c: known.mean(0).expand(c, -1)),
]


@pytest.mark.parametrize(("name", "place", "part", "wrong"), MUTANTS, ids=[each[0] for each in MUTANTS])
def test_an_oracle_sees_a_wrong_strategy(
    name: str, place: Any, part: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, part, wrong)
    with pytest.raises(BrokenPromiseError):
        try_scenes(name, 15)
