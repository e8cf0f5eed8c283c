"""Names of strategies and settings: one name each, and those of 0.2 in files still mean something."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import jostle
from jostle import Embedded, Strategy, strategies
from jostle.experiments.protocol import rename_strategies
from jostle.selectors import KCenter, Picks
from jostle.strategies import NoiseStability, build, deviations, names, select


def test_a_strategy_of_a_protocol_of_0_2_is_built() -> None:
    old = {"jolts": 3, "scale": 0.1, "grid": 2, "start": "labeled", "project": 8, "race": None}
    settings = rename_strategies({"noise-stability": old})["noise-stability"]
    assert settings == {
        "num_perturbations": 3,
        "noise_scale": 0.1,
        "spatial_grid": 2,
        "initial_centers": "labeled",
        "projection_dim": 8,
    }
    assert jostle.strategies.build("noise-stability", **settings)


@dataclass(frozen=True, kw_only=True)
class Fixed(Strategy):
    """Returns the positions that it was given."""

    positions: tuple[int, ...] = ()

    def query(self, context: jostle.QueryContext, n: int) -> Picks:
        return Picks(torch.tensor(self.positions), torch.zeros(len(self.positions)))

    def embedding(self, context: jostle.QueryContext) -> Embedded:
        return Embedded(torch.zeros(len(context.pool)))


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ((1, 1), "must pick distinct examples; got 1 more than once"),
        ((1,), r"must pick 2 examples with a score each; got positions \(1,\)"),
        ((0, 5), "must pick positions 0 to 4 of the pool; got 0 to 5"),
        ((-1, 2), "must pick positions 0 to 4"),
    ],
)
def test_picks_of_a_users_own_strategy_are_checked(positions: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=f"fixed {words}"):
        Fixed(positions=positions).select(nn.Linear(3, 2), torch.zeros(5, 3), 2)
    found = Fixed(positions=(4, 0)).select(nn.Linear(3, 2), torch.zeros(5, 3), 2)
    assert found.indices.tolist() == [4, 0]


def test_a_class_and_a_function_for_a_strategy_get_helpful_words() -> None:
    model, pool = nn.Linear(3, 2), torch.zeros(5, 3)
    with pytest.raises(TypeError, match=r"got the class Fixed: pass Fixed\(\)"):
        jostle.select(Fixed, model, pool, 2)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"got a function: .*query\(context, n\)"):
        jostle.select(lambda model, pool, n: range(n), model, pool, 2)  # type: ignore[call-overload]


def test_a_forgotten_embedded_is_named() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Bare(jostle.Embedding):
        def embedding(self, context: jostle.QueryContext) -> Embedded:
            return torch.zeros(len(context.pool), 1)  # type: ignore[return-value]

    with pytest.raises(
        TypeError, match=r"bare: embedding\(context\) must return jostle.Embedded\(rows\); got Tensor"
    ):
        Bare().select(nn.Linear(3, 2), torch.zeros(5, 3), 2)
    with pytest.raises(TypeError, match=r"must return jostle\.Embedded"):
        Bare().embed(nn.Linear(3, 2), torch.zeros(5, 3))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("top-k", r"unknown strategy 'top-k': it is a selector.*compose\('entropy', 'top-k'\)"),
        ("k-center", r"it is a selector.*compose\('features', 'k-center'\)"),
        ("features", r"it is an embedding; use jostle.compose\('features', 'k-center'\)"),
    ],
)
def test_a_selector_or_an_embedding_for_a_strategy_gets_helpful_words(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        jostle.select(name, nn.Linear(3, 2), torch.zeros(5, 3), 2)


def test_a_query_iterates_over_its_positions() -> None:
    query = Fixed(positions=(4, 0)).select(nn.Linear(3, 2), torch.zeros(5, 3), 2)
    assert (list(query), len(query)) == ([4, 0], 2)
    assert all(type(position) is int for position in query)


def test_members_of_a_committee_may_be_one_array() -> None:
    rng = torch.Generator().manual_seed(0)
    members = torch.rand(3, 20, 4, generator=rng).softmax(2).numpy()
    found = jostle.select("qbc", n=4, members=members, seed=0)
    listed = jostle.select("qbc", n=4, members=list(members), seed=0)
    assert found.indices.tolist() == listed.indices.tolist()
    with pytest.raises(TypeError, match=r"one array \(members, n, c\); got members of shape \(4,\)"):
        jostle.select("qbc", n=4, members=members[0])
    with pytest.raises(TypeError, match="leave model and pool out"):
        jostle.select("qbc", nn.Linear(3, 4), torch.zeros(20, 3), 4, members=members)


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


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3)).double()


@pytest.mark.parametrize("selector", ["longest", "uniform", "k-dpp", lambda rows, n: torch.arange(n)])
def test_a_selector_that_ignores_centers_cannot_start_from_the_labeled_set(selector: Any) -> None:
    with pytest.raises(
        ValueError, match=r"initial_centers='labeled' needs a selector .*k-center; \w+ does not"
    ):
        NoiseStability(selector=selector, initial_centers="labeled")
    assert NoiseStability(selector=selector).initial_centers == "origin"


def test_the_ablation_by_length_has_no_start_and_that_by_direction_has_one(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="Longest does not look at them"):
        build("noise-stability-m", initial_centers="labeled")
    pool, known = torch.randn(20, 5).double(), torch.randn(4, 5).double()
    labeled = TensorDataset(known, torch.zeros(4, dtype=torch.long))
    query = select("noise-stability-d", model, pool, 3, initial_centers="labeled", labeled=labeled, seed=3)
    rows = deviations(model, torch.cat([pool, known]), seed=3)
    assert query.indices.tolist() == KCenter(unit=True)(rows[:20], 3, centers=rows[20:]).tolist()


COPIES, SIZE, SEEDS, PICKS = 4, 12, 24, 2
QUICK = {"noise-stability": {"num_perturbations": 5}, "flip-cover": {"num_perturbations": 5}}


@pytest.mark.parametrize(
    "name",
    ["alfa-mix", "bait", "flip-cover", "noise-stability"],  # three that pick by themselves, one by a selector
)
def test_each_copy_is_picked_about_as_often(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    pool = torch.randn(SIZE, 6).repeat(COPIES, 1)
    labeled = TensorDataset(torch.randn(6, 6), torch.arange(6) % 3)
    strategy, counts = strategies.build(name, **QUICK.get(name, {})), torch.zeros(COPIES)
    for seed in range(SEEDS):
        for position in strategy.select(model, pool, PICKS, labeled=labeled, seed=seed).indices.tolist():
            counts[position // SIZE] += 1
    expected = SEEDS * PICKS / COPIES
    spread = (expected * (1 - 1 / COPIES)) ** 0.5
    assert (counts - expected).abs().max() < 4 * spread, counts.tolist()
