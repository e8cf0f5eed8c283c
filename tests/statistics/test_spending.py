"""Shares of alpha: their sum, and their independence of later models."""

import numpy as np
import pytest

from jostle.statistics.spending import decay, is_candidate, spend_alpha


def test_shares_sum_to_at_most_alpha_whatever_the_candidates() -> None:
    rng = np.random.default_rng(0)
    for share in (0.0, 0.1, 0.5, 1.0):
        candidates = (rng.random(3000) < share).tolist()
        assert sum(spend_alpha(candidates, 0.05)) <= 0.05
    both = [*[True] * 3000, *[False] * 3000]
    assert sum(spend_alpha(both, 0.05)) == pytest.approx(0.05, rel=1e-3)


def test_a_candidate_gets_most_of_alpha_and_later_models_change_nothing() -> None:
    shares = spend_alpha([False] * 9 + [True], 0.05)
    assert shares[-1] == pytest.approx(0.9 * 0.05 * 6 / np.pi**2)
    assert spend_alpha([False] * 9 + [True, False, True], 0.05)[:10] == shares


def test_decay_sums_to_alpha() -> None:
    assert sum(decay(rank, 0.05) for rank in range(1, 5000)) == pytest.approx(0.05, rel=1e-3)
    with pytest.raises(ValueError, match="rank must be 1 or more, got 0"):
        decay(0)
    with pytest.raises(ValueError, match="reserve must be between 0 and 1, got 2"):
        spend_alpha([True], reserve=2)


def test_a_candidate_expects_to_meet_the_goal_with_a_margin() -> None:
    assert is_candidate([0.0, 0.17], 0.1)
    assert not is_candidate([0.0, 0.19], 0.1)
