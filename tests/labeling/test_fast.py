"""People do not wait, and the server stays small: the small form of `python -m benchmarks.labeling`."""

import socket
from pathlib import Path

import pytest
from benchmarks.labeling import pictures, resident
from sqlalchemy import event
from tools.serving import Person, Server

from jostle.labeling.sources.contents import digest
from jostle.labeling.store import QueueEntry, Store
from jostle.utils.sockets import listener

MEMORY = 500  # MB, without the encoder
GROWTH = 1.5  # how much more an answer may cost among twenty times as many examples

needs_proc = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="memory is read from /proc")


@needs_proc
def test_a_folder_is_asked_about_before_it_is_read_by_a_server_without_torch(tmp_path: Path) -> None:
    pictures(tmp_path / "photos", 200)
    with Server([str(tmp_path / "photos"), "--classes", "a,b"], tmp_path / "photos.labels") as server:
        somebody = Person("first", server.port)
        shown = somebody.questions(5)
        assert len(shown) == 5
        assert somebody.call("GET", shown[0]["content"]["url"])[0] == 200
        assert resident(server.process.pid) < MEMORY
        assert "libtorch" not in Path(f"/proc/{server.process.pid}/maps").read_text()


def test_an_answer_costs_little_however_many_examples_there_are(tmp_path: Path) -> None:
    few, many = (steps_of_answers(tmp_path / f"{size}.db", size) for size in (500, 10_000))
    assert 0 < many < GROWTH * few


def steps_of_answers(path: Path, size: int) -> int:
    """Steps of the database, by fives, while five people give a hundred answers to this many examples."""
    store, steps = Store(str(path)), 0
    keys = [digest(str(number).encode()) for number in range(size)]
    with store.write_transaction() as tx:
        store.add_examples(tx, [(key, key, 1) for key in keys])
    store.begin_round([QueueEntry(key, "pick") for key in keys], {})

    def count() -> None:
        nonlocal steps
        steps += 1

    event.listen(store.engine, "checkout", lambda connection, *_: connection.set_progress_handler(count, 5))
    for turn in range(100):
        person = f"p{turn % 5}"
        store.record(store.claim(person, 5)[0], person, "answer", 0)
    store.close()
    return steps


def test_a_reply_does_not_wait_until_its_head_is_confirmed() -> None:
    with listener("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        taken, _ = listening.accept()
        with taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
