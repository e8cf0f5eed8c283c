"""The difference of two models on one audit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jostle.statistics.confidence import ALPHA, AuditSample, Interval


def difference_interval(
    sample: AuditSample,
    first_errors: ArrayLike,
    second_errors: ArrayLike,
    first_expected: ArrayLike,
    second_expected: ArrayLike,
    differs: NDArray[np.bool_] | None = None,
    *,
    alpha: float = ALPHA,
) -> Interval:
    """Bound the mean error of the first model minus that of the second, over the population of an audit.

    Where two classifiers predict the same they err alike, so only the examples on which they differ are uncertain. The
    draws among those are a uniform sample of them. The interval is far narrower than the difference of two intervals.

    Args:
        sample: The draws of the audit.
        first_errors: (t,) errors of the first model, between 0 and 1, in draw order.
        second_errors: (t,) errors of the second model.
        first_expected: (N,) expected errors of the first model by position.
        second_expected: (N,) expected errors of the second model.
        differs: (N,) whether the predictions differ, by position. Default: everywhere, as for losses of numbers.
        alpha: Probability that some interval of the sequence misses the difference.
    """
    gaps = np.asarray(first_errors, dtype=np.float64) - np.asarray(second_errors, dtype=np.float64)  # (t,)
    control = np.asarray(first_expected, dtype=np.float64) - np.asarray(second_expected, dtype=np.float64)
    if gaps.shape != sample.draws.shape or control.shape != (sample.population,):
        raise ValueError(
            f"pass errors for {len(sample.draws)} draws and expected errors for {sample.population} examples, got "
            f"shapes {gaps.shape} and {control.shape}"
        )
    apart = np.ones(sample.population, dtype=bool) if differs is None else np.asarray(differs, dtype=bool)
    inside = apart[sample.draws]  # (t,)
    if np.any(gaps[~inside] != 0):
        raise ValueError("errors must be equal where the predictions do not differ: check `differs`")
    if not apart.any():
        return Interval(0.0, 0.0)
    part = sample.restrict(apart)
    halves = part.interval((1 + gaps[inside]) / 2, (1 + control[apart].clip(-1, 1)) / 2, alpha=alpha)
    share = float(apart.mean())
    return Interval(share * (2 * halves.low - 1), share * (2 * halves.high - 1))
