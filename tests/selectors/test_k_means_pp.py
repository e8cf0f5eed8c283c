import pytest
import torch
from selector_oracles import assert_frequencies, distances, sequence_probabilities, tiny_blocks
from selector_rows import normal
from torch import Tensor

from jostle.rows.geometry import Outer
from jostle.selectors import k_means_pp


def plain_weights(rows: Tensor, centers: Tensor | None = None):
    """BADGE's rule: the longest row, then squared distances to what was chosen."""

    def weights(drawn: tuple[int, ...]) -> Tensor:
        chosen = rows[list(drawn)] if centers is None else torch.cat([centers, rows[list(drawn)]])
        if len(chosen):
            return distances(rows, chosen).square().amin(1)
        lengths = rows.norm(dim=1)
        return (lengths == lengths.max()).double()

    return weights


@pytest.mark.parametrize("labeled", [False, True])
def test_sequences_come_with_their_exact_probabilities(labeled: bool) -> None:
    rows = normal(5, 2).double()
    centers = normal(2, 2, seed=1).double() if labeled else None
    expected = sequence_probabilities(3, 5, plain_weights(rows, centers))
    counts, draws = dict.fromkeys(expected, 0), 200
    for seed in range(draws):
        counts[tuple(k_means_pp(rows, 3, centers, seed).tolist())] += 1
    assert_frequencies(torch.tensor(list(counts.values())), torch.tensor(list(expected.values())), draws)


def test_stale_bounds_do_not_bias_the_draws() -> None:
    rows = normal(8, 2) * torch.tensor([[8.0], *[[1.0]] * 4, *[[0.1]] * 3])
    share = torch.zeros(4, 8)
    for drawn, probability in sequence_probabilities(4, 8, plain_weights(rows)).items():
        share[range(4), list(drawn)] += probability
    counts, draws = torch.zeros(4, 8), 80
    with tiny_blocks():
        for seed in range(draws):
            counts[range(4), k_means_pp(rows, 4, seed=seed)] += 1
    assert_frequencies(counts, share, draws)


def test_scores_are_squared_distances_when_picked() -> None:
    rows = normal(300, 6)
    with tiny_blocks():
        picks = k_means_pp.pick(rows, 60, seed=1)
    assert picks.positions[0] == rows.norm(dim=1).argmax()
    for step in range(1, 60):
        chosen = rows[picks.positions[:step]]
        gap = distances(rows[picks.positions[[step]]], chosen).amin() ** 2
        torch.testing.assert_close(picks.scores[step], gap, rtol=1e-5, atol=0)
    torch.testing.assert_close(picks.scores[0], rows[picks.positions[0]].double().square().sum())


def test_equal_rows_are_never_both_chosen_while_others_are_left() -> None:
    rows = normal(40, 3).repeat(4, 1)
    for offset in (0, 1e3):
        picks = k_means_pp.pick(rows + offset, 160, seed=0)
        assert sorted((picks.positions[:40] % 40).tolist()) == list(range(40))
        assert sorted(picks.positions.tolist()) == list(range(160))
        assert (picks.scores[40:] == 0).all()
    assert len(k_means_pp(torch.zeros(10, 2), 10, seed=0).unique()) == 10


def test_factors_give_the_picks_of_the_rows_they_stand_for() -> None:
    rows = Outer(normal(200, 4).double(), normal(200, 6, seed=1).double())
    picks, expected = k_means_pp.pick(rows, 90, seed=5), k_means_pp.pick(rows.dense(), 90, seed=5)
    assert picks.positions.tolist() == expected.positions.tolist()
    torch.testing.assert_close(picks.scores, expected.scores)
