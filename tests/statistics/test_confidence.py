"""Confidence sequences: exact martingales over all orders of tiny populations, closed forms, coverage."""

from fractions import Fraction
from itertools import permutations
from math import comb

import numpy as np
import pytest

from jostle.statistics.confidence import (
    COMMON_WEIGHTS,
    STAKES,
    AuditSample,
    Interval,
    UpperBettor,
    betting_interval,
    error_counts,
    exact_interval,
    iid_interval,
)

TINY = [
    ([1, 0, 0, 1, 0, 0], [0.9, 0.1, 0.2, 0.3, 0.0, 0.1]),  # good predictions
    ([1, 0, 0, 0, 0, 0], [0.0, 1.0, 0.6, 0.9, 0.4, 1.0]),  # adversarial ones
    ([0.3, 0.8, 0.0, 1.0, 0.2, 0.5], [0.5, 0.2, 0.9, 0.1, 0.7, 0.3]),  # losses, not only 0 and 1
]


@pytest.mark.parametrize(("values", "expected"), TINY)
def test_capital_against_the_true_mean_is_a_martingale_over_all_orders(
    values: list[float], expected: list[float]
) -> None:
    orders = list(map(list, permutations(range(len(values)))))
    for z, e in ((np.array(values), np.array(expected)), (1 - np.array(values), 1 - np.array(expected))):
        capital = [np.exp(UpperBettor(z[order], e[order]).log_capital(z.mean())) for order in orders]
        np.testing.assert_allclose(np.mean(capital, axis=0), np.ones(len(z)), rtol=1e-9)


@pytest.mark.parametrize(("values", "expected"), TINY)
def test_weighted_draws_are_a_martingale_over_all_orders(values: list[float], expected: list[float]) -> None:
    z, e, weights = np.array(values), np.array(expected), np.array([1.0, 3.0, 0.5, 2.0, 1.0, 0.7])
    average = np.zeros(len(z))
    for order in map(list, permutations(range(len(z)))):
        left = weights[order][::-1].cumsum()[::-1]
        chance = np.prod(weights[order] / left)
        capital = np.exp(UpperBettor(z[order], e[order], weights[order]).log_capital(z.mean()))
        average += chance * capital
    np.testing.assert_allclose(average, np.ones(len(z)), rtol=1e-9)


@pytest.mark.parametrize(("values", "expected"), TINY)
def test_all_looks_of_all_orders_miss_with_at_most_alpha(values: list[float], expected: list[float]) -> None:
    z, e = np.array(values), np.array(expected)
    missed = 0
    orders = [list(order) for order in permutations(range(len(z)))][::7]
    for order in orders:
        looks = [betting_interval(z[order][:t], e[order], alpha=0.3) for t in range(len(z) + 1)]
        missed += any(not look.low - 1e-9 <= z.mean() <= look.high + 1e-9 for look in looks)
    assert missed / len(orders) <= 0.3


def test_capital_of_one_draw_by_hand() -> None:
    # without a control and a stake c, a draw of 0 multiplies the capital by 1 + c m
    claim = 0.4
    with_constant_chances = UpperBettor(np.array([0.0]), np.full(10, 0.5)).log_capital(claim)
    stakes = np.minimum(STAKES, 0.999 / (1 - claim))
    by_hand = (np.array(COMMON_WEIGHTS) / sum(COMMON_WEIGHTS)) @ (1 + stakes * claim)
    assert np.exp(with_constant_chances[0]) == pytest.approx(by_hand, rel=1e-9)


def test_nothing_drawn_says_nothing_and_everything_drawn_says_everything() -> None:
    for nothing in (np.zeros(0), np.full(9, 0.1)):
        assert betting_interval([], nothing) == Interval(0.0, 1.0)
    z = np.array([1.0, 0, 0, 1])
    assert betting_interval(z, np.full(4, 0.9)) == Interval(0.5, 0.5)
    assert iid_interval([]) == Interval(0.0, 1.0)


def test_good_predictions_narrow_the_interval_and_useless_ones_do_not_widen_it() -> None:
    rng = np.random.default_rng(1)
    widths: dict[str, list[float]] = {"exact": [], "good": [], "shuffled": [], "reversed": []}
    for _ in range(6):
        chances = rng.beta(0.1, 0.9, 1500)
        z = (rng.random(1500) < chances).astype(float)
        for name, e in {
            "good": chances,
            "shuffled": rng.permutation(chances),
            "reversed": 1 - chances,
        }.items():
            widths[name].append(betting_interval(z[:150], e).width)
        widths["exact"].append(exact_interval(int(z[:150].sum()), 150, 1500).width)
    means = {name: np.mean(each) for name, each in widths.items()}
    assert means["good"] < 0.75 * means["exact"]
    assert max(means["shuffled"], means["reversed"]) < 1.03 * means["exact"]


@pytest.mark.parametrize("kind", ["good", "shuffled", "reversed"])
def test_coverage_at_all_looks(kind: str) -> None:
    rng = np.random.default_rng(2)
    chances = rng.beta(0.2, 1.0, 150)
    z = (rng.random(150) < chances).astype(float)
    expected = {"good": chances, "shuffled": rng.permutation(chances), "reversed": 1 - z}[kind]
    missed = 0
    for _ in range(150):
        order = rng.permutation(150)
        last = betting_interval(z[order][:100], expected[order], alpha=0.2)  # holds all earlier looks
        missed += not last.low <= z.mean() <= last.high
    assert missed / 150 <= 0.2


def test_independent_values_are_covered_at_all_looks() -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(200):
        last = iid_interval((rng.random(80) < 0.2).astype(float), alpha=0.2)
        missed += not last.low <= 0.2 <= last.high
    assert missed / 200 <= 0.2
    assert iid_interval(np.zeros(100)).high < 0.06


def test_restriction_keeps_the_order_of_what_is_left() -> None:
    sample = AuditSample(np.array([4, 0, 3]), 6)
    left = np.array([True, True, True, True, False, True])
    part = sample.restrict(left)
    assert part.draws.tolist() == [0, 3]
    assert part.population == 5
    assert sample.arrange(np.arange(6)).tolist() == [4, 0, 3, 1, 2, 5]


@pytest.mark.parametrize(
    ("values", "expected", "message"),
    [
        ([2.0], [0.5, 0.5], "values must be between 0 and 1, got 2.0 to 2.0"),
        ([1.0], [0.5, -0.5], "expected must be between 0 and 1"),
        ([1.0, 0.0], [0.5], r"flat with t <= N, got \(2,\) and \(1,\)"),
    ],
)
def test_impossible_samples_are_errors(values: list[float], expected: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        betting_interval(values, expected)


def test_wrong_draws_and_shares_are_errors() -> None:
    with pytest.raises(ValueError, match="upper_share must be between 0 and 1, got 1"):
        betting_interval([1.0], [0.5, 0.5], upper_share=1)
    with pytest.raises(ValueError, match="different positions below 3"):
        AuditSample(np.array([0, 0]), 3)
    with pytest.raises(ValueError, match="one value for each of 3 examples"):
        AuditSample(np.array([0]), 3).arrange([1.0])


def counts_by_bayes(errors: int, audited: int, population: int, alpha: Fraction) -> list[int]:
    prior = Fraction(1, population + 1)
    seen = [
        Fraction(comb(count, errors) * comb(population - count, audited - errors), comb(population, audited))
        for count in range(population + 1)
    ]
    total = sum(prior * chance for chance in seen)
    posteriors = [prior * chance / total for chance in seen]
    return [
        count for count, posterior in enumerate(posteriors) if posterior and prior / posterior < 1 / alpha
    ]


@pytest.mark.parametrize("population", [1, 7, 20])
def test_prior_over_posterior_in_fractions(population: int) -> None:
    for audited in range(1, population + 1):
        for errors in range(audited + 1):
            kept = counts_by_bayes(errors, audited, population, Fraction(97, 1000))  # no ratio is 1000 / 97
            assert error_counts(errors, audited, population, 0.097) == (kept[0], kept[-1])


def test_ends_of_an_audit() -> None:
    assert exact_interval(0, 0, 40) == Interval(0.0, 1.0)
    assert exact_interval(3, 40, 40) == Interval(3 / 40, 3 / 40)
    with pytest.raises(ValueError, match="5 errors in 4 audited of 10 examples are impossible"):
        error_counts(5, 4, 10, 0.05)
