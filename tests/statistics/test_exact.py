"""The exact interval: by hand and by Bayes' rule in fractions."""

from fractions import Fraction
from math import comb

import pytest

from jostle.statistics.confidence import Interval
from jostle.statistics.exact import error_counts, exact_interval


def test_two_of_four_by_hand() -> None:
    # no error in two of four: B(1, 3) = 1/3 over C(2, M) / C(4, M) is 1/3, 2/3 and 2 for M = 0, 1, 2
    assert error_counts(0, 2, 4, alpha=0.4) == (0, 2)  # all below 2.5
    assert error_counts(0, 2, 4, alpha=0.6) == (0, 1)  # 2 is above 1.67


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
