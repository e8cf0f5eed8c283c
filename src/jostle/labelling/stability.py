"""Whether the model still changes its mind: kappa between the predictions of successive models on a fixed stop set.

Kappa above T bounds how much the F-measure can still differ between the two models, by 4 (1 - T) / T; it says nothing
of how good they are (Bloodgood and Vijay-Shanker 2009; Bloodgood and Grothendieck 2013).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

STABLE = 0.99  # the mean of the last kappas at which predictions count as stable
WINDOW = 3  # how many of them
STOP_SET = 2000  # examples that successive models are compared on


def kappa(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Cohen's kappa of two lists of classes; 1 where both name the same single class throughout."""
    if len(first) != len(second) or not len(first):
        raise ValueError(f"kappa compares two lists of one length; got {len(first)} and {len(second)}")
    observed = float((first == second).mean())
    shares = [{c: float((labels == c).mean()) for c in np.unique(labels)} for labels in (first, second)]
    expected = sum(share * shares[1].get(c, 0.0) for c, share in shares[0].items())
    return 1.0 if expected >= 1 - 1e-12 else (observed - expected) / (1 - expected)


def kappa_of_sets(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """The mean over the classes (n, c) of kappa between having the class and not."""
    each = [kappa(a.astype(np.int64), b.astype(np.int64)) for a, b in zip(first.T, second.T, strict=True)]
    return float(np.mean(each))


def concordance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Lin's concordance of two lists of numbers, which is kappa weighted by squares; 1 where they are the same."""
    apart = float(((first - second) ** 2).mean())
    spread = float(first.var() + second.var() + (first.mean() - second.mean()) ** 2)
    return 1.0 if apart == 0 else 1 - apart / spread


def is_stable(kappas: Sequence[float]) -> bool:
    """Whether the mean of the last three is at least 0.99; fewer than three say nothing."""
    return len(kappas) >= WINDOW and float(np.mean(kappas[-WINDOW:])) >= STABLE - 1e-9


def change_bound(kappas: Sequence[float]) -> float | None:
    """The most by which the F-measure can differ between the last two models; None where kappa bounds nothing."""
    if not kappas or kappas[-1] <= 0:
        return None
    return min(1.0, 4 * (1 - kappas[-1]) / kappas[-1])
