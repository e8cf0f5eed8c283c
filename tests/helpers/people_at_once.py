"""Many people on one project at once: every call of the store in random order, from many threads."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select, update

from jostle.labeling.store import QueueEntry, Store
from jostle.labeling.store.edits import ClassBook
from jostle.labeling.store.schema import BULK, class_names, classes, events, examples, standing

KEYS = [f"{number:032x}" for number in range(60)]


@dataclass
class Calls:
    """Results of all calls."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    undone: Counter[str] = field(default_factory=Counter)
    acknowledged: set[str] = field(default_factory=set)


def prepare(store: Store) -> None:
    """Sixty examples, half of which two people answer, and a ranking of them."""
    with store.write_transaction() as tx:
        store.add_examples(tx, [(key, key, 1 + place % 2) for place, key in enumerate(KEYS)])
    store.save_settings(overlap=0.5)
    book = ClassBook(store)
    for name in ("a", "b", "c", "d", "e"):
        book.add(name)
    store.begin_round([QueueEntry(key, "pick") for key in KEYS], {})


def play(url: str, people: int, calls: int, seed: int) -> Calls:
    """Let every person make so many calls from two threads; return what came of them."""
    store = Store(url)
    prepare(store)
    done, lock = Calls(), threading.Lock()
    start = threading.Barrier(2 * people)

    def live(person: str, number: int) -> None:
        draw = random.Random(f"{seed} {person} {number}")
        start.wait()
        for _ in range(calls // 2):
            name, call = draw.choice(ACTIONS)
            try:
                found = call(store, person, draw)
            except ValueError:
                found = None  # such as two classes that are one by now
            except Exception as error:
                with lock:
                    done.failures.append(f"{name}: {type(error).__name__}: {error}")
                continue
            with lock:
                done.counts[name] += 1
                done.undone[person] += name == "undo" and found is not None
                if name == "record" and found is not None:
                    done.acknowledged.add(found.id)

    threads = [threading.Thread(target=live, args=(f"p{i // 2}", i)) for i in range(2 * people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(store, done)
    store.close()
    return done


def check(store: Store, done: Calls) -> None:
    """Nothing is lost, doubled or left in a circle."""
    with store.read_transaction() as tx:
        ids = list(tx.execute(select(events.c.id)).scalars())
        by = (
            select(events.c.person, func.count())
            .where(events.c.act == "withdrawal")
            .group_by(events.c.person)
        )
        withdrawn = dict(tx.execute(by).all())
        latest = tx.execute(select(standing.c.seq, standing.c.key, standing.c.person)).all()
        known = {row.seq: (row.key, row.person) for row in tx.execute(select(events))}
        names = set(tx.execute(select(class_names.c.name)).scalars())
        merged = list(tx.execute(select(classes.c.merged_into)).scalars())
    assert len(set(ids)) == len(ids)
    assert done.acknowledged <= set(ids), "an acknowledged answer is lost"
    assert withdrawn == {person: n for person, n in done.undone.items() if n}, "an undo is lost or doubled"
    assert all(known[row.seq] == (row.key, row.person) for row in latest)
    current = ClassBook(store).classes()
    assert len(current.names) == merged.count(None) >= 1
    assert names == set(current.numbers)


def _record(store: Store, person: str, draw: random.Random) -> Any:
    held = store.claim(person, 3)
    key = draw.choice(held or KEYS)
    return store.record(
        key, person, draw.choice(["answer", "correction", "skip"]), draw.randrange(5), seconds=1.0
    )


def _index(store: Store, person: str, draw: random.Random) -> None:
    with store.write_transaction(BULK) as tx:
        for key in draw.sample(KEYS, 5):
            tx.execute(update(examples).where(examples.c.key == key).values(here=bool(draw.getrandbits(2))))


def _merge(store: Store, person: str, draw: random.Random) -> None:
    book = ClassBook(store)
    names = sorted(book.classes().names.values())
    if len(names) > 3:
        book.merge(*draw.sample(names, 2))
    else:
        book.add(f"class {draw.randrange(10**6)}")


ACTIONS: list[tuple[str, Callable[[Store, str, random.Random], Any]]] = [
    *[("record", _record)] * 6,
    *[("undo", lambda store, person, draw: store.undo(person))] * 3,
    *[("claim", lambda store, person, draw: store.claim(person, draw.randint(1, 6)))] * 4,
    ("release", lambda store, person, draw: store.release(person)),
    ("merge", _merge),
    ("index", _index),
    ("wanted", lambda store, person, draw: store.mark_wanted(draw.sample(KEYS, 8))),
    (
        "import",
        lambda store, person, draw: store.import_answers(
            "import", [(key, 1, f"import-{draw.random()}") for key in draw.sample(KEYS, 4)]
        ),
    ),
    (
        "extend",
        lambda store, person, draw: store.extend_queue(
            [QueueEntry(key, "pick") for key in draw.sample(KEYS, 3)], store.current_round()
        ),
    ),
]
