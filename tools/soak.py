"""Many people answer over loopback while the server is killed again and again.

`python -m tools.soak` is the full one: 100 people, 20,000 answers, 20 times SIGKILL. Every answer that was
acknowledged must be on disk once, as it was given, and nothing else may be.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sqlite3
import tempfile
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.serving import Person, Server


@dataclass
class Record:
    """What the people remember."""

    sent: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # id -> person, key, answer
    acknowledged: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: list[str] = field(default_factory=list)


def table(path: Path, rows: int) -> None:
    """Rows of numbers, of which some are large."""
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "size", "age"])
        writer.writerows([i, round(draw.random(), 6), round(draw.random(), 6)] for i in range(rows))


def answers(person: Person, record: Record, goal: int) -> None:
    """Answer until enough are acknowledged; an answer is sent until it is."""
    questions: list[dict[str, Any]] = []
    while len(record.acknowledged) < goal:
        try:
            questions = questions or person.questions(3)
        except ConnectionError:
            time.sleep(0.1)
            continue
        if not questions:
            return
        question = questions.pop(0)
        size = float(dict(question["content"]["fields"])["size"])
        give(person, record, question["key"], "large" if size > 0.5 else "small")


def give(person: Person, record: Record, key: str, answer: str) -> None:
    """One answer, sent again and again under one id."""
    id = uuid.uuid4().hex
    with record.lock:
        record.sent[id] = (person.name, key, answer)
    while True:
        try:
            found = person.answer(key, answer, seconds=0.5, id=id)
        except ConnectionError:
            time.sleep(0.1)
            continue
        with record.lock:
            if found["kept"] == [id]:
                record.acknowledged.add(id)
            else:
                record.failures.append(str(found))
        return


def on_disk(database: Path) -> list[tuple[str, str, str, str]]:
    """The answers in the file, read without any code of ours: id, person, key, class."""
    with sqlite3.connect(database) as reader:
        classes = dict(reader.execute("select number, name from classes"))
        acts = reader.execute("select id, person, key, value from acts where act = 'answer'").fetchall()
    reader.close()
    return [(id, person, key, classes[json.loads(value)]) for id, person, key, value in acts]


def soak(folder: Path, people: int, goal: int, kills: int, seed: int = 0) -> dict[str, Any]:
    """Run it, check it, and say what happened."""
    table(folder / "rows.csv", goal + 10 * people)
    record = Record()
    began = time.monotonic()
    server = Server([str(folder / "rows.csv"), "--classes", "small,large"], folder / "project")
    with server:
        crowd = [Person(f"person-{i}", server.port) for i in range(people)]
        threads = [threading.Thread(target=answers, args=(each, record, goal)) for each in crowd]
        for thread in threads:
            thread.start()
        draw = random.Random(seed)
        for kill in range(kills):
            wait_for(record, goal * (kill + 1) // (kills + 1), threads)
            time.sleep(draw.random() * 0.05)
            server.kill()
            server.start()
        for thread in threads:
            thread.join()
    return checked(record, on_disk(folder / "project" / "labels.db")) | {
        "people": people,
        "kills": kills,
        "seconds": round(time.monotonic() - began, 1),
    }


def wait_for(record: Record, goal: int, threads: list[threading.Thread]) -> None:
    """Until so many answers are acknowledged."""
    while len(record.acknowledged) < goal and any(thread.is_alive() for thread in threads):
        time.sleep(0.01)


def checked(record: Record, found: list[tuple[str, str, str, str]]) -> dict[str, Any]:
    """Each acknowledged answer is there once and as it was given; nothing is there that nobody gave."""
    assert not record.failures, record.failures[:3]
    there = {id: (person, key, answer) for id, person, key, answer in found}
    assert len(there) == len(found), "an answer is there twice"
    lost = record.acknowledged - set(there)
    assert not lost, f"{len(lost)} acknowledged answers are not there"
    invented = [id for id in there if record.sent.get(id) != there[id]]
    assert not invented, f"{len(invented)} answers that nobody gave"
    twice = [key for key, n in Counter(key for _, key, _ in there.values()).items() if n > 1]
    return {"acknowledged": len(record.acknowledged), "on disk": len(found), "asked of two": len(twice)}


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--people", type=int, default=100)
    words.add_argument("--answers", type=int, default=20_000)
    words.add_argument("--kills", type=int, default=20)
    chosen = words.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(soak(Path(place), chosen.people, chosen.answers, chosen.kills)))
