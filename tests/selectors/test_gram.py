"""Explained variance against the covariance matrix itself, and against a Gaussian process."""

from __future__ import annotations

import math

import pytest
import torch
from selector_oracles import assert_frequencies, determinants, tiny_blocks
from selector_rows import normal
from torch import Tensor

from jostle.selectors import k_dpp
from jostle.selectors.k_dpp import _eigenvectors
from jostle.selectors.variance import ExplainedVariance, explained_variance


def counted(rows: Tensor, k: int, draws: int) -> tuple[Tensor, Tensor]:
    expected = determinants(rows, k)
    counts = dict.fromkeys(expected, 0)
    for seed in range(draws):
        counts[tuple(sorted(k_dpp(rows, k, seed=seed).tolist()))] += 1
    return torch.tensor(list(counts.values())), torch.tensor(list(expected.values()))


@pytest.mark.parametrize(("n", "d", "k"), [(5, 3, 2), (4, 6, 2), (4, 6, 4)])
def test_subsets_come_with_their_exact_probabilities(n: int, d: int, k: int) -> None:
    rows = normal(n, d) * torch.linspace(0.3, 2, d)
    with tiny_blocks():
        assert_frequencies(*counted(rows, k, 300), 300)


def test_eigenvectors_come_in_proportion_to_products_of_eigenvalues() -> None:
    values = torch.tensor([1e-3, 0.5, 1.0, 3.0, 4.0], dtype=torch.float64)
    expected = determinants(values.sqrt().diag(), 3)
    counts, rng = dict.fromkeys(expected, 0), torch.Generator().manual_seed(0)
    for _ in range(1000):
        counts[tuple(sorted(_eigenvectors(values.log().numpy(), 3, rng)))] += 1
    assert_frequencies(torch.tensor(list(counts.values())), torch.tensor(list(expected.values())), 1000)


def test_scores_are_the_probabilities_when_picked() -> None:
    rows = normal(40, 6).double()
    picks = k_dpp.pick(rows, 6, seed=0)  # as many as the rank: all eigenvectors, one projection
    projection = rows @ torch.linalg.inv(rows.T @ rows) @ rows.T
    chosen = projection[picks.positions][:, picks.positions]
    torch.testing.assert_close(picks.scores.prod(), torch.linalg.det(chosen) / math.factorial(6))
    torch.testing.assert_close(picks.scores[0], chosen[0, 0] / 6)


def test_more_rows_than_the_rank_are_an_error_that_says_the_rank() -> None:
    rows = normal(30, 3) @ normal(3, 10, seed=1)
    assert len(k_dpp(rows.double(), 3, seed=0).unique()) == 3
    with pytest.raises(ValueError, match=r"asked for 4 rows of rank 3.*at most 3"):
        k_dpp(normal(30, 3), 4, seed=0)
    with pytest.raises(ValueError, match="rank 0"):
        k_dpp(torch.zeros(5, 3), 1, seed=0)


def plain_greedy(
    rows: Tensor, n: int, centers: Tensor | None, weights: Tensor, noise: float
) -> tuple[list[int], list[float]]:
    """With the whole n x n covariance."""
    x = rows / rows.norm(dim=1, keepdim=True)
    covariance = x @ x.T
    if centers is not None:
        known = centers / centers.norm(dim=1, keepdim=True)
        gram = known @ known.T + noise * torch.eye(len(known), dtype=x.dtype)
        covariance = covariance - x @ known.T @ torch.linalg.solve(gram, known @ x.T)
    picks, gains = list[int](), list[float]()
    for _ in range(n):
        gain = (weights * covariance.square()).sum(1) / (covariance.diagonal() + noise)
        gain[picks] = -1
        best = int(gain.argmax())
        picks.append(best)
        gains.append(float(gain[best]))
        column = covariance[:, best]
        covariance = covariance - torch.outer(column, column) / (column[best] + noise)
    return picks, gains


@pytest.mark.parametrize("labeled", [0, 1, 15, 400])
@pytest.mark.parametrize("width", [3, 40, 300])
def test_picks_are_those_of_the_whole_matrix(labeled: int, width: int) -> None:
    rows = torch.randn(120, width, dtype=torch.float64)
    centers = torch.randn(labeled, width, dtype=torch.float64) if labeled else None
    weights = torch.rand(120, dtype=torch.float64)
    picks = ExplainedVariance(noise=0.1).pick(rows, 30, centers=centers, weights=weights)
    expected, gains = plain_greedy(rows, 30, centers, weights, 0.1)
    assert picks.positions.tolist() == expected
    torch.testing.assert_close(picks.scores, torch.tensor(gains, dtype=torch.float64), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("width", [5, 60])
def test_gains_are_the_variance_that_a_gaussian_process_loses(width: int) -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import DotProduct

    x = torch.nn.functional.normalize(torch.randn(30, width, dtype=torch.float64), dim=1)
    weights = torch.rand(30, dtype=torch.float64)
    picks = ExplainedVariance(noise=0.2).pick(x, 6, weights=weights)

    def variance_left(known: int) -> float:
        if not known:
            return float(weights.sum())  # unit rows
        process = GaussianProcessRegressor(DotProduct(0.0, "fixed"), alpha=0.2, optimizer=None)
        chosen = picks.positions[:known]
        process.fit(x[chosen], torch.zeros(known))
        return float(weights @ torch.from_numpy(process.predict(x, return_std=True)[1]).square())

    lost = [variance_left(k) - variance_left(k + 1) for k in range(6)]
    assert picks.scores.tolist() == pytest.approx(lost, rel=1e-6)


def test_few_wide_rows_need_no_matrix_as_wide_as_they_are() -> None:
    assert explained_variance.room(20, 11_520, 5) < 50e6
    rows = torch.randn(20, 200_000)  # 320 GB, squared
    assert len(set(explained_variance.pick(rows, 5).positions.tolist())) == 5


@pytest.mark.parametrize("width", [3, 40])
def test_many_labeled_rows_make_no_matrix_of_all_pairs(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[int]()
    plain = torch.linalg.solve
    monkeypatch.setattr(torch.linalg, "solve", lambda a, b: made.append(len(a)) or plain(a, b))
    rows, centers = torch.randn(20, width), torch.randn(500, width)
    assert len(explained_variance.pick(rows, 5, centers=centers).positions) == 5
    assert not made
