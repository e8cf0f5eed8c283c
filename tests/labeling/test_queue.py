"""The audit is a uniform sample of what was never picked; second opinions are asked where they change a label."""

from pathlib import Path

import pytest
from answering import color_in, purposes
from labeling_data import COLORS, colored_folder

from jostle.labeling import Session
from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.audit import queue
from jostle.labeling.audit.queue import mix_audit, next_audit, split_batch
from jostle.labeling.sources.contents import digest
from jostle.labeling.store.schema import examples

KEYS = [digest(bytes([number])) for number in range(30)]
HARD = set(KEYS[:10])  # what a strategy picks first


def simulated(seed: int, leave: bool) -> tuple[list[bool], float]:
    """Four rounds of two picks and two audits; whether each audited example that counts is hard, and the share left.

    The strategy takes the hard ones in order. With `leave`, an audited one that it comes to is marked as picked.
    """
    picked: set[str] = set()
    audited: list[str] = []
    for _ in range(4):
        audited += next_audit([key for key in KEYS if key not in picked and key not in audited], 2, seed)
        fresh = [key for key in KEYS if key not in picked and key not in audited][:2]
        reached = KEYS[: KEYS.index(fresh[-1]) + 1] if leave else ()
        picked |= {*fresh, *(key for key in reached if key in audited)}
    counted = [key in HARD for key in audited if key not in picked]
    left = [key in HARD for key in KEYS if key not in picked]
    return counted, sum(left) / len(left)


@pytest.mark.parametrize(("leave", "unbiased"), [(True, True), (False, False)])
def test_what_counts_is_a_uniform_sample_of_what_is_left(leave: bool, unbiased: bool) -> None:
    runs = [simulated(seed, leave) for seed in range(3000)]
    measured = sum(sum(counted) / len(counted) for counted, _ in runs if counted) / len(runs)
    true = sum(share for counted, share in runs if counted) / len(runs)
    assert (abs(measured - true) < 0.012) is unbiased
    if not unbiased:
        assert measured > true + 0.05  # hard ones pile up in an audit that never lets go


def test_the_audit_is_spread_and_picks_keep_their_order() -> None:
    lines = mix_audit(KEYS[:20], KEYS[20:25], seed=0)
    assert [line.key for line in lines if line.purpose == "pick"] == KEYS[:20]
    places = [place for place, line in enumerate(lines) if line.purpose == "audit"]
    assert [place // 5 for place in places] == pytest.approx([0, 1, 2, 3, 4], abs=1)
    assert mix_audit([], KEYS[:2], seed=0)[0].purpose == "audit"
    assert mix_audit(KEYS[:2], [], seed=0) == mix_audit(KEYS[:2], [], seed=1)


@pytest.mark.parametrize(
    ("n", "audit", "asked", "audited", "expected"),
    [
        (100, 0.15, 0, 0, (85, 15)),
        (100, 0.15, 200, 30, (85, 15)),
        (20, 0.15, 200, 0, (10, 10)),  # began late: catches up with half a batch
        (100, 0.0, 50, 0, (100, 0)),
        (100, 1.0, 0, 0, (0, 100)),
        (20, 0.15, 100, 40, (20, 0)),  # ahead
    ],
)
def test_shares(n: int, audit: float, asked: int, audited: int, expected: tuple[int, int]) -> None:
    assert split_batch(n, audit, asked, audited) == expected


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A project in which Ann answered 60 of 120 examples, six of them wrongly, and a model learned from them."""
    folder = colored_folder(tmp_path / "photos", 120)
    session = Session.open(folder, answers=COLORS, encoder="pixels", overlap=0.4, batch=30, audit=0.3)
    session.train()
    for place in range(60):
        [question] = session.ask(1, "ann")
        true = COLORS.index(color_in(question.name))
        session.tell(question.key, COLORS[(true + (place % 10 == 3)) % 3], "ann")
    session.train()
    return session


def wrong_picks(session: Session) -> set[str]:
    answers, by = session.snapshot().answers, purposes(session)
    names = session.classes()
    return {one.key for one in answers if names[one.value] != color_in(one.name) and by[one.key] == "pick"}  # type: ignore[index]


def test_a_doubtful_answer_is_asked_again_and_one_of_the_audit_never(session: Session) -> None:
    by = purposes(session)
    by_chance = {key for key in by if session.index.copies(key) > 1}
    steered = set(session.store.find_keys(examples.c.copies > 1)) - by_chance
    assert steered
    assert steered <= wrong_picks(session)
    assert {by[key] for key in steered} == {"pick"}
    asked = {question.key for question in session.ask(60, "bob")}
    assert steered <= asked


def test_the_share_of_wrong_answers_is_measured_on_the_random_half(session: Session) -> None:
    for question in session.ask(40, "bob"):
        session.tell(question.key, color_in(question.name), "bob")
    differed, twice = queue.count_disagreements(session)
    with_two = {one.key for one in session.snapshot().answers if one.person == "bob"}
    assert twice < len(with_two)
    assert differed <= len(wrong_picks(session))


def test_numbers_and_a_full_overlap_are_asked_at_random_alone() -> None:
    assert queue.random_share(ANSWER_TYPES["one"], 0.2) == 0.1
    assert queue.random_share(ANSWER_TYPES["one"], 1.0) == 1.0
    assert queue.random_share(ANSWER_TYPES["number"], 0.2) == 0.2
