"""Proofs of a goal: shares of alpha for the models that one audit measures, and forecasts of the answers.

Each model is one more claim about the same audited answers. If the r-th model gets the share alpha_r and the shares
sum to alpha, all intervals of all models hold together with probability 1 - alpha. A share must be chosen without any
audit answer: from predictions, training answers and the goal. Then most of alpha can go to the few models that are
likely to prove the goal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit

from jostle.statistics.confidence import ALPHA, Array, UpperBettor

RESERVE = 0.05  # share of alpha for models that are not candidates
CANDIDATE_MARGIN = 0.85  # of the error that the goal allows
SETTLED_MARGIN = 1.1  # the same once predictions have settled
SETTLED_KAPPA = 0.997  # with the model before, on what is left
FIRST_CANDIDATE = 0.8  # share of the candidates' alpha for the first of them
SIMULATIONS = 40
MIN_CHANCE = 1e-3  # chances are kept this far from 0 and 1


def is_candidate(expected: ArrayLike, goal: float, kappa: float | None = None) -> bool:
    """Return whether a model is worth a proof: it expects to meet the goal with a margin, or nearly so and has settled.

    Picks are harder than the rest, so chances from training answers are often too high. Once predictions for the rest
    have settled, more picks hardly change the model, and a proof need not wait for the chances.

    Args:
        expected: (N,) the model's chances of being wrong on the examples that are left, from training answers alone.
        goal: Largest mean error that counts as proven.
        kappa: Agreement with the model before on these examples, if that was trained on fewer answers.
    """
    settled = kappa is not None and kappa >= SETTLED_KAPPA
    margin = SETTLED_MARGIN if settled else CANDIDATE_MARGIN
    return bool(np.mean(np.asarray(expected, dtype=np.float64)) <= margin * goal)


def spend_alpha(candidates: Sequence[bool], alpha: float = ALPHA) -> list[float]:
    """Return the share of alpha of each model, in the order of training.

    Candidates share 95 % of alpha. The first gets 80 % of that, and the k-th after it 20 % times 6 / (pi k)^2.
    The k-th of the other models gets 5 % of alpha times 6 / (pi k)^2. The shares of any number of models sum to less
    than alpha, and later models never change earlier shares.

    Args:
        candidates: Whether each model is a candidate for a proof. Audit answers must not decide this.
        alpha: Probability that any interval of any model misses.
    """
    counts = {True: 0, False: 0}
    shares = []
    for candidate in map(bool, candidates):
        counts[candidate] += 1
        rank = counts[candidate]
        if not candidate:
            shares.append(RESERVE * decay(rank, alpha))
        elif rank == 1:
            shares.append((1 - RESERVE) * FIRST_CANDIDATE * alpha)
        else:
            shares.append((1 - RESERVE) * (1 - FIRST_CANDIDATE) * decay(rank - 1, alpha))
    return shares


def decay(rank: int, alpha: float = ALPHA) -> float:
    """Return the share of alpha for the rank-th model if all models count alike: alpha 6 / (pi rank)^2."""
    return 6 * alpha / (math.pi * rank) ** 2


@dataclass(frozen=True)
class ProofForecast:
    """Further random answers until the error is proven to be at most the goal.

    Attributes:
        median: In half of the simulations so many were enough; None where half of them end without a proof.
        cautious: In four of five simulations so many were enough; None likewise.
        chance: Share of the simulations with a proof within the limit.
    """

    median: int | None
    cautious: int | None
    chance: float


def answers_to_prove(
    values: ArrayLike,
    expected: ArrayLike,
    goal: float,
    *,
    alpha: float = ALPHA / 2,
    limit: int | None = None,
    picks_per_answer: float = 0.0,
    seed: int = 0,
) -> ProofForecast:
    """Forecast how many more random answers prove that the mean of a population is at most the goal.

    Each simulation draws the values of the unseen rest from the expected ones and continues the audit. Audited values
    correct the expected ones first: picks are harder than the rest, so chances from training answers are often too
    high.

    Args:
        values: (t,) audited values so far in draw order; empty for a forecast that must not use audit answers.
        expected: (N,) calibrated chances of a 1: those of the draws in draw order, then those of the rest.
        goal: Largest mean error that counts as proven.
        alpha: Share of alpha that the upper bound of this model has.
        limit: Most further answers to consider. Default: everything.
        picks_per_answer: Picks that are asked for each random answer meanwhile. They leave the population, the most
            doubtful examples first, and so do audited examples that are as doubtful.
        seed: Seed of the simulations.
    """
    seen, chances = np.asarray(values, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    forecast = _simulate_proofs(seen, chances, goal, alpha, limit, seed)
    picks = round(picks_per_answer * (forecast.median or 0))
    if not picks:
        return forecast
    ranked = np.random.default_rng(seed).permutation(len(chances))
    ranked = ranked[np.argsort(-chances[ranked], kind="stable")]  # examples alike leave in random order
    passed = ranked[: int(np.searchsorted(np.cumsum(ranked >= len(seen)), picks)) + 1]
    left = np.delete(np.arange(len(chances)), passed)
    again = _simulate_proofs(seen[left[left < len(seen)]], chances[left], goal, alpha, limit, seed)
    drawn_first = 1 + picks / (2 * max(len(chances) - len(seen), 1))  # random questions that are picks later
    pairs = ((forecast.median, again.median), (forecast.cautious, again.cautious))
    longer = [None if n is None or m is None else max(n, math.ceil(drawn_first * m)) for n, m in pairs]
    return ProofForecast(longer[0], longer[1], min(forecast.chance, again.chance))


def _simulate_proofs(
    seen: Array, chances: Array, goal: float, alpha: float, limit: int | None, seed: int
) -> ProofForecast:
    """Forecast a proof in a population that nothing leaves."""
    known, others = chances[: len(seen)], chances[len(seen) :]
    rest = shift_chances(known, seen, others)
    most = len(rest) if limit is None else min(limit, len(rest))
    rng = np.random.default_rng(seed)
    needed = []
    for _ in range(SIMULATIONS):
        order = rng.permutation(len(rest))
        coming = (rng.random(most) < rest[order[:most]]).astype(np.float64)
        drawn, controls = np.concatenate([seen, coming]), np.concatenate([known, others[order]])
        needed.append(_first_proof(drawn, controls, len(seen), goal, alpha))
    middle, high = (float(np.quantile(needed, share, method="higher")) for share in (0.5, 0.8))
    median, cautious = (int(each) if math.isfinite(each) else None for each in (middle, high))
    return ProofForecast(median, cautious, chance=float(np.isfinite(needed).mean()))


def shift_chances(expected: ArrayLike, values: ArrayLike, others: ArrayLike) -> Array:
    """Shift the log odds of some chances by what audited values say of theirs; for forecasts, not for proofs.

    The shift maximizes the likelihood of the values, times a standard normal prior.

    Args:
        expected: (t,) expected values of the audited examples.
        values: (t,) their values.
        others: (n,) chances to shift.
    """
    known = logit(np.asarray(expected, dtype=np.float64).clip(MIN_CHANCE, 1 - MIN_CHANCE))
    total = float(np.asarray(values, dtype=np.float64).sum())
    shift = brentq(lambda b: float(expit(known + b).sum() - total + b), -20.0, 20.0) if len(known) else 0.0
    rest = logit(np.asarray(others, dtype=np.float64).clip(MIN_CHANCE, 1 - MIN_CHANCE))
    return np.asarray(expit(rest + shift))


def _first_proof(values: Array, expected: Array, seen: int, goal: float, alpha: float) -> float:
    """Further draws until the goal is proven; infinity where these draws do not prove it."""
    population = len(expected)
    wrong = np.cumsum(values)
    left = population - np.arange(1, len(values) + 1)
    certain = wrong + left <= goal * population  # even if all others err
    possible = wrong <= goal * population
    capital = UpperBettor(values, expected).log_capital(goal)
    proven = np.flatnonzero(possible & (certain | (np.maximum.accumulate(capital) >= math.log(1 / alpha))))
    return float(max(proven[0] + 1 - seen, 0)) if len(proven) else math.inf


def growth_rate(expected: ArrayLike, goal: float) -> float:
    """Largest mean growth of the log capital per uniform draw against the claim that the mean is the goal.

    It is the smallest mean Kullback-Leibler divergence from the chances p to chances q with the mean `goal`, which are
    a tilt of p: p = q - c q (1 - q). No bet that is valid for every population with this mean grows faster. 0 where
    the expected mean is not below the goal.
    """
    chances = np.asarray(expected, dtype=np.float64).clip(MIN_CHANCE, 1 - MIN_CHANCE)
    if not 0 < goal < 1:
        raise ValueError(f"goal must be between 0 and 1, got {goal}")
    if chances.mean() >= goal:
        return 0.0

    def tilt(stake: float) -> Array:
        shift = 1 - stake
        return np.asarray((np.sqrt(shift**2 + 4 * stake * chances) - shift) / (2 * stake))

    top = 1.0
    while tilt(top).mean() < goal:
        top *= 2
    null = tilt(brentq(lambda stake: float(tilt(stake).mean() - goal), 1e-9, top))
    divergence = chances * np.log(chances / null) + (1 - chances) * np.log((1 - chances) / (1 - null))
    return float(divergence.mean())


def fewest_answers_to_prove(expected: ArrayLike, goal: float, alpha: float = ALPHA) -> float:
    """Expected number of uniform draws that the best possible bettor needs, who knows every chance of an error.

    log(1 / alpha) over `growth_rate`: a yardstick for `answers_to_prove`, and infinity where the goal is not met.
    """
    growth = growth_rate(expected, goal)
    return math.log(1 / alpha) / growth if growth > 0 else math.inf
