"""Exact confidence sequence for the number of errors in a finite population, without predictions.

The interval holds every count whose prior over posterior is below 1 / alpha (Waudby-Smith and Ramdas, Confidence
sequences for sampling without replacement, 2020). `betting_interval` is narrower in most cases; this one depends on
nothing but two counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from jostle.statistics.confidence import ALPHA, Interval


def error_counts(errors: int, audited: int, population: int, alpha: float = ALPHA) -> tuple[int, int]:
    """Return the fewest and the most errors among all examples that the audit leaves possible.

    With a uniform prior on the error rate, prior(M) / posterior(M) is a ratio of two probabilities of the outcomes in
    their order: averaged over rates, B(errors + 1, rights + 1), and given M errors, C(N - t, M - errors) / C(N, M).
    """
    if not 0 <= errors <= audited <= population:
        raise ValueError(f"{errors} errors in {audited} audited of {population} examples are impossible")
    counts = np.arange(errors, population - (audited - errors) + 1)  # (counts,) that are possible at all
    averaged = betaln(errors + 1, audited - errors + 1)
    given = _log_choose(population - audited, counts - errors) - _log_choose(population, counts)
    kept = counts[averaged - given < math.log(1 / alpha)]
    return int(kept[0]), int(kept[-1])


def exact_interval(errors: int, audited: int, population: int, alpha: float = ALPHA) -> Interval:
    """Bound the share of errors among all examples from uniform draws without replacement."""
    if not audited:
        return Interval(0.0, 1.0)
    fewest, most = error_counts(errors, audited, population, alpha)
    return Interval(fewest / population, most / population)


def _log_choose(n: int, k: NDArray[np.int64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return result
