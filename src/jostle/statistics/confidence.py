"""Confidence sequences by betting for the mean of a finite population, with predictions as control variates.

A population of N values between 0 and 1 has the unknown mean m. Values are drawn one by one without replacement.
Before draw t, let R be the n examples not drawn yet, S the sum of the values drawn so far, and q a prediction of each
value. If draws are uniform,

    g_t = (z_I - q_I) - ((N m - S) / n - mean of q over R)

has mean 0 given the past, for any q that uses the past alone. A bettor who claims that the mean is below m multiplies
the capital by 1 - c g_t. The capital rarely grows by 1 / alpha if m is the mean (Ville's inequality), so m is left out
of the interval from then on (Waudby-Smith and Ramdas 2024). The capital is split over stakes c, and over two controls:

* none (q is constant), which protects against useless predictions;
* the expected value e, tilted so that it agrees with the claim under test: e = q - c q (1 - q). If e holds, no other
  bet with stake c grows faster, because 1 - c g_t is then the likelihood ratio of e to q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln, logsumexp

Array = NDArray[np.float64]

ALPHA = 0.05
STAKES = np.array([0.03, 0.06, 0.12, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 16.0])
RARE_WEIGHTS = (0.5, 0.5, 1, 2, 3, 5, 8, 10, 8, 3, *[0.3] * 6)  # for means that are expected below 1 / 2
COMMON_WEIGHTS = (1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 1, 1)  # and for those above
CONTROL_SHARE = 0.7  # of the capital: bets that use the expected values
MAX_LOSS = 0.999  # of a bettor's capital in one draw
LEVELS = 1000  # expected values are rounded to 1 / LEVELS, which keeps an update fast
BISECTIONS = 22


@dataclass(frozen=True)
class Interval:
    """Bounds that hold with the confidence asked for."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Distance of the bounds."""
        return self.high - self.low

    def complement(self) -> Interval:
        """Bounds on one minus the quantity: of the accuracy, given those of the error."""
        return Interval(1 - self.high, 1 - self.low)


def betting_interval(
    values: ArrayLike,
    expected: ArrayLike,
    *,
    alpha: float = ALPHA,
    upper_share: float = 0.5,
) -> Interval:
    """Bound the mean of a finite population from draws without replacement; valid after every draw.

    The interval may be computed after each draw, and drawing may stop for any reason: all intervals of one population
    hold together with probability 1 - alpha.

    Args:
        values: (t,) values between 0 and 1 in draw order, such as 1 where a model errs.
        expected: (N,) what is expected of every value, between 0 and 1: first those of the draws, in draw order, then
            those of the rest in any order. Any numbers keep the interval valid; good ones make it narrow.
        alpha: Probability that some interval of the sequence misses the mean.
        upper_share: Share of alpha that is spent on the upper bound.

    Returns:
        The running intersection of the intervals after 1, ..., t draws.
    """
    drawn, controls = check_sample(values, expected)
    if not 0 < upper_share < 1:
        raise ValueError(f"upper_share must be between 0 and 1, got {upper_share}")
    high = UpperBettor(drawn, controls).bound(alpha * upper_share)
    low = 1 - UpperBettor(1 - drawn, 1 - controls).bound(alpha * (1 - upper_share))
    return Interval(min(low, high), max(low, high))


def iid_interval(values: ArrayLike, *, alpha: float = ALPHA) -> Interval:
    """Bound the mean of independent values between 0 and 1, such as errors on a hold-out; valid after every value.

    Args:
        values: (t,) in the order in which they were drawn.
        alpha: Probability that some interval of the sequence misses the mean.
    """
    drawn, _ = check_sample(values, values)
    high = invert(lambda m: _iid_capital(drawn, m), 0.0, 1.0, alpha / 2)
    low = 1 - invert(lambda m: _iid_capital(1 - drawn, m), 0.0, 1.0, alpha / 2)
    return Interval(min(low, high), max(low, high))


@dataclass(frozen=True, eq=False)
class AuditSample:
    """Random draws without replacement from a population, in draw order.

    Args:
        draws: (t,) positions in the population.
        population: Number of examples.
    """

    draws: NDArray[np.int64]
    population: int

    def __post_init__(self) -> None:
        inside = (self.draws >= 0) & (self.draws < self.population)
        if len(np.unique(self.draws)) < len(self.draws) or not inside.all():
            raise ValueError(
                f"draws must be different positions below {self.population}, got {self.draws.tolist()[:10]}"
            )

    def restrict(self, left: NDArray[np.bool_]) -> AuditSample:
        """Return the draws among the examples that are left, renumbered by their place among them.

        The order of the remaining draws is still random if what left the population does not depend on it.
        """
        places = np.cumsum(left) - 1
        kept = self.draws[left[self.draws]]
        return AuditSample(places[kept], int(left.sum()))

    def arrange(self, by_position: ArrayLike) -> Array:
        """Put values of the whole population, (N,), into the order of `betting_interval`: draws first."""
        given = np.asarray(by_position, dtype=np.float64)
        if given.shape != (self.population,):
            raise ValueError(
                f"pass one value for each of {self.population} examples, got shape {given.shape}"
            )
        return np.concatenate([given[self.draws], np.delete(given, self.draws)])

    def interval(
        self, values: ArrayLike, expected: ArrayLike, *, alpha: float = ALPHA, upper_share: float = 0.5
    ) -> Interval:
        """Bound the population mean from `values` (t,) of the draws and `expected` (N,) by position."""
        return betting_interval(values, self.arrange(expected), alpha=alpha, upper_share=upper_share)


def check_sample(values: ArrayLike, expected: ArrayLike) -> tuple[Array, Array]:
    """Return values (t,) and expected values (N,) as arrays; ValueError where they are impossible."""
    drawn, controls = np.asarray(values, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if drawn.ndim != 1 or controls.ndim != 1 or len(drawn) > len(controls):
        raise ValueError(
            f"values (t,) and expected (N,) must be flat with t <= N, got {drawn.shape} and {controls.shape}"
        )
    for name, array in (("values", drawn), ("expected", controls)):
        if len(array) and not (array.min() >= 0 and array.max() <= 1):
            raise ValueError(f"{name} must be between 0 and 1, got {array.min()} to {array.max()}")
    return drawn, controls


@cache
def bets(weights: tuple[float, ...]) -> tuple[Array, Array, Array]:
    """Return stakes (K,), log weights (K,) and controls (LEVELS + 1, K) by expected value; 0 is no control.

    Args:
        weights: How the capital is split over STAKES.
    """
    chances = np.linspace(0, 1, LEVELS + 1).clip(1 / LEVELS, 1 - 1 / LEVELS)[:, None]
    shift = 1 - STAKES
    tilted = (np.sqrt(shift**2 + 4 * STAKES * chances) - shift) / (2 * STAKES)  # e = q - c q (1 - q)
    share = np.array(weights) / sum(weights)
    log_weights = np.log(np.concatenate([CONTROL_SHARE * share, (1 - CONTROL_SHARE) * share]))
    return np.tile(STAKES, 2), log_weights, np.hstack([tilted, np.zeros_like(tilted)])


class UpperBettor:
    """Bets that the mean of a population is below a claimed mean, on draws in their order.

    Args:
        values: (t,) values between 0 and 1 in draw order.
        expected: (N,) expected values: those of the draws in draw order, then those of the rest.
        weights: (N,) positive weights in the same order, if each draw took an example of the rest with probability
            proportional to its weight. Default: uniform draws.
        bet_weights: How the capital is split over STAKES. Default: by the expected mean.
    """

    def __init__(
        self,
        values: Array,
        expected: Array,
        weights: Array | None = None,
        *,
        bet_weights: tuple[float, ...] | None = None,
    ) -> None:
        self.values, self.population = values, len(expected)
        self.count = count = len(values)
        usual = RARE_WEIGHTS if not len(expected) or expected.mean() < 0.5 else COMMON_WEIGHTS
        self.stakes, self.log_weights, table = bets(bet_weights or usual)
        levels = np.rint(expected * LEVELS).astype(np.int64)
        self.left = self.population - np.arange(count)  # (t,) not drawn yet
        self.before = np.cumsum(values) - values  # (t,) sum of earlier values
        control = table[levels[:count]]  # (t, K)
        sums = np.bincount(levels, minlength=LEVELS + 1) @ table  # (K,)
        self.mean_control = (sums - np.cumsum(control, axis=0) + control) / self.left[:, None]  # (t, K)
        self.surprise = values[:, None] - control  # (t, K)
        if weights is None:
            self.worst = 1 - table[_running_extreme(levels, count, np.minimum)]  # largest possible surprise
        else:
            earlier = np.cumsum(weights[:count]) - weights[:count]
            mean_weight = ((weights.sum() - earlier) / self.left)[:, None]  # (t, 1)
            self.surprise *= mean_weight / weights[:count, None]
            self.worst = mean_weight * _running_extreme(
                (1 - table[levels]) / weights[:, None], count, np.maximum
            )

    def log_capital(self, mean: float) -> Array:
        """Logarithm of the capital after each draw, (t,), against the claim that the population has this mean."""
        claimed = (self.population * mean - self.before) / self.left  # (t,) mean of what is left
        gap = claimed[:, None] - self.mean_control
        return log_capital(self.surprise - gap, self.worst - gap, self.stakes, self.log_weights)

    def bound(self, alpha: float) -> float:
        """Smallest mean that a running capital of 1 / alpha has ruled out."""
        total = float(self.values.sum())
        if self.count in (0, self.population):
            return total / self.population if self.count else 1.0
        most = (total + self.population - self.count) / self.population
        return invert(lambda mean: float(self.log_capital(mean).max()), total / self.population, most, alpha)


def log_capital(gains: Array, worst: Array, stakes: Array, log_weights: Array) -> Array:
    """Logarithm of the capital, (t,), of bets 1 - c g with stakes c that no draw can ruin.

    Args:
        gains: (t, K) the outcome g of each draw for each bet, which has mean 0 if the claim is true.
        worst: (t, K) the largest outcome that the draw could have had.
        stakes: (K,) or (t, K) shares c of the capital.
        log_weights: (K,) logarithms of the parts of the capital that the bets begin with.
    """
    allowed = np.minimum(stakes, MAX_LOSS / np.maximum(worst, 1e-12))
    return np.asarray(logsumexp(np.cumsum(np.log1p(-allowed * gains), axis=0) + log_weights, axis=1))


def _running_extreme(array: NDArray[np.generic], count: int, extreme: np.ufunc) -> Any:
    """Extreme over each draw and everything after it: (t,) or (t, K)."""
    tail = [extreme.reduce(array[count:], axis=0, keepdims=True)] if count < len(array) else []
    both = np.concatenate([array[:count], *tail])
    return extreme.accumulate(both[::-1], axis=0)[::-1][:count]


def _iid_capital(values: Array, mean: float) -> float:
    if not len(values):
        return 0.0
    log_weights = np.log(np.array(COMMON_WEIGHTS) / sum(COMMON_WEIGHTS))
    return float(log_capital(values[:, None] - mean, np.array(1 - mean), STAKES, log_weights).max())


def invert(capital: Callable[[float], float], low: float, high: float, alpha: float) -> float:
    """Smallest mean between two that is rejected; log capital grows with the mean that is bet against."""
    limit = math.log(1 / alpha)
    if capital(high) < limit:
        return high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if capital(middle) >= limit else (middle, high)
    return high


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


def _log_choose(n: int, k: NDArray[np.int64]) -> Array:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
