"""First questions by suggestions: accuracy after few answers, with and without a model that is often right.

    python -m benchmarks.suggestions

Handwritten digits, of which three classes are rare (a tenth of their examples). Suggestions are right for 80 % of the
examples, and random for the others. Each seed labels twice, with 15 % audit, and tests both models on the same balanced
third that is never asked. The figures are macro averages over classes.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np
from sqlalchemy import update

from jostle.labeling import Session
from jostle.labeling.sources import DIGIT_CLASSES, Digits
from jostle.labeling.store.schema import examples

RARE, KEPT = ("7", "8", "9"), 0.1  # classes of which few are in the pool, and the share that is
RIGHT = 0.8  # share of suggestions that are
TEST = 1 / 3
BATCHES = (20, 20, 20)
SEEDS = 6


def split(seed: int, truth: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the names that test, and those that are in neither part."""
    rng = np.random.default_rng(seed)
    names = sorted(truth)
    test = {name for name in names if rng.random() < TEST}
    left_out = [name for name in names if name not in test and truth[name] in RARE and rng.random() > KEPT]
    return sorted(test), left_out


def run(seed: int, with_suggestions: bool, folder: Path) -> list[float]:
    """Label in batches; return the macro accuracy after each."""
    source, rng = Digits(), np.random.default_rng(seed)
    truth = {name: str(cell) for name, cell in source.column("digit").items()}
    test, left_out = split(seed, truth)
    path = folder / "suggestions.csv"
    with path.open("w", newline="") as file:
        said = [(n, t if rng.random() < RIGHT else rng.choice(DIGIT_CLASSES)) for n, t in truth.items()]
        csv.writer(file).writerows([("name", "prediction"), *said])
    session = Session.open(
        source,
        project=folder / "project",
        answers=DIGIT_CLASSES,
        encoder="pixels",
        seed=seed,
        batch=BATCHES[0],
        suggest=str(path) if with_suggestions else None,
    )
    session.index.refresh()
    keys = {source.read(name).key: name for name in truth}
    with session.store.write_transaction() as tx:
        aside = [key for key, name in keys.items() if name in set(test) | set(left_out)]
        tx.execute(update(examples).where(examples.c.key.in_(aside)).values(purpose="test"))
    found = []
    session.train()
    for batch in BATCHES:
        for question in session.ask(batch):
            session.tell(question.key, truth[question.name])
        session.train()
        found.append(
            macro_accuracy(session, {key: truth[name] for key, name in keys.items() if name in set(test)})
        )
    session.close()
    return found


def macro_accuracy(session: Session, truth: dict[str, str]) -> float:
    """Return the accuracy of the last model, averaged over classes."""
    predicted, classes = session.predictions(), session.book.classes()
    if predicted is None:
        return 1 / len(DIGIT_CLASSES)
    right: dict[str, list[bool]] = {}
    for key, label in truth.items():
        answer = classes.names[int(predicted.answer(predicted.places[key], classes))]  # type: ignore[arg-type]
        right.setdefault(label, []).append(answer == label)
    return float(np.mean([np.mean(each) for each in right.values()]))


def main() -> None:
    """Print a table."""
    rows = []
    for seed in range(SEEDS):
        for arm in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                rows.append((seed, arm, run(seed, arm, Path(folder))))
            print(*rows[-1], flush=True)
    for place, answers in enumerate(np.cumsum(BATCHES)):
        without, given = (
            np.array([found[place] for _, arm, found in rows if arm == want]) for want in (False, True)
        )
        gap = given - without
        error = gap.std(ddof=1) / len(gap) ** 0.5
        print(
            f"{answers} answers: {without.mean():.3f} without, {given.mean():.3f} with, {gap.mean():+.3f} ± {error:.3f}"
        )


if __name__ == "__main__":
    main()
