"""Racing jolts: the picks of all jolts for all examples, from fewer passes, and what is proven about it."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as values
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import NoiseStability
from jostle.embeddings.race import contenders
from jostle.selectors import KCenter, k_center, longest


def trained(classes: int = 4, width: int = 6, seed: int = 0) -> nn.Module:
    """A network that is sure of most of its pool, as trained ones are."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, classes))
    inputs = torch.randn(400, width)
    targets = inputs[:, :classes].argmax(1) if classes > 1 else inputs[:, :1] * 2
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        outputs = model(inputs)
        loss = (
            nn.functional.cross_entropy(outputs, targets)
            if classes > 1
            else (outputs - targets).square().mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@settings(max_examples=40, deadline=None)
@given(values.integers(0, 10**6), values.integers(1, 12), values.sampled_from([k_center, longest]))
def test_rows_shorter_than_the_last_gap_change_no_pick(seed: int, n: int, selector: Any) -> None:
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randn(60, 3, generator=rng) * torch.rand(60, 1, generator=rng) ** 2
    everyone = selector.pick(rows, n)
    reach = selector.reach(rows, n)
    kept = (rows.double().norm(dim=1) >= reach * (1 - 1e-6)).nonzero()[:, 0]
    assert kept[selector.pick(rows[kept], n).positions].tolist() == everyone.positions.tolist()


def test_selectors_that_take_short_rows_have_no_reach() -> None:
    assert KCenter(unit=True).reach(torch.randn(5, 2), 2) is None
    assert KCenter(origin=False).reach(torch.randn(5, 2), 2) is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"selector": "longest"},
        {"space": "logits"},
        {"noise": "layerwise"},
        {"normalize": True},
        {"estimator": "jvp"},
    ],
    ids=str,
)
def test_the_picks_are_the_same_from_fewer_passes(seed: int, options: dict[str, Any]) -> None:
    model, pool = trained(seed=seed), torch.randn(500, 6)
    plain = NoiseStability(jolts=16, **options).select(model, pool, 8, seed=seed)
    raced = NoiseStability(jolts=16, race=0.01, **options).select(model, pool, 8, seed=seed)
    assert raced.indices.tolist() == plain.indices.tolist()
    assert raced.scores.tolist() == pytest.approx(plain.scores.tolist(), rel=1e-4)
    assert plain.passes is None
    assert raced.passes is not None
    assert raced.passes.plain == 500 * 17
    assert raced.passes.made <= raced.passes.plain
    assert raced.passes.risk <= 0.01


def test_a_sure_network_needs_a_fraction() -> None:
    query = NoiseStability(race=0.01).select(trained(), torch.randn(1500, 6), 10, seed=0)
    assert query.passes is not None
    assert query.passes.made < 0.5 * query.passes.plain


def test_features_of_a_regression_race_by_what_the_jolts_show() -> None:
    model, pool = trained(classes=1), torch.randn(400, 6) * torch.rand(400, 1) * 3
    plain = NoiseStability(jolts=16).select(model, pool, 6, seed=0)
    raced = NoiseStability(jolts=16, race=0.01).select(model, pool, 6, seed=0)
    assert raced.indices.tolist() == plain.indices.tolist()
    assert raced.passes is not None
    assert raced.passes.made < raced.passes.plain


def test_excluded_examples_stay_out_and_positions_are_the_pools() -> None:
    model, pool = trained(), torch.randn(400, 6)
    out = list(range(0, 400, 3))
    plain = NoiseStability(jolts=8).select(model, pool, 5, seed=1, exclude=out)
    raced = NoiseStability(jolts=8, race=0.01).select(model, pool, 5, seed=1, exclude=out)
    assert raced.indices.tolist() == plain.indices.tolist()


@pytest.mark.parametrize(
    "options",
    [{"selector": "k-means++"}, {"start": "labeled"}, {"project": 4}, {"selector": "k-center-unit"}],
    ids=str,
)
def test_what_has_no_bound_is_measured_whole(options: dict[str, Any]) -> None:
    labeled = TensorDataset(torch.randn(5, 6), torch.arange(5) % 4)
    query = NoiseStability(jolts=4, race=0.01, **options).select(
        trained(), torch.randn(200, 6), 5, labeled=labeled, seed=0
    )
    assert query.passes is None


def test_most_of_a_pool_is_not_worth_a_race() -> None:
    query = NoiseStability(jolts=4, race=0.01).select(trained(), torch.randn(30, 6), 20, seed=0)
    assert query.passes is None


def test_equal_examples_and_examples_that_do_not_move() -> None:
    pool = torch.cat([torch.ones(100, 6), torch.randn(60, 6)])
    plain = NoiseStability(jolts=8).select(trained(), pool, 10, seed=0)
    raced = NoiseStability(jolts=8, race=0.01).select(trained(), pool, 10, seed=0)
    assert raced.scores.tolist() == pytest.approx(plain.scores.tolist(), rel=1e-4)
    assert len(set(raced.indices.tolist())) == 10


def test_embed_still_gives_all_rows() -> None:
    rows = NoiseStability(jolts=4, race=0.01).embed(trained(), torch.randn(50, 6), seed=0)
    assert isinstance(rows, Tensor)
    assert rows.shape == (50, 16)


def test_chances_that_are_borne_add_up_to_the_risk() -> None:
    chances = torch.tensor([0.5, 0.001, 0.002, 0.0, 0.006])
    assert contenders(chances, 0.01).tolist() == [0]
    assert contenders(chances, 0.005).tolist() == [0, 4]
    assert contenders(chances, 1e-9).tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize("race", [0.0, 1.0, -1.0])
def test_a_risk_is_a_chance(race: float) -> None:
    with pytest.raises(ValueError, match="race is a chance between 0 and 1"):
        NoiseStability(race=race)
