"""A process that is killed while it writes: what it said was on disk is there once, and nothing is invented."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter

from sqlalchemy import select

from jostle.labeling.sources.contents import digest
from jostle.labeling.store import QueueEntry, Store
from jostle.labeling.store.schema import events, standing

PEOPLE = """
import sys, threading
from jostle.labeling.store import Store
url, run = sys.argv[1:]
store, lock = Store(url), threading.Lock()

def work(person):
    while held := store.claim(person, 2):
        id = f"{person} {held[0]}"
        with lock:
            print("sends", id, flush=True)
        store.record(held[0], person, "answer", 1, id=id)
        store.record(held[0], person, "answer", 1, id=id)  # as a page does that did not hear the first time
        with lock:
            print("kept", id, flush=True)

threads = [threading.Thread(target=work, args=(f"p{i}",)) for i in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
KEYS = [digest(str(number).encode()) for number in range(2000)]
KILLS = 4


def test_killed_processes_lose_and_double_nothing(url: str) -> None:
    store = Store(url)
    with store.write_transaction() as tx:
        store.add_examples(tx, [(key, key, 1) for key in KEYS])
    store.begin_round([QueueEntry(key, "pick") for key in KEYS], {})
    draw = random.Random(0)
    sent: set[str] = set()
    kept: set[str] = set()
    for run in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", PEOPLE, url, str(run)], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert process.stdout is not None
        until = len(kept) + draw.randint(3, 25)
        for line in process.stdout:
            word, _, id = line.strip().partition(" ")
            (sent if word == "sends" else kept).add(id)
            if len(kept) >= until:
                os.kill(process.pid, signal.SIGKILL)
                break
        for line in process.stdout:  # what it said before it was gone
            word, _, id = line.strip().partition(" ")
            if line.endswith("\n"):
                (sent if word == "sends" else kept).add(id)
        assert process.wait() == -signal.SIGKILL
    with store.read_transaction() as tx:
        found = Counter(tx.execute(select(events.c.id)).scalars())
        stands = Counter(tx.execute(select(standing.c.key)).scalars())
    store.close()
    assert len(kept) >= 3 * KILLS
    assert kept <= found.keys() <= sent
    assert set(found.values()) == {1}
    assert set(stands.values()) == {1}  # and no example was answered by two people
