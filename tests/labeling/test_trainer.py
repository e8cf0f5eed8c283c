"""Learning in the background: a process that is watched, says what goes wrong, and outlives nobody."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from labeling_data import COLORS, colored_folder, tickets

from jostle.labeling import Session
from jostle.labeling.records import read_status
from jostle.labeling.training import Worker, is_round_due

SERVER = """
import sys, time
from jostle.labeling import Session
from jostle.labeling.training import Trainer

if __name__ == "__main__":
    session = Session.open(
        sys.argv[1], text="message", hide=["topic"], answers=["billing", "bug", "praise"], batch=10, encoder="words"
    )
    trainer = Trainer(session)
    trainer.start()
    told = None
    while True:
        if trainer.pid and trainer.pid != told:
            told = trainer.pid
            print(told, flush=True)
        time.sleep(0.05)
"""


def eventually(what: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True


def test_rounds_come_by_themselves_a_crash_is_mended_and_nothing_outlives_its_parent(tmp_path: Path) -> None:
    data = tickets(tmp_path / "t.csv", 60)
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    server = subprocess.Popen([sys.executable, script, data], stdout=subprocess.PIPE, text=True)
    first = int(server.stdout.readline())
    session = Session.open(
        data, text="message", hide=["topic"], answers=["billing", "bug", "praise"], batch=10
    )
    eventually(lambda: session.store.current_round() >= 1)
    for place, question in enumerate(session.ask(12)):
        session.tell(question.key, ("billing", "bug")[place % 2])
    eventually(lambda: session.store.last_model() >= 1)
    os.kill(first, signal.SIGKILL)
    second = int(server.stdout.readline())
    assert "killed by signal 9" in read_status(session.store).problem
    assert second != first
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    eventually(lambda: not lives(second))
    server.stdout.close()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.open(colored_folder(tmp_path / "photos", 40), answers=COLORS, batch=10, encoder="pixels")


def test_a_round_is_due_after_a_batch_or_another_class(session: Session) -> None:
    assert is_round_due(session)
    session.train()
    assert not is_round_due(session)
    for place, question in enumerate(session.ask(10)):
        assert not is_round_due(session)
        session.tell(question.key, COLORS[place % 3])
    assert is_round_due(session)
    session.train()
    assert not is_round_due(session)
    session.rename_class("red", "scarlet")
    assert not is_round_due(session)  # nothing new to learn
    session.tell(session.ask(1)[0].key, "scarlet")
    assert is_round_due(session)


def test_an_error_is_said_and_not_tried_again_until_there_is_news(tmp_path: Path, session: Session) -> None:
    (tmp_path / "own.py").write_text("def build():\n    raise RuntimeError('no such network')\n")
    folder = tmp_path / "photos"
    broken = Session.open(folder, project=session.project, batch=10, model=f"{tmp_path / 'own.py'}:build")
    worker = Worker(broken)
    worker.round()
    told = read_status(broken.store)
    assert "RuntimeError: no such network" in told.problem
    assert "own.py, line 2" in told.problem
    assert worker.failed_at == broken.store.last_event()
    assert broken.ask(3)  # labeling goes on


def test_what_is_being_done_is_said(session: Session) -> None:
    told: list[tuple[str, int, int]] = []
    session.train(lambda *words: told.append(words))
    assert [words[0] for words in told][:1] == ["reading"]
    assert {words[0] for words in told} == {"reading", "encoding", "ranking"}
    worker = Worker(session)
    worker.report("encoding", 0, 40)
    assert (read_status(session.store).doing, read_status(session.store).of) == ("encoding", 40)
    worker.round()
    assert read_status(session.store).doing == ""
