import math

import pytest
import torch
from selector_oracles import assert_frequencies, determinants, tiny_blocks
from selector_rows import normal
from torch import Tensor

from jostle.selectors import k_dpp
from jostle.selectors.gram import _eigenvectors


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
