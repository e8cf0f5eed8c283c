"""Scores of a user's own, `scores=`: selectors that rank rank by them, those that weigh weigh by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import jostle

torch.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
POOL = torch.randn(40, 4, dtype=torch.float64)
FEATURES = MODEL[:2](POOL).detach()
SCORES = np.random.default_rng(0).random(40)


@pytest.mark.parametrize("name", ["entropy", "margin", "least-confidence", "egl"])
def test_strategies_that_rank_take_the_largest(name: str) -> None:
    query = jostle.select(name, MODEL, POOL, 5, scores=SCORES, exclude=[int(SCORES.argmax())], seed=0)
    order = (-SCORES).argsort()
    assert list(query) == order[1:6].tolist()
    np.testing.assert_allclose(query.scores, SCORES[order[1:6]])


@pytest.mark.parametrize("name", ["max-herding", "uncertainty-herding", "margin-herding"])
def test_herding_weighs_by_them(name: str) -> None:
    strategy = jostle.strategies.build(name)
    assert isinstance(strategy, jostle.Embedding)
    picker = jostle.selectors.selector(strategy.selector)
    assert isinstance(picker, jostle.selectors.Weighing)
    wanted = picker.pick(FEATURES, 6, seed=2, weights=torch.as_tensor(SCORES)).positions.tolist()
    assert list(strategy.select(MODEL, POOL, 6, scores=SCORES, seed=2)) == wanted
    assert list(jostle.select(name, features=FEATURES.numpy(), scores=SCORES, n=6, seed=2)) == wanted
    assert list(strategy.select(MODEL, POOL, 6, seed=2)) != wanted


def test_explained_variance_weighs_by_them() -> None:
    strategy = jostle.compose("features", "explained-variance")
    wanted = jostle.selectors.explained_variance.pick(FEATURES, 6, seed=2, weights=torch.as_tensor(SCORES))
    assert list(strategy.select(MODEL, POOL, 6, scores=SCORES, seed=2)) == wanted.positions.tolist()


def test_power_margin_draws_by_them() -> None:
    scores = np.zeros(40)
    scores[[4, 8, 15]] = 1.0
    for seed in range(5):
        assert set(jostle.select("power-margin", MODEL, POOL, 3, scores=scores, seed=seed)) == {4, 8, 15}
    drawn = [
        next(iter(jostle.select("power-margin", MODEL, POOL, 1, scores=SCORES, seed=s))) for s in range(15)
    ]
    assert len(set(drawn)) > 4


@pytest.mark.parametrize(
    ("name", "scores", "words"),
    [
        ("coreset", SCORES, "takes no scores="),
        ("default", SCORES, "takes no scores="),
        ("random", SCORES, "takes no scores="),
        ("margin", SCORES[:7], r"one number for each of 40 examples; got shape \(7,\)"),
        ("margin", np.where(SCORES > 0.5, np.nan, SCORES), "scores="),
        ("max-herding", -SCORES, "not below 0"),
        ("power-margin", -SCORES, "0 or more"),
    ],
)
def test_scores_that_cannot_be_used_are_refused(name: str, scores: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        jostle.select(name, MODEL, POOL, 3, scores=scores, labeled=(POOL[:4], torch.tensor([0, 1, 2, 0])))


def test_scores_without_anything_to_rank_are_refused() -> None:
    with pytest.raises(TypeError, match=r"use top_k\(scores, n\)"):
        jostle.select("margin", scores=SCORES, n=3)
