"""Names of strategies and settings: one name each, and those of 0.2 in files still mean something."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import jostle
from jostle import Embedded, Strategy
from jostle.experiments.protocol import rename_strategies
from jostle.selectors import Picks


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
