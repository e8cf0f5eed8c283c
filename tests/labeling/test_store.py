"""The store, on SQLite and on PostgreSQL alike: nothing lost, nothing doubled, nothing asked twice."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from jostle.labeling.sources.contents import digest
from jostle.labeling.store import LONGEST_LEASE, QueueEntry, Store
from jostle.labeling.store.schema import StoreError, events, examples, settings, standing

KEYS = [digest(str(number).encode()) for number in range(40)]


class Clock:
    """A time that stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    made = Store(url, clock)
    entered(made, KEYS)
    made.begin_round([QueueEntry(key, "pick") for key in KEYS], {})
    yield made
    made.close()


def entered(store: Store, keys: list[str], copies: int = 1) -> None:
    with store.write_transaction() as tx:
        store.add_examples(tx, [(key, f"name of {key[:4]}", copies) for key in keys])


def all_acts(store: Store) -> list[tuple[str, str, str]]:
    return list(
        map(tuple, store.rows(select(events.c.key, events.c.person, events.c.act).order_by(events.c.seq)))
    )


def stands(store: Store, key: str, person: str) -> tuple[str, str | None]:
    mine = standing.c.key == key, standing.c.person == person
    return tuple(*store.rows(select(standing.c.act, standing.c.value).where(*mine)))


def test_questions_come_by_rank_and_stay_in_hand_until_answered(store: Store) -> None:
    assert store.claim("ann", 3) == KEYS[:3]
    assert store.claim("ann", 3) == KEYS[:3]
    store.record(KEYS[1], "ann", "answer", 0)
    assert store.claim("ann", 3) == [KEYS[0], KEYS[2], KEYS[3]]
    assert store.claim("bob", 4) == KEYS[4:8]  # no two people get the same


def test_an_example_with_two_copies_goes_to_two_people_and_no_more(url: str, clock: Clock) -> None:
    store = Store(url, clock)
    entered(store, KEYS[:3], copies=2)
    store.begin_round([QueueEntry(key, "pick") for key in KEYS[:3]], {})
    store.save_settings(overlap=1.0)
    for person in ("ann", "bob"):
        assert set(store.claim(person, 3)) == set(KEYS[:3])
    assert store.claim("cleo", 3) == []
    store.record(KEYS[0], "ann", "answer", 0)
    assert store.claim("cleo", 3) == []
    assert store.claim("ann", 3) == [key for key in store.claim("ann", 3) if key != KEYS[0]]


def test_a_second_opinion_is_asked_for_after_the_ranking_has_changed(url: str, clock: Clock) -> None:
    store = Store(url, clock)
    entered(store, KEYS[:6], copies=2)
    store.save_settings(overlap=1.0)
    store.begin_round([QueueEntry(KEYS[0], "pick")], {})
    store.record(store.claim("ann", 1)[0], "ann", "answer", 0)
    store.begin_round([QueueEntry(key, "pick") for key in KEYS[1:6]], {})
    assert store.claim("bob", 1) == [KEYS[0]]


def test_a_lease_ends_and_is_renewed_by_asking(store: Store, clock: Clock) -> None:
    held = store.claim("ann", 2)
    clock.now += LONGEST_LEASE - 1
    assert store.claim("ann", 2) == held  # renewed
    clock.now += LONGEST_LEASE - 1
    assert not set(held) & set(store.claim("bob", 2))
    clock.now += 2
    assert store.claim("cleo", 2) == held  # ann is gone, bob is not


def test_a_lease_lasts_three_answers(store: Store, clock: Clock) -> None:
    for key in store.claim("ann", 3):
        store.record(key, "ann", "answer", 0, seconds=100)
    held = store.claim("ann", 1)
    clock.now += 299
    assert store.claim("bob", 1) != held
    clock.now += 2
    assert store.claim("cleo", 1) == held


def test_who_answers_keeps_what_else_is_open(store: Store, clock: Clock) -> None:
    held = store.claim("ann", 5)
    for key in held[:3]:  # 40 s each: the lease of the fifth would have ended during the fourth
        clock.now += 40
        store.record(key, "ann", "answer", 0, seconds=40)
    clock.now += 119
    assert not set(held) & set(store.claim("bob", 3))
    clock.now += 2
    assert store.claim("cleo", 2) == held[3:]


def test_an_answer_sent_twice_is_there_once(store: Store) -> None:
    first = store.record(KEYS[0], "ann", "answer", 1, id="made by the page")
    again = store.record(KEYS[0], "ann", "answer", 1, id="made by the page")
    assert again == first
    assert all_acts(store) == [(KEYS[0], "ann", "answer")]
    with pytest.raises(ValueError, match="taken by an answer to another question"):
        store.record(KEYS[1], "ann", "answer", 1, id="made by the page")


def test_later_answers_supersede_and_nothing_is_overwritten(store: Store) -> None:
    first = store.record(KEYS[0], "ann", "answer", 1)
    store.record(KEYS[0], "ann", "answer", 2)
    assert stands(store, KEYS[0], "ann") == ("answer", "2")
    rows = store.rows(select(events.c.value, events.c.supersedes).order_by(events.c.seq))
    assert [tuple(row) for row in rows] == [("1", None), ("2", first.seq)]


def test_undo_goes_back_step_by_step(store: Store) -> None:
    store.record(KEYS[0], "ann", "answer", 1)
    store.record(KEYS[1], "ann", "skip")
    store.record(KEYS[0], "ann", "correction", 2)
    store.record(KEYS[2], "bob", "answer", 3)
    undone = [store.undo("ann") for _ in range(4)]
    assert [done and done.key for done in undone] == [KEYS[0], KEYS[1], KEYS[0], None]
    assert stands(store, KEYS[0], "ann") == ("withdrawal", None)
    assert stands(store, KEYS[2], "bob") == ("answer", "3")
    assert [act for _, _, act in all_acts(store)].count("withdrawal") == 3  # added, nothing removed


def test_what_was_taken_back_is_asked_again_first(store: Store) -> None:
    for key in store.claim("ann", 3):
        store.record(key, "ann", "answer", 1)
    held = store.claim("ann", 2)
    undone = store.undo("ann")
    assert store.claim("ann", 3) == [undone.key, *held]


def test_a_skip_is_not_asked_of_the_same_person_again(store: Store) -> None:
    skipped = store.claim("ann", 1)[0]
    store.record(skipped, "ann", "skip")
    assert skipped not in store.claim("ann", 40)
    store.release("ann")
    assert store.claim("bob", 1) == [skipped]


def test_a_ranking_is_swapped_whole_and_purposes_are_kept(store: Store) -> None:
    first = store.claim("ann", 2)
    ranking = {KEYS[0]: "audit", KEYS[9]: "audit", KEYS[8]: "pick"}
    store.begin_round([QueueEntry(*line) for line in ranking.items()], {})
    assert store.claim("bob", 5) == [KEYS[9], KEYS[8]]  # KEYS[0] is a pick for ever
    assert store.claim("ann", 5) == first
    assert [store.purpose(KEYS[i]) for i in (0, 9, 8, 5)] == ["pick", "audit", "pick", None]


def test_what_is_not_here_is_not_asked(store: Store) -> None:
    with store.write_transaction() as tx:
        tx.execute(update(examples).where(examples.c.key == KEYS[0]).values(here=False))
    assert store.claim("ann", 1) == [KEYS[1]]


def test_many_at_once_get_different_questions_and_lose_no_answer(store: Store) -> None:
    given: list[str] = []
    lock = threading.Lock()

    def work(person: str) -> None:
        while held := store.claim(person, 2):
            store.record(held[0], person, "answer", 1, id=f"{person} {held[0]}")
            with lock:
                given.append(held[0])

    people = [threading.Thread(target=work, args=(f"p{i}",)) for i in range(8)]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join()
    assert Counter(given) == Counter(KEYS)
    assert Counter(key for key, _, _ in all_acts(store)) == Counter(KEYS)


def test_a_newer_database_is_refused_untouched(url: str) -> None:
    store = Store(url)
    with store.write_transaction() as tx:
        tx.execute(update(settings).where(settings.c.name == "schema").values(value="99"))
    store.close()
    with pytest.raises(StoreError, match=r"newer jostle .*version 99.*upgrade"):
        Store(url)


def test_a_failed_write_leaves_nothing(store: Store) -> None:
    with pytest.raises(RuntimeError, match="half way"), store.write_transaction() as tx:  # noqa: PT012
        tx.execute(insert(settings).values(name="half", value="1"))
        raise RuntimeError("half way")
    assert store.setting("half") is None


def test_sqlite_waits_for_other_processes_and_keeps_answers_through_power_cuts(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "labels.db"))
    with store.read_transaction() as tx:
        names = "journal_mode", "synchronous", "foreign_keys", "busy_timeout"
        *modes, waiting = [tx.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
    assert modes == ["wal", 2, 1]
    assert waiting >= 5000
