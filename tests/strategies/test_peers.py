"""Picks and scores beside scikit-activeml, scipy and autograd."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from skactiveml import pool as peers
from skactiveml.classifier import SklearnClassifier
from skactiveml.regressor import SklearnRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import jostle
from jostle.embeddings.committee import jensen_shannon
from jostle.selectors.clusters import Typical, typical
from jostle.selectors.prob_cover import ProbCover
from jostle.strategies import Badge

SCORES = {"entropy": "entropy", "margin": "margin_sampling", "least-confidence": "least_confident"}
UNKNOWN = np.nan


@pytest.mark.parametrize("name", SCORES)
def test_scores_of_distributions(name: str) -> None:
    logits = 2 * torch.randn(60, 5, dtype=torch.float64)
    peer = peers.uncertainty_scores(logits.softmax(1).numpy(), method=SCORES[name])
    query = jostle.select(name, nn.Identity(), logits, n=60, task="classification")
    np.testing.assert_array_equal(query.indices, np.argsort(-peer))
    np.testing.assert_allclose(query.scores, np.sort(peer)[::-1], atol=1e-12)


def test_disagreement() -> None:
    p = torch.randn(4, 30, 5, dtype=torch.float64).softmax(-1)
    np.testing.assert_allclose(jensen_shannon(p), peers.average_kl_divergence(p.numpy().copy()), atol=1e-9)
    two = jensenshannon(p[0].numpy(), p[1].numpy(), axis=1) ** 2
    np.testing.assert_allclose(jensen_shannon(p[:2]), two, atol=1e-12)


def test_rows_of_badge_are_the_last_layers_gradients() -> None:
    model, x = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 4)), torch.randn(9, 6)
    for example, row in zip(x, Badge().embed(model, x, seed=0).dense(), strict=True):
        logits = model(example[None])
        gradient = torch.autograd.grad(F.cross_entropy(logits, logits.argmax(1)), model[2].weight)[0]
        torch.testing.assert_close(row, gradient.flatten(), rtol=1e-4, atol=1e-6)


def test_draws_of_badge() -> None:
    x, y = np.random.default_rng(0).normal(size=(50, 4)), np.full(50, UNKNOWN)
    y[:12] = np.arange(12) % 3
    fitted = SklearnClassifier(LogisticRegression(), classes=[0, 1, 2]).fit(x, y)
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 3)).double()
    with torch.no_grad():
        model[1].weight.copy_(torch.as_tensor(fitted.estimator_.coef_))
        model[1].bias.copy_(torch.as_tensor(fitted.estimator_.intercept_))
    peer = peers.Badge(random_state=0)
    picks, utilities = peer.query(x, y, fitted, fit_clf=False, batch_size=2, return_utilities=True)
    query = jostle.select("badge", model, torch.as_tensor(x[12:]), n=1, seed=0)
    assert query.indices[0] + 12 == picks[0]  # the first is the longest gradient in both
    rows = Badge().embed(model, torch.as_tensor(x[12:]), seed=0).dense()
    odds = (rows - rows[query.indices[0]]).square().sum(1)
    odds = torch.minimum(odds, rows.square().sum(1))  # the peer keeps the origin as a center, BADGE does not
    expected = np.delete(utilities[1, 12:], query.indices[0])
    np.testing.assert_allclose(np.delete((odds / odds.sum()).numpy(), query.indices[0]), expected, rtol=1e-6)


def test_picks_of_coreset() -> None:
    x, y = torch.randn(80, 5), np.full(80, UNKNOWN)
    y[60:] = 0
    peer = peers.CoreSet(random_state=0).query(x.double().numpy(), y, batch_size=15)
    labeled = TensorDataset(x[60:], torch.zeros(20).long())
    model = nn.Sequential(nn.Identity(), nn.Linear(5, 2))
    assert list(jostle.select("coreset", model, x[:60], n=15, labeled=labeled, seed=0)) == peer.tolist()


def test_hubs_of_prob_cover() -> None:
    stars = []
    for place, rays in enumerate((9, 7, 5)):
        angles = torch.arange(rays) * (2 * torch.pi / rays)
        star = torch.cat([torch.zeros(1, 2), torch.stack([angles.cos(), angles.sin()], 1)])
        stars.append(star + torch.tensor([100.0 * place, 0]))
    rows = torch.cat(stars)
    peer = peers.ProbCover(deltas=[1.01], random_state=0)
    expected = peer.query(rows.numpy(), np.full(len(rows), UNKNOWN), batch_size=3)
    assert ProbCover(delta=1.01)(rows, 3, seed=0).tolist() == expected.tolist() == [0, 10, 18]


def arms(center: float, steps: int) -> torch.Tensor:
    """A middle and 2 * steps points beside it, ever farther apart: the middle is the most typical."""
    beside = torch.arange(1, steps + 1).cumsum(0)
    line = torch.cat([torch.zeros(1), beside, -beside]) + center
    return torch.stack([line, torch.zeros_like(line)], 1)


def test_middles_of_typiclust() -> None:
    rows = torch.cat([arms(0, 4), arms(500, 6), arms(-500, 8)])
    peer = peers.TypiClust(random_state=0, k=4).query(rows.numpy(), np.full(len(rows), UNKNOWN), batch_size=3)
    assert typical(rows, 3, seed=0).tolist() == peer.tolist() == [22, 9, 0]  # the largest cluster first


def test_more_picks_than_clusters_come_in_turn() -> None:
    rows = torch.cat([arms(0, 8), arms(900, 6)])
    picks = Typical(clusters=2).pick(rows, 6, seed=0)
    assert (picks.positions >= 17).int().tolist() == [0, 1, 0, 1, 0, 1]
    assert picks.positions[:2].tolist() == [0, 17]
    assert sorted(typical(rows, 30, seed=0).tolist()) == list(range(30))


@pytest.mark.parametrize("name", ["igs", "gsx"])
def test_greedy_sampling(name: str) -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.full(40, UNKNOWN)
    y[:8] = x[:8, 0] ** 2
    fitted = SklearnRegressor(LinearRegression()).fit(x, y)
    if name == "igs":
        peer = peers.GreedySamplingTarget(random_state=0)
        picks = peer.query(x, y, reg=fitted, fit_reg=False, batch_size=6)
    else:
        picks = peers.GreedySamplingX(random_state=0).query(x, y, batch_size=6)
    model = nn.Linear(3, 1).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(fitted.coef_)[None])
        model.bias.fill_(fitted.intercept_)
    labeled = TensorDataset(torch.from_numpy(x[:8]), torch.from_numpy(y[:8, None]))
    query = jostle.select(name, model, torch.from_numpy(x[8:]), n=6, labeled=labeled, seed=0)
    assert (query.indices + 8).tolist() == picks.tolist()
