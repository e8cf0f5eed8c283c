"""Agreement and consensus: published figures, and an independent expectation-maximization written out in loops."""

import math
import random
from collections.abc import Mapping

import pytest

from jostle.statistics.agreement import (
    PRIOR_RIGHT,
    PRIOR_WRONG,
    consensus,
    dawid_skene,
    jaccard_distance,
    krippendorff_alpha,
    squared_distance,
)

KRIPPENDORFF = [  # three coders on fifteen units, 0 is missing (Krippendorff, Computing alpha-reliability, 2011)
    (0, 0, 0, 0, 0, 3, 4, 1, 2, 1, 1, 3, 3, 0, 3),
    (1, 0, 2, 1, 3, 3, 4, 3, 0, 0, 0, 0, 0, 0, 0),
    (0, 0, 2, 1, 3, 4, 4, 0, 2, 1, 1, 3, 3, 0, 4),
]


def test_published_figures() -> None:
    units = [[value for value in unit if value] for unit in zip(*KRIPPENDORFF, strict=True)]
    assert krippendorff_alpha(units) == pytest.approx(0.691, abs=5e-4)
    assert krippendorff_alpha(
        [[float(v) for v in unit] for unit in units], squared_distance
    ) == pytest.approx(0.811, abs=5e-4)


def test_sets_that_overlap_agree_in_part() -> None:
    half = [[frozenset({1, 2}), frozenset({1})], [frozenset({3}), frozenset({3})]]
    none = [[frozenset({1}), frozenset({2})], [frozenset({3}), frozenset({3})]]
    assert krippendorff_alpha(none, jaccard_distance) < krippendorff_alpha(half, jaccard_distance) < 1  # type: ignore[operator]
    assert jaccard_distance(frozenset(), frozenset()) == 0


def in_loops(votes: Mapping[str, Mapping[str, int]], classes: int) -> dict[str, list[float]]:
    """Dawid and Skene's expectation-maximization with plain loops."""
    people = sorted({person for by in votes.values() for person in by})
    belief = {
        k: [sum(v == c for v in by.values()) / len(by) for c in range(classes)] for k, by in votes.items()
    }
    for _ in range(50):
        confusion = {}
        for person in people:
            for true in range(classes):
                counts = [PRIOR_RIGHT if true == said else PRIOR_WRONG for said in range(classes)]
                for key, by in votes.items():
                    if person in by:
                        counts[by[person]] += belief[key][true]
                for said in range(classes):
                    confusion[person, true, said] = counts[said] / sum(counts)
        prior = [(sum(b[c] for b in belief.values()) + 1) / (len(votes) + classes) for c in range(classes)]
        for key, by in votes.items():
            odds = [prior[c] * math.prod(confusion[p, c, v] for p, v in by.items()) for c in range(classes)]
            belief[key] = [odd / sum(odds) for odd in odds]
    return belief


def crowd(
    seed: int, skills: Mapping[str, float], n: int = 60
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """True classes, and what people of these skills say."""
    draw = random.Random(seed)
    truth = {str(i): draw.randrange(2) for i in range(n)}
    votes = {k: {p: t if draw.random() < s else 1 - t for p, s in skills.items()} for k, t in truth.items()}
    return truth, votes


def test_it_is_dawid_and_skenes() -> None:
    _, votes = crowd(0, {"a": 0.9, "b": 0.7, "c": 0.55})
    del votes["3"]["b"]
    found, expected = dawid_skene(votes, 2), in_loops(votes, 2)
    for key in votes:
        assert found[key] == pytest.approx(expected[key], abs=1e-4)


def test_one_who_knows_outweighs_two_who_do_not() -> None:
    truth, votes = crowd(1, {"expert": 0.97, "b": 0.55, "c": 0.55, "d": 0.9}, n=300)
    found = consensus(votes, 2)
    right = sum(found[key] == true for key, true in truth.items())
    majority = sum((sum(votes[key].values()) + votes[key]["b"] > 2.5) == true for key, true in truth.items())
    assert right > majority + 15  # of 300
