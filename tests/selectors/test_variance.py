"""Explained variance against the covariance matrix itself, and against a Gaussian process."""

import pytest
import torch
from torch import Tensor

from jostle.selectors.gram import ExplainedVariance, explained_variance


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
