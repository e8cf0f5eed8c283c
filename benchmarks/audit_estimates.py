"""Savings and label noise on scikit-learn's digits, simulated.

* `python -m benchmarks.audit_estimates savings`: the estimate of what picking saved, against the truth.
* `python -m benchmarks.audit_estimates noise`: five people with 20 % errors; ask again, or something new?
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from jostle.statistics.agreement import posterior_classes, value_of_answer
from jostle.statistics.estimate import TRAIN_SHARE, estimate_savings, shadow_errors

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

BATCH = 20
PEOPLE, WRONG = 5, 0.2
OVERLAP = 0.3  # share of second opinions
BUDGET = 500  # noisy answers


def load(seed: int) -> tuple[Array, Classes, np.random.Generator]:
    """Rows (n, 64) and classes (n,) in random order."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    rows, classes = load_digits(return_X_y=True)
    order = rng.permutation(len(classes))
    return rows[order] / 16, classes[order].astype(np.int64), rng


def fit(rows: Array, classes: Classes) -> Any:
    """A linear classifier."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=3, max_iter=200).fit(rows, classes)


def predict(rows: Array, classes: Classes, others: Array) -> Classes:
    """Classes of other rows by a classifier of these."""
    if len(np.unique(classes)) < 2:
        return np.full(len(others), classes[0])
    result: Classes = fit(rows, classes).predict(others)
    return result


def savings_run(seed: int, audited: int, random_labels: int) -> tuple[Any, Array, float]:
    """The estimate; errors of picking on new data by model; and that of random labels."""
    rows, classes, rng = load(seed)
    audit, pool, new = np.arange(audited), list(range(audited, 1100)), np.arange(1100, len(classes))
    picks = [pool.pop() for _ in range(BATCH)]
    on_audit, on_new, sizes = list[Array](), list[float](), list[int]()
    while len(picks) <= 200:
        model = fit(rows[picks], classes[picks])
        on_audit.append((model.predict(rows[audit]) != classes[audit]).astype(float))
        on_new.append(float((model.predict(rows[new]) != classes[new]).mean()))
        sizes.append(len(picks))
        top = np.sort(model.predict_proba(rows[pool]), axis=1)[:, -2:]
        chosen = np.argsort(top[:, 1] - top[:, 0])[:BATCH]
        picks += [pool[i] for i in chosen]
        pool = [i for place, i in enumerate(pool) if place not in set(chosen.tolist())]
    drawn = rng.permutation(1100)[:random_labels]
    random = float((predict(rows[drawn], classes[drawn], rows[new]) != classes[new]).mean())
    shadow = shadow_errors(rows[audit], classes[audit], predict, random_labels, splits=15, seed=seed)
    found = estimate_savings(shadow, random_labels, np.array(on_audit), sizes, seed=seed)
    return found, np.array(on_new), random


def savings(seeds: range) -> Table:
    """Bias and coverage of the estimate."""
    table = Table("audited", "random labels", "picks as good: truth", "median estimate", "bias", "covered")
    for audited in (60, 100, 150):
        labels = round(TRAIN_SHARE * audited)
        runs = [savings_run(seed, audited, labels) for seed in seeds]
        curve = np.mean([run[1] for run in runs], axis=0)
        truth = estimate_savings(
            [float(np.mean([run[2] for run in runs]))], labels, curve[:, None], BATCH * np.arange(1, len(curve) + 1)
        ).picks  # fmt: skip
        picks = np.array([run[0].picks for run in runs])
        covered = np.mean([run[0].low <= truth <= run[0].high for run in runs])
        middle = float(np.median(picks))
        table.add_row(
            str(audited),
            str(labels),
            f"{truth:.0f}",
            f"{middle:.0f}",
            f"{middle - truth:+.0f}",
            f"{covered:.0%}",
        )
    return table


def noisy_labeling(seed: int, rule: str) -> float:
    """Accuracy on new data after a budget of noisy answers."""
    from sklearn.model_selection import KFold

    rows, classes, rng = load(seed)
    size, new = 1200, np.arange(1200, len(classes))
    votes = np.full((size, PEOPLE), -1)
    asked, belief = list[int](range(50)), np.full((size, 10), 0.1)
    for step in range(BUDGET):
        if step >= 50 and step % BATCH == 10:
            asked = _next_questions(rule, belief, votes, rng)
        example = asked.pop(0)
        free = np.flatnonzero(votes[example] < 0)
        truth = classes[example]
        said = truth if rng.random() >= WRONG else (truth + rng.integers(1, 10)) % 10
        votes[example, rng.choice(free)] = said
        if step >= 49 and (step % BATCH == 9 or step == BUDGET - 1):
            labeled = np.flatnonzero((votes >= 0).any(axis=1))
            labels = posterior_classes(belief[labeled], votes[labeled], WRONG).argmax(axis=1)
            belief = np.full((size, 10), 1e-3)
            model = fit(rows[labeled], labels)
            belief[:, model.classes_] += model.predict_proba(rows[:size])
            for inside, outside in KFold(5, shuffle=True, random_state=seed).split(labeled):
                held = fit(rows[labeled[inside]], labels[inside])
                belief[labeled[outside]] = 1e-3
                chances = held.predict_proba(rows[labeled[outside]])
                belief[np.ix_(labeled[outside], held.classes_)] += chances
            belief /= belief.sum(axis=1, keepdims=True)
    return float((model.predict(rows[new]) == classes[new]).mean())


def _next_questions(rule: str, belief: Array, votes: Classes, rng: np.random.Generator) -> list[int]:
    """The next batch: examples, with or without answers."""
    given, size = (votes >= 0).sum(axis=1), BATCH + 10
    noise = 1e-9 * rng.random(len(votes))
    value = value_of_answer(posterior_classes(belief, votes, WRONG), WRONG) + noise
    doubt = np.where(given == 0, 1 - belief.max(axis=1), -1) + noise
    if rule in ("always new", "at random", "as on the page"):
        again = round(OVERLAP * BATCH) if rule != "always new" else 0
        steered = again // 2 if rule == "as on the page" else 0
        usual = float(np.median(value[np.argsort(-doubt)[:size]]))
        open_ones = np.where((given > 0) & (given < PEOPLE), value, -1)
        best = [i for i in np.argsort(-open_ones)[:steered] if value[i] > usual]
        chance = rng.permutation(np.flatnonzero((given == 1) & ~np.isin(np.arange(len(given)), best)))
        seconds = [*best, *chance[: again - steered]]
        return [int(i) for i in [*seconds, *np.argsort(-doubt)[: size - len(seconds)]]]
    score = value if rule == "value of an answer" else -_activelab(belief, votes) + noise
    return [int(i) for i in np.argsort(-np.where(given >= PEOPLE, -np.inf, score))[:size]]


def _activelab(belief: Array, votes: Classes) -> Array:
    """Scores of ActiveLab (Goh and Mueller 2023) by cleanlab, smaller is more worth asking."""
    from cleanlab.multiannotator import get_active_learning_scores  # type: ignore[import-not-found]

    labeled = (votes >= 0).any(axis=1)
    given = np.where(votes >= 0, votes, np.nan)[labeled]
    given = given[:, ~np.isnan(given).all(axis=0)]
    scores = np.empty(len(belief))
    scores[labeled], scores[~labeled] = get_active_learning_scores(given, belief[labeled], belief[~labeled])
    return scores


def noise(seeds: range) -> Table:
    """Accuracy after the budget."""
    table = Table("rule", "runs", "accuracy on new data", "standard error")
    for rule in ("always new", "at random", "as on the page", "value of an answer", "ActiveLab"):
        try:
            found = [noisy_labeling(seed, rule) for seed in seeds]
        except ImportError:
            table.add_row(rule, "not installed")
            continue
        table.add_row(
            rule, str(len(seeds)), f"{np.mean(found):.1%}", f"{np.std(found) / np.sqrt(len(seeds)):.1%}"
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_estimates", description=__doc__)
    parser.add_argument("part", choices=("savings", "noise"))
    parser.add_argument(
        "--seeds", type=int, nargs=2, metavar=("FROM", "TO"), help="0 100 for savings, 0 20 for noise"
    )
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    run, seeds = {"savings": (savings, (0, 100)), "noise": (noise, (0, 20))}[arguments.part]
    Console(width=110).print(run(range(*(arguments.seeds or seeds))))


if __name__ == "__main__":
    main()
