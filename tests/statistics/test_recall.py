"""The lower bound on recall."""

import numpy as np
import pytest

from jostle.statistics.quality import RecallSequence, recall_lower_bound


def search(seed: int) -> tuple[float, float]:
    """A bound on recall after a search by chance, and the true recall."""
    rng = np.random.default_rng(seed)
    chances = rng.beta(0.05, 1.2, 1000)
    member = rng.random(1000) < chances
    noisy = np.clip(chances + rng.normal(0, 0.05, 1000), 0, 1)
    order = np.argsort(-noisy)
    picked, rest = order[:80], rng.permutation(order[80:])
    drawn = rest[:150]
    bound = recall_lower_bound(int(member[picked].sum()), member[drawn], noisy[rest], alpha=0.2)
    found = member[picked].sum() + member[drawn].sum()
    return bound.recall, found / max(member.sum(), 1)


def test_the_bound_rarely_exceeds_the_recall() -> None:
    runs = np.array([search(seed) for seed in range(60)])
    assert (runs[:, 0] > runs[:, 1] + 1e-9).mean() <= 0.2
    assert np.median(runs[:, 0]) > 0.5  # and it says something


def test_a_census_by_hand() -> None:
    everything = recall_lower_bound(3, [1, 0], [0.5, 0.5])
    assert (everything.recall, everything.found, everything.missed) == (1.0, 4, 0)
    nothing = recall_lower_bound(3, [], np.full(7, 0.1))
    assert (nothing.recall, nothing.missed) == (0.3, 7)
    assert recall_lower_bound(2, [], []).recall == 1.0
    assert recall_lower_bound(0, [], []).recall == 0.0
    with pytest.raises(ValueError, match="found must be 0 or more, got -1"):
        recall_lower_bound(-1, [], [0.1])


def steered_search(seed: int, examples: int = 300) -> bool:
    """Whether the bound exceeds the recall of a search that random draws and picks steer together."""
    rng = np.random.default_rng(seed)
    place = rng.random(examples)
    member = rng.random(examples) < 0.3 * (place > 0.7)
    left, sequence, guess = list(range(examples)), RecallSequence(examples), np.full(examples, 0.1)
    for step in range(120):
        if step % 2:
            drawn = int(rng.integers(len(left)))
            sequence.add_draw(guess[left], drawn, bool(member[left[drawn]]))
            near = np.abs(place - place[left[drawn]]) < 0.05
            guess[near] = 0.5 * guess[near] + 0.5 * member[left[drawn]]  # draws train the model
        else:
            drawn = int(np.argmax(guess[left]))
            sequence.add_answers(1, int(member[left[drawn]]))
        del left[drawn]
    return (
        sequence.bound(0.2).recall > sequence.found / max(member.sum(), 1) + 1e-9
    )  # holds all earlier looks


def test_one_sequence_holds_for_a_whole_search_although_draws_steer_it() -> None:
    assert np.mean([steered_search(seed) for seed in range(40)]) <= 0.2


def test_a_search_that_finds_everything_can_stop_early() -> None:
    chances = np.where(np.arange(400) < 40, 0.9, 0.002)
    sequence = RecallSequence(400)
    sequence.add_answers(40, 40)  # all members are found at once
    left = chances[40:]
    while sequence.bound().recall < 0.95:
        sequence.add_draw(left, 0, False)
        left = left[1:]
    # (1 - n / N)^3 < 0.05, which no rule without assumptions can beat, needs 227 draws for 3 missed members
    assert 227 <= 360 - len(left) < 300


def test_the_ends_of_a_search() -> None:
    sequence = RecallSequence(5)
    assert (sequence.bound().recall, sequence.bound().missed) == (0.0, 5)
    sequence.add_answers(4, 2)
    assert sequence.bound().recall == pytest.approx(2 / 3)
    sequence.add_draw([0.5], 0, True)
    assert (sequence.bound().recall, sequence.bound().found) == (1.0, 3)
    with pytest.raises(ValueError, match="1 members in 1 answers are impossible with 0 left"):
        sequence.add_answers(1, 1)
    with pytest.raises(ValueError, match="pass chances of 0 examples, got 1"):
        sequence.add_draw([0.5], 0, True)
