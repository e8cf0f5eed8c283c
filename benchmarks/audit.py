"""Coverage and width of the audit's intervals, simulated.

* `python -m benchmarks.audit coverage` plays whole projects: picked examples leave the population, models improve, and
  every interval of every model after every answer is held against the truth.
* `python -m benchmarks.audit width` compares widths with those of the exact interval, which uses no predictions.
* `python -m benchmarks.audit forecast` compares forecasts of a proof with the random answers that it then took.
* `python -m benchmarks.audit digits` counts random answers until the upper bound is within five points of the truth.
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.special import expit

from jostle.labeling.audit import FORECAST_LIMIT, UPPER_SHARE
from jostle.statistics.confidence import (
    ALPHA,
    AuditSample,
    UpperBettor,
    betting_interval,
    error_counts,
    exact_interval,
)
from jostle.statistics.estimate import calibrate_errors
from jostle.statistics.proofs import answers_to_prove, spend_alpha

Array = NDArray[np.float64]

PREDICTIONS = ("good", "shuffled", "adversarial")
LOOK_STEP = 5  # picks between two populations that are looked at


@dataclass(frozen=True)
class Project:
    """A simulated project: sizes of the pool and of what is asked."""

    examples: int = 800
    models: int = 10
    picks: int = 30  # for each model
    audits: int = 12  # for each model
    goal: float = 0.1  # largest mean error


def expected_errors(kind: str, chances: Array, errors: Array, rng: np.random.Generator) -> Array:
    """Predictions of the errors: the true chances, those of other examples, or the very opposite of the errors."""
    if kind == "good":
        return chances
    return rng.permutation(chances) if kind == "shuffled" else 1 - errors


def misses(project: Project, kind: str, seed: int, alpha: float = ALPHA) -> tuple[bool, bool]:
    """Whether any interval of any model at any look misses; and whether any "usual" one does, made for one look."""
    rng = np.random.default_rng(seed)
    difficulty, luck = rng.normal(-2.5, 2, project.examples), rng.random(project.examples)
    order = rng.permutation(project.examples)
    left, drawn = np.ones(project.examples, dtype=bool), 0
    candidates: list[bool] = []
    ever = usual = False
    for model in range(project.models):
        chances = expit(difficulty - 0.25 * model + rng.normal(0, 0.5, project.examples))
        errors = (luck < chances).astype(np.float64)  # models err alike on the same examples
        wanted = np.argsort(-np.where(left, chances + rng.normal(0, 0.1, project.examples), -1))[
            : project.picks
        ]
        expected = expected_errors(kind, chances, errors, rng)
        candidates.append(bool(chances[left].mean() <= project.goal))  # no audit answer decides this
        share = spend_alpha(candidates, alpha)[-1]
        for step in range(0, project.picks, LOOK_STEP):  # picks leave the audit one by one while people look
            left[wanted[step : step + LOOK_STEP]] = False  # audited or not
            part = drawn + round(project.audits * (step + LOOK_STEP) / project.picks)
            sample = AuditSample(order[:part], project.examples).restrict(left)
            z, truth = errors[left], float(errors[left].mean())
            ever |= _excluded(sample, z, expected[left], truth, share)
        drawn += project.audits
        usual |= _usual_misses(z[sample.draws], truth)
    return ever, usual


def _excluded(sample: AuditSample, errors: Array, expected: Array, truth: float, alpha: float) -> bool:
    """Whether the running interval ever leaves out the truth: its capital reached 2 / alpha on either side."""
    drawn, controls = errors[sample.draws], sample.arrange(expected)
    high = UpperBettor(drawn, controls).log_capital(truth).max()
    low = UpperBettor(1 - drawn, 1 - controls).log_capital(1 - truth).max()
    return bool(max(high, low) >= math.log(2 / alpha))


def _usual_misses(drawn: Array, truth: float) -> bool:
    """Whether Wilson's 95 % interval misses after any answer from the tenth on."""
    count = np.arange(1, len(drawn) + 1)
    share, z = np.cumsum(drawn) / count, 1.96
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return bool((np.abs(truth - middle) > half)[9:].any())


def one_model_misses(kind: str, seed: int, alpha: float = ALPHA) -> bool:
    """Whether any of 300 looks at one model misses, with all of alpha."""
    rng = np.random.default_rng([seed, 2])
    chances = expit(rng.normal(-2.5, 2, 800))
    errors = (rng.random(800) < chances).astype(np.float64)
    sample = AuditSample(rng.permutation(800)[:300], 800)
    return _excluded(sample, errors, expected_errors(kind, chances, errors, rng), float(errors.mean()), alpha)


def coverage(seeds: int) -> Table:
    """Share of projects in which any interval missed."""
    table = Table(
        "predictions", "projects", "all models, all looks", "usual 95 % intervals", "one model, all looks"
    )
    project = Project()
    for kind in PREDICTIONS:
        ours, usual = np.array([misses(project, kind, seed) for seed in range(seeds)]).mean(axis=0)
        single = np.mean([one_model_misses(kind, seed) for seed in range(seeds)])
        table.add_row(kind, f"{seeds:,}", f"{ours:.1%}", f"{usual:.1%}", f"{single:.1%}")
    return table


def width(seeds: int) -> Table:
    """Mean width over that of the exact interval, for populations of 2,000."""
    table = Table(
        "error", "audited", "exact width", *PREDICTIONS, title="width over that of the exact interval"
    )
    for error in (0.02, 0.05, 0.1, 0.2, 0.4):
        for count in (25, 50, 100, 200, 400):
            widths: dict[str, list[float]] = {name: [] for name in ("exact", *PREDICTIONS)}
            for seed in range(seeds):
                rng = np.random.default_rng([seed, count, round(1000 * error)])
                chances = rng.beta(error, 1 - error, 2000)
                z = (rng.random(2000) < chances).astype(np.float64)
                widths["exact"].append(exact_interval(int(z[:count].sum()), count, 2000).width)
                for kind in PREDICTIONS:
                    expected = expected_errors(kind, chances, z, rng)
                    widths[kind].append(betting_interval(z[:count], expected).width)
            exact = float(np.mean(widths["exact"]))
            ratios = [f"{np.mean(widths[kind]) / exact:.2f}" for kind in PREDICTIONS]
            table.add_row(f"{error:.0%}", str(count), f"{exact:.3f}", *ratios)
    return table


def forecast(seeds: int) -> Table:
    """Forecasts of a proof that the error is at most 10 %, against the random answers that it then took."""
    table = Table(
        "true error", "chances", "audited", "forecast: median", "it took: median", "longer", "longer than cautious"
    )  # fmt: skip
    alpha, size, limit = UPPER_SHARE * spend_alpha([True])[0], 1500, FORECAST_LIMIT
    cases = [
        (log_odds, bias, count) for log_odds in (-5.0, -4.3) for bias in (0.0, 0.7) for count in (30, 75)
    ]
    for log_odds, bias, count in cases:
        found: list[tuple[float, ...]] = []
        for seed in range(seeds):
            rng = np.random.default_rng([seed, count])
            difficulty = rng.normal(log_odds, 2, size)
            errors = (rng.random(size) < expit(difficulty)).astype(np.float64)
            expected = expit(difficulty + bias)
            told = answers_to_prove(errors[:count], expected, 0.1, alpha=alpha, limit=limit, seed=seed)
            capital = UpperBettor(errors[: count + limit], expected).log_capital(0.1)
            proven = np.flatnonzero(capital >= math.log(1 / alpha))
            took = max(float(proven[0]) + 1 - count, 0.0) if len(proven) else math.inf
            known = [math.inf if each is None else each for each in (told.median, told.cautious)]
            found.append((float(errors.mean()), *known, took))
        error, median, cautious, took_all = np.array(found).T
        table.add_row(
            f"{error.mean():.1%}", "too high" if bias else "calibrated", str(count),
            f"{np.median(median):.0f}", f"{np.median(took_all):.0f}",
            f"{(took_all > median).mean():.0%}", f"{(took_all > cautious).mean():.0%}",
        )  # fmt: skip
    return table


def digits(seeds: int) -> Table:
    """Random answers until the upper bound is within five points of the true error, on scikit-learn's digits."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold, cross_val_predict

    warnings.filterwarnings("ignore", "Number of classes in training fold")
    rows, classes = load_digits(return_X_y=True)
    rows = rows / 16
    table = Table("trained on", "true error", "exact", "no predictions", "uniform + e", "weighted + e")
    for labels in (60, 150, 400):
        found: dict[str, list[float]] = {}
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(classes))
            train, rest = order[:labels], order[labels:]
            model = LogisticRegression(C=10, max_iter=1000).fit(rows[train], classes[train])
            folds = KFold(5, shuffle=True, random_state=seed)
            held_out = cross_val_predict(
                LogisticRegression(C=10, max_iter=1000), rows[train], classes[train], cv=folds, method="predict_proba"
            )  # fmt: skip
            columns = np.searchsorted(np.unique(classes[train]), classes[train])
            calibration = calibrate_errors(held_out.max(axis=1), held_out.argmax(axis=1) != columns)
            chances = calibration.expected_errors(model.predict_proba(rows[rest]).max(axis=1))
            errors = (model.predict(rows[rest]) != classes[rest]).astype(np.float64)
            found.setdefault("error", []).append(float(errors.mean()))
            for name, needed in _answers_needed(errors, chances, seed).items():
                found.setdefault(name, []).append(needed)
        middle = {name: float(np.median(each)) for name, each in found.items()}
        table.add_row(
            f"{labels} labels",
            f"{middle['error']:.1%}",
            *(f"{middle[name]:.0f}" for name in ("exact", "none", "uniform", "weighted")),
        )
    return table


def _answers_needed(errors: Array, chances: Array, seed: int, gap: float = 0.05) -> dict[str, float]:
    """Draws until each upper bound, made with half of alpha, is at most the true error plus the gap."""
    goal, size = float(errors.mean()) + gap, len(errors)
    limit = math.log(2 / ALPHA)
    weights = 0.5 + 0.5 * np.sqrt(chances * (1 - chances)) / np.sqrt(chances * (1 - chances)).mean()
    keys = np.random.default_rng([seed, 1]).exponential(size=size) / weights
    order = np.argsort(keys)  # draws with probability proportional to the weights

    def first(bettor: UpperBettor) -> float:
        return float(np.argmax(bettor.log_capital(goal) >= limit) + 1)

    counts = np.cumsum(errors).astype(int)
    exact = next(
        t for t in range(5, size + 1, 5) if error_counts(int(counts[t - 1]), t, size)[1] <= goal * size
    )
    return {
        "exact": exact,
        "none": first(UpperBettor(errors, np.full(size, 0.5))),
        "uniform": first(UpperBettor(errors, chances)),
        "weighted": first(UpperBettor(errors[order], chances[order], weights[order])),
    }


PARTS = {
    "coverage": (coverage, 1000),
    "width": (width, 40),
    "forecast": (forecast, 100),
    "digits": (digits, 60),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    defaults = ", ".join(f"{seeds} for {part}" for part, (_, seeds) in PARTS.items())
    parser.add_argument("--seeds", type=int, help=defaults)
    arguments = parser.parse_args()
    run, seeds = PARTS[arguments.part]
    Console(width=110).print(run(arguments.seeds or seeds))


if __name__ == "__main__":
    main()
