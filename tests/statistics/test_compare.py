"""The difference of two models."""

import numpy as np
import pytest

from jostle.statistics.compare import difference_interval
from jostle.statistics.confidence import AuditSample


def two_models(seed: int, n: int = 600) -> tuple[np.ndarray, ...]:
    """Errors (n,) of two models, their chances, and where the predictions differ."""
    rng = np.random.default_rng(seed)
    first_chances, second_chances = rng.beta(0.4, 2, n), rng.beta(0.2, 2, n)
    differs = rng.random(n) < 0.25
    first = (rng.random(n) < first_chances).astype(float)
    second = np.where(differs, (rng.random(n) < second_chances) & (first == 0) | (rng.random(n) < 0.1), first)
    return first, second.astype(float), first_chances, second_chances, differs


def test_all_looks_cover_the_difference() -> None:
    missed = 0
    for seed in range(60):
        first, second, e1, e2, differs = two_models(seed)
        draws = np.random.default_rng(1000 + seed).permutation(600)[:120]
        last = difference_interval(
            AuditSample(draws, 600), first[draws], second[draws], e1, e2, differs, alpha=0.2
        )
        missed += not last.low <= (first - second).mean() <= last.high
    assert missed / 60 <= 0.2


def test_far_narrower_than_two_intervals_where_the_models_mostly_agree() -> None:
    first, second, e1, e2, differs = two_models(3)
    draws = np.random.default_rng(0).permutation(600)[:200]
    sample = AuditSample(draws, 600)
    together = difference_interval(sample, first[draws], second[draws], e1, e2, differs)
    everywhere = difference_interval(sample, first[draws], second[draws], e1, e2)
    apart = (
        sample.interval(first[draws], e1, alpha=0.025).width
        + sample.interval(second[draws], e2, alpha=0.025).width
    )
    assert together.width < 0.6 * apart
    assert together.width < everywhere.width


def test_everything_drawn_gives_the_difference_itself() -> None:
    first, second = np.array([1.0, 0, 1, 0]), np.array([0.0, 0, 1, 1])
    sample = AuditSample(np.arange(4), 4)
    found = difference_interval(sample, first, second, np.zeros(4), np.zeros(4), first != second)
    assert (found.low, found.high) == pytest.approx((0.0, 0.0))
