"""The published settings of every method, in one table: a default that drifts is another method."""

from operator import attrgetter
from typing import Any

import pytest

from jostle.strategies import build, names

JOLTS = {"num_perturbations": 30, "noise_scale": 1e-3}
PASSES = {"passes": 50, "insert_dropout": None}
GRAPH = {"width": 128, "dropout": 0.3, "epochs": 200, "lr": 1e-3, "decay": 5e-4, "unlabeled_weight": 1.2}
PUBLISHED: dict[str, dict[str, Any]] = {
    "noise-stability": JOLTS,
    "noise-stability-relative": JOLTS | {"normalize": True},
    "noise-stability-m": JOLTS,
    "noise-stability-d": JOLTS,
    "bald": PASSES,
    "entropy-dropout": PASSES,
    "batch-bald": PASSES | {"selector.exact": 100_000, "selector.samples": 10_000},
    "qbc": {"committee": 5, "members": None},
    "core-gcn": GRAPH,
    "uncertain-gcn": GRAPH | {"margin": 0.1},
    "vaal": {"steps": None, "batch": 128, "learning_rate": 5e-4, "latent": 32, "beta": 1.0, "adversary": 1.0},
    "sraal": {
        "steps": None, "batch": 250, "learning_rate": 5e-4, "latent": 200,
        "reconstruction": 5.0, "beta": 1.0, "supervision": 5.0, "adversary": 1.0,
    },
    "ll4al": {"hidden": 128, "margin": 1.0, "weight": 1.0, "detach_after": 0.6},
    "alfa-mix": {"form": "closed", "cap_step": None, "steps": 5, "lr": 0.1},
    "bait": {"regularization": 1.0},
    "typiclust": {"selector.clusters": 500, "selector.small": 5, "selector.neighbors": 20},
    "lcmd": {"sketch": 512},
    "cluster-margin": {"spare": 1.25},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_defaults_are_those_published(name: str) -> None:
    strategy = build(name)
    assert {setting: attrgetter(setting)(strategy) for setting in PUBLISHED[name]} == PUBLISHED[name]


def test_the_table_names_strategies_of_the_registry() -> None:
    assert set(names()) >= set(PUBLISHED)
