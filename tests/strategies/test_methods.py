"""Methods of 2019 to 2024: what their oracles do not see."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import jostle
from jostle.embeddings.committee import jensen_shannon
from jostle.embeddings.features import Graph
from jostle.embeddings.gradients import expected_gradient_length
from jostle.selectors import break_ties, tie_keys
from jostle.selectors.clusters import k_means, lcmd
from jostle.selectors.prob_cover import SURFACE, BallGraph, pure_radius
from jostle.selectors.prob_cover import ProbCover as Cover
from jostle.strategies import CoreGCN, build, select
from jostle.strategies.batch_bald import JointInformation
from jostle.strategies.falcun import ContrastiveDraws
from jostle.strategies.ldm_s import seeding_weights


@pytest.mark.parametrize("posterior", ["perturbations", "dropout", "committee"])
def test_epig_cares_about_the_targets_it_is_given(posterior: str) -> None:
    """Left and right halves of the inputs have weights of their own: a label of one side says nothing of the other."""

    class Sides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(8, 2, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.drop(x))

    pool = torch.zeros(20, 8)
    pool[:10, :4], pool[10:, 4:] = torch.randn(10, 4) * 3, torch.randn(10, 4) * 3
    members = [Sides() for _ in range(8)]
    settings = {"members": members} if posterior == "committee" else {"samples": 60, "noise_scale": 0.5}
    strategy = jostle.strategies.build("epig", target=pool[:10] * 1.1, posterior=posterior, **settings)
    model = members[0].eval()
    scores = strategy.embed(model, pool, seed=0)
    assert scores[:10].mean() > 1.5 * scores[10:].mean()


def test_falcun_draws_by_uncertainty_and_distance() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.6, 0.3, 0.1], [1.0, 0.0, 0.0]]).double()
    u = torch.tensor([1.0, 1.0, 0.7, 0.0]).double()
    draw = ContrastiveDraws(gamma=2.0)
    picks = torch.stack([draw.pick(p, 2, weights=u, seed=seed).positions for seed in range(200)])
    first = (u + (u - u.min()) / (u.max() - u.min())).square()
    torch.testing.assert_close(
        picks[:, 0].bincount(minlength=4).double() / 200, first / first.sum(), rtol=0, atol=0.14
    )
    after = picks[picks[:, 0] == 0, 1]
    nearest = torch.minimum(u, (p - p[0]).abs().sum(1))[1:]
    relevance = (u[1:] + (nearest - nearest.min()) / (nearest.max() - nearest.min())).square()
    shares = after.bincount(minlength=4)[1:].double() / len(after)
    torch.testing.assert_close(shares, relevance / relevance.sum(), rtol=0, atol=0.2)


def test_seeding_weights_decay_and_the_rest_weighs_as_much_as_the_batch() -> None:
    metric = torch.tensor([0.4, 0.1, 0.2, 0.3, 0.8]).double()
    gamma = seeding_weights(
        metric, metric.argsort(), 2
    )  # L_n is the third smallest, as in the published code
    rest = torch.tensor([0.4, 0.3, 0.8]).double()
    decay = (-(rest - 0.3).clamp(min=0) / 0.3).exp()
    expected = (2 * decay / decay.sum()).clamp(max=1)
    assert gamma[[1, 2]].tolist() == [1.0, 1.0]
    torch.testing.assert_close(gamma[[0, 3, 4]], expected)


def dense(features: Tensor) -> Tensor:
    rows = features / features.norm(dim=1, keepdim=True)
    similarity = rows @ rows.T - torch.eye(len(rows), dtype=rows.dtype)
    return similarity / similarity.sum(0) + torch.eye(len(rows), dtype=rows.dtype)


def test_columns_that_sum_to_nothing_stay_finite() -> None:
    graph = Graph.of(torch.eye(4))  # orthogonal features: every column of X X^T - I is zero
    torch.testing.assert_close(graph.propagated(torch.eye(4)), torch.eye(4))
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 2))
    known = TensorDataset(torch.eye(4)[3:], torch.zeros(1).long())
    assert torch.isfinite(CoreGCN(epochs=3).embed(model, torch.eye(4)[:3], labeled=known, seed=0)).all()


def test_training_by_hand() -> None:
    """Adam on the loss and half the decay times the squared weights, under masks that spare seven in ten."""
    features, known = torch.randn(9, 3).double(), torch.arange(9) >= 6
    settings = CoreGCN(width=5, dropout=0.3, epochs=6, lr=0.02, decay=0.05)
    model = nn.Sequential(nn.Identity(), nn.Linear(3, 2)).double()
    with settings.context(model, features[:6], seed=3, labeled=TensorDataset(features[6:])) as context:
        hidden, scores = settings.trained(Graph.of(features), known, context)
        weights = settings.drawn(features, context.rng("graph weights"))
        draws = context.rng("graph dropout")
    adjacency, rows = dense(features), F.normalize(features)
    w1, b1, w2, b2 = (weight.requires_grad_() for weight in weights)
    adam = torch.optim.Adam([w1, b1, w2, b2], lr=0.02)
    for _ in range(6):
        seen = torch.relu(adjacency @ rows @ w1 + b1)
        spared = torch.rand(9, 5, generator=draws, dtype=torch.float64) >= 0.3
        s = (adjacency @ (seen * spared / 0.7) @ w2 + b2).sigmoid().squeeze(1)
        decay = 0.05 / 2 * sum(weight.square().sum() for weight in (w1, b1, w2, b2))
        adam.zero_grad()
        (decay - s[6:].log().mean() - 1.2 * (1 - s[:6]).log().mean()).backward()
        adam.step()
    expected = torch.relu(adjacency @ rows @ w1 + b1)
    torch.testing.assert_close(hidden, expected.detach())
    torch.testing.assert_close(scores, (adjacency @ expected @ w2 + b2).detach())


def test_without_spare_examples_it_is_least_margin_among_the_very_sure() -> None:
    model = nn.Sequential(nn.Identity(), nn.Linear(2, 2, bias=False))
    model[1].weight.data.copy_(torch.eye(2))
    gaps = torch.linspace(34, 20, 21)  # single precision gives every one of these a margin of 1
    x = torch.stack([gaps, torch.zeros(21)], 1)
    assert (x.softmax(1)[:, 0] == 1).all()
    query = select("cluster-margin", model, x, n=3, spare=1.0, seed=0)
    assert set(query.indices.tolist()) == {20, 19, 18}
    assert select("margin", model, x, n=3).indices.tolist() == [20, 19, 18]
    np.testing.assert_allclose(np.sort(query.scores), 2 * torch.exp(-gaps[-3:].double()), rtol=1e-4)


def opinions(n: int, passes: int, c: int, seed: int = 0) -> Tensor:
    """Distributions that a random linear model gives, one set of weights for each pass: (n, T, c)."""
    draws = torch.Generator().manual_seed(seed)
    weights = torch.randn(passes, 4, c, generator=draws, dtype=torch.float64)
    inputs = torch.randn(n, 4, generator=draws, dtype=torch.float64)
    return torch.einsum("nd,tdc->ntc", inputs, weights).softmax(-1)


def test_drawn_combinations_approach_all_of_them() -> None:
    rows = opinions(40, 20, 3, 1)
    exact = JointInformation(exact=3**6).pick(rows, 6)
    drawn = JointInformation(exact=1, samples=20_000).pick(rows, 6, seed=0)
    assert drawn.positions[0] == exact.positions[0]
    np.testing.assert_allclose(drawn.scores, exact.scores, atol=0.02)
    assert abs(drawn.scores - exact.scores)[1:].max() > 1e-7  # it was a sample
    again = JointInformation(exact=1, samples=20_000).pick(rows, 6, seed=0)
    assert (drawn.positions == again.positions).all()
    assert (drawn.scores == again.scores).all()


def test_labels_tell_the_logarithm_of_the_passes_at_most_and_the_rest_goes_by_bald() -> None:
    told = torch.eye(2, dtype=torch.float64)[None]  # a label that says which of two passes it was
    rows = torch.cat([opinions(8, 2, 2, 6), told, opinions(8, 2, 2, 7)])
    picks = JointInformation().pick(rows, 17)
    alone = jensen_shannon(rows.unbind(1))
    assert picks.positions.tolist() == alone.argsort(descending=True).tolist()
    assert picks.positions[0] == 8
    np.testing.assert_allclose(picks.scores, [math.log(2)] + [0.0] * 16, atol=1e-12)


class Count(list[int]):
    """Copies count together."""

    def __deepcopy__(self, memo: Any) -> Count:
        return self


class Same(nn.Module):
    """Gives back its inputs, so that a pool is its own logits; counts the examples that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Count([0])

    def forward(self, x: Tensor) -> Tensor:
        self.seen[0] += len(x)
        return x


def scores(name: str, logits: Tensor, **options: Any) -> Tensor:
    rows = build(name).embed(Same(), logits, seed=0, **options)
    assert isinstance(rows, Tensor)
    return rows.double()


def test_sure_and_uniform_predictions_bound_every_score() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [2000.0, -2000.0, 0.0, 0.0]])
    for name, most in (("entropy", math.log(4)), ("margin", 1.0), ("least-confidence", 0.75)):
        torch.testing.assert_close(scores(name, logits), torch.tensor([most, 0.0]).double())


def test_gradient_lengths_of_nearly_sure_predictions_keep_their_order() -> None:
    logits = torch.tensor([[8.0, 0.0, 0.0], [12.0, 0.0, 0.0], [16.0, 0.0, 0.0]]).double()
    lengths = expected_gradient_length(logits.softmax(1), torch.ones(3, 1))
    assert lengths[0] > 10 * lengths[1] > 100 * lengths[2] > 0


def test_random_does_not_run_the_model() -> None:
    model = Same()
    query = jostle.select("random", model, torch.randn(50, 3), n=20, seed=1)
    assert model.seen[0] == 0
    assert len(set(query.indices)) == 20
    assert np.isnan(query.scores).all()


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).double()


def test_pool_and_labeled_rows_share_their_jolts(model: nn.Module) -> None:
    x = torch.randn(9, 4).double()
    pool = torch.cat([x[:6], x[8:]])  # the last is the only one without a label
    labeled = TensorDataset(x[:8], torch.full((8,), 0.5))
    query = select("lcmd", model, pool, n=3, labeled=labeled, seed=0, sketch=16, batch_size=4)
    assert query.indices[0] == 6
    assert query.scores[0] > 0.01
    assert query.scores[1:] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_copies_of_centers_change_no_pick(offset: float) -> None:
    for seed in range(10):
        draws = torch.Generator().manual_seed(seed)
        rows, centers = (
            torch.randn(300, 33, generator=draws) + offset,
            torch.randn(7, 33, generator=draws) + offset,
        )
        picks = lcmd(rows, 30, centers=centers, seed=0).tolist()
        assert lcmd(rows, 30, centers=centers.repeat(9, 1), seed=0).tolist() == picks


def naive(rows: Tensor, n: int, delta: float, centers: Tensor | None = None) -> tuple[list[int], list[int]]:
    """The whole graph, edges to covered rows removed at every pick; ties as seed 0 draws them."""
    keys = tie_keys(0, torch.arange(len(rows)))
    edges = torch.cdist(rows, rows) < delta
    covered = torch.zeros(len(rows), dtype=torch.bool)
    if centers is not None:
        covered = (torch.cdist(rows, centers) < delta).any(1)
    picks, gains = [], []
    for _ in range(n):
        degrees = (edges & ~covered).sum(1)
        picks.append(break_ties(degrees, keys))
        gains.append(int(degrees.max()))
        covered |= edges[picks[-1]]
    return picks, gains


@pytest.mark.parametrize("with_centers", [False, True])
@pytest.mark.parametrize("pairs", [2**22, 1000])  # kept, and computed again
def test_picks_equal_those_on_the_whole_graph(
    with_centers: bool, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jostle.selectors.prob_cover.MAX_PAIRS", pairs)
    rows = torch.randn(1500, 3).double()  # more than a block
    centers = torch.randn(9, 3).double() if with_centers else None
    picks = Cover(delta=0.6).pick(rows, 30, centers=centers, seed=0)
    positions, gains = naive(rows, 30, 0.6, centers)
    assert picks.positions.tolist() == positions
    assert picks.scores.tolist() == gains
    assert (picks.scores.diff() <= 0).all()


@pytest.mark.parametrize("scale", [1.0, 1e25])
def test_pairs_that_single_precision_cannot_tell_are_measured(scale: float) -> None:
    rows = torch.randn(40, 30).repeat(5, 1).double()
    rows += 1e-9 * torch.randn(200, 30).double()  # all distances within a group are nearly one
    apart = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    around = apart[::40, 1::40].flatten().sort().values  # of the pairs of two groups
    delta = float(around[12:14].mean()) / SURFACE**0.5
    within = (apart < SURFACE**0.5 * delta).sum(1)
    graph = BallGraph(rows * scale, SURFACE * (delta * scale) ** 2)
    assert graph.count_neighbors(torch.arange(200)).tolist() == within.tolist()


def test_the_pure_radius_is_the_largest() -> None:
    rows = torch.randn(60, 2).double()
    cells, _ = k_means(rows, 4, seed=0)
    radius = pure_radius(rows, cells, 0.9)

    def purity(delta: float) -> float:
        mixed = (torch.cdist(rows, rows) < delta) & (cells[:, None] != cells)
        return float((~mixed.any(1)).double().mean())

    assert purity(radius - 1e-9) >= 0.9
    assert purity(radius + 1e-6) < 0.9
    assert pure_radius(rows, torch.zeros(60), 0.9) == float("inf")


def test_a_row_on_the_surface_is_outside_whatever_rounding_does() -> None:
    rows = torch.tensor([[0.0], [1.0], [5.0]])
    for scale in [seventh / 7 for seventh in range(1, 50)]:  # in double precision, the rows in single
        assert float(Cover(delta=scale).pick(rows * scale, 1).scores) == 1
