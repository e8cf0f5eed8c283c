"""The audit's intervals: worked by hand, by Bayes' rule in fractions, and by simulation."""

from fractions import Fraction
from math import comb, pi

import numpy as np
import pytest
from scipy.stats import beta

from jostle.labeling.intervals import ALPHA, error_counts, mean_interval, round_alpha


def test_two_of_four_by_hand() -> None:
    # no error in two of four: B(1, 3) = 1/3 over C(2, M) / C(4, M) is 1/3, 2/3 and 2 for M = 0, 1, 2
    assert error_counts(0, 2, 4, alpha=0.4) == (0, 2)  # all below 2.5
    assert error_counts(0, 2, 4, alpha=0.6) == (0, 1)  # 2 is above 1.67
    assert error_counts(0, 2, 4, alpha=0.99) == (0, 1)


def by_bayes(errors: int, audited: int, population: int, alpha: Fraction) -> list[int]:
    """The counts kept, from a uniform prior and its posterior, in exact arithmetic."""
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
            kept = by_bayes(errors, audited, population, Fraction(97, 1000))  # no ratio is just 1000 / 97
            assert kept == list(range(kept[0], kept[-1] + 1))
            assert error_counts(errors, audited, population, 0.097) == (kept[0], kept[-1])


def test_impossible_audits_are_refused() -> None:
    with pytest.raises(ValueError, match="5 errors in 4 audited of 10 examples cannot be"):
        error_counts(5, 4, 10, 0.05)


def test_the_levels_of_all_rounds_sum_to_alpha() -> None:
    assert round_alpha(1) == pytest.approx(6 * ALPHA / pi**2)
    assert sum(round_alpha(number) for number in range(1, 20_000)) == pytest.approx(ALPHA, rel=1e-4)


def missed_ever(rng: np.random.Generator, alpha: float) -> tuple[bool, bool]:
    """Whether the sequence ever misses the truth as it is looked at after every draw; and the usual interval."""
    population, errors = 300, 90
    drawn = rng.permutation([1] * errors + [0] * (population - errors))
    ours = usual = False
    for audited in range(1, 150, 3):
        seen = int(drawn[:audited].sum())
        low, high = error_counts(seen, audited, population, alpha)
        ours |= not low <= errors <= high
        right = audited - seen
        lowest, highest = beta.ppf(
            [alpha / 2, 1 - alpha / 2], [seen or 1e-9, seen + 1], [right + 1, right or 1e-9]
        )
        usual |= not lowest <= errors / population <= highest
    return ours, usual


def test_it_holds_at_every_look_where_the_usual_interval_does_not() -> None:
    rng = np.random.default_rng(0)
    runs = np.array([missed_ever(rng, 0.1) for _ in range(150)])
    ours, usual = runs.mean(0)
    assert ours <= 0.1
    assert usual > 0.2  # looking fifty times at 90 % intervals


def test_means_of_numbers_are_inside_at_every_look() -> None:
    rng = np.random.default_rng(1)
    values = rng.beta(0.6, 4, 150)
    missed = 0
    for _ in range(200):
        inside = mean_interval(rng.permutation(values)[:90], 150, alpha=0.2)
        missed += not inside.low <= values.mean() <= inside.high
    assert missed / 200 <= 0.2 + 0.06
