"""`python -m benchmarks.doubts`: how many of the answers that the review doubts are mistakes.

Some answers of a data set are flipped at random. The probe of the labeling page learns from them, and its
cross-validated predictions say which answers to doubt: all that contradict it (the 50 with the surest prediction, as in
0.2), or those that are more likely mistakes than not.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from jostle.labeling.training.learners import SOFTMAX, fit_classifier
from jostle.statistics.agreement import EVEN, class_mistakes

LISTED = 50  # doubts that 0.2 listed
DATA = {
    "digits": datasets.load_digits,
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
}


def flip(
    answers: NDArray[np.int64], share: float, classes: int, draw: np.random.Generator
) -> NDArray[np.int64]:
    """Replace a share of answers by other classes."""
    wrong = draw.random(len(answers)) < share
    return np.where(wrong, (answers + draw.integers(1, classes, len(answers))) % classes, answers)


def count_doubts(
    rows: NDArray[np.float32], truth: NDArray[np.int64], n: int, share: float, seed: int
) -> tuple[NDArray[np.int64], int]:
    """Return doubts and mistakes among them, of 0.2 and of now, (2, 2), and the number of mistakes."""
    draw, classes = np.random.default_rng([seed, n, round(1000 * share)]), int(truth.max()) + 1
    places = draw.choice(len(rows), n, replace=False)
    given = flip(truth[places], share, classes, draw)
    wrong = given != truth[places]
    _, held = fit_classifier(SOFTMAX, rows, places, np.eye(classes)[given], seed)  # (n, c)
    against = held.argmax(1) != given
    listed = np.flatnonzero(against)[np.argsort(-held.max(1)[against])][:LISTED]
    likely = np.flatnonzero(against & (class_mistakes(held, given) >= EVEN))
    found = [[len(which), wrong[which].sum()] for which in (listed, likely)]
    return np.array(found), int(wrong.sum())


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print(
        "| data | answers | mistakes | doubts of 0.2 that are mistakes | doubts that are mistakes | found |"
    )
    print("|---|---|---|---|---|---|")
    for name, load in DATA.items():
        rows, truth = load(return_X_y=True)
        rows = ((rows - rows.mean(0)) / np.maximum(rows.std(0), 1e-9)).astype(np.float32)
        for n in (100, 200, 400):
            for share in (0.02, 0.05, 0.1):
                if n > 0.8 * len(rows):
                    continue
                runs = [count_doubts(rows, truth, n, share, seed) for seed in range(seeds)]
                (old, old_right), (new, right) = np.sum([each for each, _ in runs], axis=0)
                total = sum(wrong for _, wrong in runs)
                cells = [name, n, f"{share:.0%}", f"{old_right} of {old} ({old_right / max(old, 1):.0%})"]
                cells += [f"{right} of {new} ({right / max(new, 1):.0%})", f"{right / max(total, 1):.0%}"]
                print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
