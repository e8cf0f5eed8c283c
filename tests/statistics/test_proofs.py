"""Forecasts of a proof: closed forms, and against proofs that were carried out."""

import math

import numpy as np
import pytest
from scipy.special import expit

from jostle.statistics.confidence import UpperBettor, betting_interval
from jostle.statistics.proofs import (
    answers_to_prove,
    decay,
    fewest_answers_to_prove,
    growth_rate,
    is_candidate,
    shift_chances,
    spend_alpha,
)


def test_growth_without_knowledge_is_the_divergence_of_two_coins() -> None:
    p, q = 0.03, 0.1
    by_hand = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    assert growth_rate(np.full(50, p), q) == pytest.approx(by_hand, rel=1e-6)
    assert fewest_answers_to_prove(np.full(50, p), q, 0.05) == pytest.approx(math.log(20) / by_hand, rel=1e-6)


def test_chances_that_tell_errors_apart_make_growth_faster() -> None:
    apart = np.array([0.5] * 6 + [0.0] * 94)
    assert growth_rate(apart, 0.1) > 1.5 * growth_rate(np.full(100, 0.03), 0.1)
    assert growth_rate(np.full(10, 0.2), 0.1) == 0
    assert fewest_answers_to_prove(np.full(10, 0.2), 0.1) == math.inf
    with pytest.raises(ValueError, match="goal must be between 0 and 1, got 0"):
        growth_rate([0.1], 0)


def test_no_valid_bet_grows_faster() -> None:
    # every valid bet is 1 - c ((z - w) - (goal - mean w)): search stakes and controls at random
    rng = np.random.default_rng(0)
    p, goal = rng.beta(0.4, 4, 30), 0.2
    best = growth_rate(p, goal)
    for _ in range(2000):
        w, c = rng.random(30) * rng.random(), rng.random() * 1.2
        right, wrong = (1 - c * ((z - w) - (goal - w.mean())) for z in (0.0, 1.0))
        if right.min() > 0 and wrong.min() > 0:
            assert (p * np.log(wrong) + (1 - p) * np.log(right)).mean() <= best + 1e-4


def test_the_forecast_is_near_what_proofs_take() -> None:
    rng = np.random.default_rng(1)
    chances = np.where(rng.random(800) < 0.1, 0.25, 0.01)
    forecast = answers_to_prove([], chances, 0.1, alpha=0.025)
    taken = []
    for _ in range(15):
        order = rng.permutation(800)
        z = (rng.random(800) < chances[order]).astype(float)
        looks = (t for t in range(5, 400, 5) if betting_interval(z[:t], chances[order]).high <= 0.1)
        taken.append(next(looks, math.inf))
    assert forecast.chance == 1
    assert 0.6 * np.median(taken) < forecast.median < 1.6 * np.median(taken)
    assert fewest_answers_to_prove(chances, 0.1, 0.025) < forecast.median <= forecast.cautious


def test_answers_so_far_shorten_the_forecast_and_a_proof_needs_no_more() -> None:
    chances = np.full(500, 0.02)
    fresh = answers_to_prove([], chances, 0.1).median
    later = answers_to_prove(np.zeros(30), chances, 0.1).median
    assert later <= fresh - 20
    assert answers_to_prove(np.zeros(200), chances, 0.1).median == 0


def test_a_forecast_of_nothing_more_means_that_the_goal_is_proven() -> None:
    """Chances that are too high are corrected for what is drawn next, and bets go on as the audit makes them."""
    rng = np.random.default_rng(4)
    log_odds = rng.normal(-4.3, 2, 1500)
    values, expected = (rng.random(75) < expit(log_odds[:75])).astype(float), expit(log_odds + 0.7)
    assert UpperBettor(values, expected).bound(0.036) > 0.1
    assert answers_to_prove(values, expected, 0.1, alpha=0.036, limit=600).median not in (0, None)


def test_a_goal_out_of_reach_has_no_forecast() -> None:
    hopeless = answers_to_prove([], np.full(300, 0.3), 0.1, limit=100)
    assert (hopeless.median, hopeless.cautious, hopeless.chance) == (None, None, 0.0)


def test_audited_values_shift_chances_toward_what_was_seen() -> None:
    chances = np.full(200, 0.2)
    lower = shift_chances(chances, np.repeat([1.0, 0.0], [10, 190]), chances)  # 5 % were wrong, not 20 %
    assert lower.mean() == pytest.approx(0.05, abs=0.015)
    np.testing.assert_allclose(shift_chances([], [], [0.2, 0.7]), [0.2, 0.7])
    few = shift_chances([0.2], [0.0], [0.2])
    assert 0.15 < few[0] < 0.2  # one answer says little


def test_a_forecast_allows_for_audited_examples_that_leave_with_picks() -> None:
    # half of 300 are audited and all are alike, so as many audited ones leave as picks
    values = np.random.default_rng(0).permutation(np.repeat([1.0, 0.0], [8, 142]))
    expected = np.full(300, 0.05)
    still, leaving = (
        answers_to_prove(values, expected, 0.1, alpha=0.01, picks_per_answer=n) for n in (0.0, 0.25)
    )
    assert leaving.median >= 1.2 * still.median


def test_shares_sum_to_at_most_alpha_whatever_the_candidates() -> None:
    rng = np.random.default_rng(0)
    for share in (0.0, 0.1, 0.5, 1.0):
        candidates = (rng.random(3000) < share).tolist()
        assert sum(spend_alpha(candidates, 0.05)) <= 0.05
    both = [*[True] * 3000, *[False] * 3000]
    assert sum(spend_alpha(both, 0.05)) == pytest.approx(0.05, rel=1e-3)


def test_a_candidate_gets_most_of_alpha_and_later_models_change_nothing() -> None:
    shares = spend_alpha([False] * 9 + [True], 0.05)
    assert shares[-1] == pytest.approx(0.95 * 0.8 * 0.05)
    more = spend_alpha([False] * 9 + [True, False, True], 0.05)
    assert more[:10] == shares
    assert more[-1] == pytest.approx(0.95 * 0.2 * 0.05 * 6 / np.pi**2)


def test_decay_sums_to_alpha() -> None:
    assert sum(decay(rank, 0.05) for rank in range(1, 5000)) == pytest.approx(0.05, rel=1e-3)


def test_a_candidate_expects_to_meet_the_goal_with_a_margin_and_a_settled_one_with_less() -> None:
    assert is_candidate([0.0, 0.16], 0.1)
    assert not is_candidate([0.0, 0.18], 0.1)
    assert is_candidate([0.0, 0.21], 0.1, kappa=0.998)
    assert not is_candidate([0.0, 0.21], 0.1, kappa=0.99)
    assert not is_candidate([0.0, 0.23], 0.1, kappa=1.0)
