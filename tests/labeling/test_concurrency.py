"""Many people at once, on both databases: no deadlock, no lost undo, no circle of classes."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from people_at_once import KEYS, play, prepare
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from jostle.labeling.store import Store
from jostle.labeling.store.edits import ClassBook
from jostle.labeling.store.schema import MAX_ATTEMPTS, classes, events, retry_conflicts

CALLS = int(os.environ.get("JOSTLE_CALLS", "300"))  # `make soak` makes 10,000


def test_ten_people_deadlock_nowhere_and_lose_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    retries: list[float] = []
    monkeypatch.setattr("jostle.labeling.store.schema.time", SimpleNamespace(sleep=retries.append))
    done = play(url, people=10, calls=CALLS // 10, seed=CALLS)
    assert done.failures == []
    assert retries == []
    assert sum(done.counts.values()) == CALLS // 10 // 2 * 20


def test_undos_at_once_each_take_one_answer_back(url: str) -> None:
    store = Store(url)
    prepare(store)
    for key in KEYS[:20]:
        store.record(key, "ann", "answer", 1)
    start = threading.Barrier(20)

    def undo(_: int) -> str:
        start.wait()
        return store.undo("ann").key

    with ThreadPoolExecutor(20) as pool:
        assert sorted(pool.map(undo, range(20))) == KEYS[:20]
    assert store.column(select(events.c.act)).count("withdrawal") == 20
    store.close()


def test_opposite_merges_at_once_leave_one_class(url: str) -> None:
    store = Store(url)
    prepare(store)
    for first, second in (("a", "b"), ("c", "d")):
        start = threading.Barrier(2)

        def merge(pair: tuple[str, str], start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                ClassBook(store).merge(*pair)
            except ValueError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(merge, [(first, second), (second, first)])) == [False, True]
    assert len(ClassBook(store).classes().names) == 3
    store.close()


def test_a_conflict_is_tried_again_and_given_up_in_the_end() -> None:
    class DeadlockError(Exception):
        sqlstate = "40P01"

    calls = []

    @retry_conflicts
    def fail(times: int) -> str:
        calls.append(times)
        if len(calls) <= times:
            raise OperationalError("select", {}, DeadlockError())
        return "done"

    assert fail(3) == "done"
    calls.clear()
    with pytest.raises(OperationalError):
        fail(99)
    assert len(calls) == MAX_ATTEMPTS


def test_a_circle_of_classes_is_opened_as_its_first(url: str) -> None:
    store = Store(url)
    prepare(store)
    with store.write_transaction() as tx:
        for number, into in ((0, 1), (1, 2), (2, 1), (4, 4)):
            tx.execute(update(classes).where(classes.c.number == number).values(merged_into=into))
    found = ClassBook(store).classes()
    assert dict(found.names) == {1: "b", 3: "d", 4: "e"}
    assert dict(found.merged) == {0: 1, 1: 1, 2: 1, 3: 3, 4: 4}
    assert found.number("c") == 1
    store.close()
