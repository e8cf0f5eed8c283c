"""People do not wait, and the server stays small: the small form of `python -m benchmarks.labeling`."""

import socket
from pathlib import Path

import pytest
from benchmarks.labeling import computed, pictures, resident, rows
from tools.serving import Person, Server

from jostle.utils.sockets import listener

MEMORY = 500  # MB, without the encoder
GROWTH = 4  # how much more an answer may cost among twenty times as many examples

needs_proc = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="memory is read from /proc")


@needs_proc
def test_a_folder_is_asked_about_before_it_is_read_by_a_server_without_torch(tmp_path: Path) -> None:
    pictures(tmp_path / "photos", 200)
    with Server([str(tmp_path / "photos"), "--classes", "a,b"], tmp_path / "photos.labels") as server:
        somebody = Person("first", server.port)
        shown = somebody.questions(5)
        assert len(shown) == 5
        assert somebody.call("GET", shown[0]["content"]["url"])[0] == 200
        assert server.process is not None
        assert resident(server.process.pid) < MEMORY
        assert "libtorch" not in Path(f"/proc/{server.process.pid}/maps").read_text()


@needs_proc
def test_an_answer_costs_little_however_many_examples_there_are(tmp_path: Path) -> None:
    few, many = (computing_of_answers(tmp_path / str(size), size) for size in (500, 10_000))
    assert many < GROWTH * few


def computing_of_answers(folder: Path, size: int) -> float:
    """Seconds that the server computes while five people give a hundred answers to this many rows."""
    folder.mkdir()
    rows(folder / "rows.csv", size)
    with Server([str(folder / "rows.csv"), "--classes", "a,b"], folder / "project") as server:
        assert server.process is not None
        people = [Person(f"p{number}", server.port) for number in range(5)]
        hands = {each.name: each.questions(5) for each in people}
        before = computed(server.process.pid)
        for turn in range(100):
            each = people[turn % 5]
            key = hands[each.name].pop(0)["key"]
            have = [question["key"] for question in hands[each.name]]
            each.answer(key, "a")
            hands[each.name] += each.questions(5, have)
        assert resident(server.process.pid) < MEMORY
        return computed(server.process.pid) - before


def test_a_reply_does_not_wait_until_its_head_is_confirmed() -> None:
    with listener("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        taken, _ = listening.accept()
        with taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
