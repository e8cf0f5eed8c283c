"""Learning in the background: one process of its own reads, encodes, trains and ranks, while nobody waits.

It is spawned, talks through the project alone (the store, the cache, the rounds' folders), and ends with the process
that started it, however that ends. A crash is reported and the process started again.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from jostle.labelling.status import report_status, status
from jostle.plumbing.user_files import line_in_own_file

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from jostle.labelling.session import Session

LOOK = 0.5  # seconds between two looks at the store
REFRESH = 30.0  # seconds between two looks at the data while nothing is answered
SAY = 1.0  # seconds between two words on a long work
PATIENCE = (1.0, 5.0, 30.0, 120.0)  # seconds before it is started again, after so many crashes in a row
STEADY = 60.0  # seconds after which a crash is not in a row
LOG = "trainer.log"


@dataclass
class Trainer:
    """The background process of a session, watched."""

    session: Session
    starts: int = 0
    _process: SpawnProcess | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _watch: threading.Thread | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self._stopping.clear()
        self._watch = threading.Thread(target=self._keep, name="jostle-trainer", daemon=True)
        self._watch.start()

    def stop(self) -> None:
        """End the process; what it was doing is done again next time."""
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
        if self._watch is not None:
            self._watch.join()

    @property
    def pid(self) -> int | None:
        """The process's number while it runs."""
        return self._process.pid if self._process is not None and self._process.is_alive() else None

    def _keep(self) -> None:
        crashes = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            self._process = multiprocessing.get_context("spawn").Process(
                target=work, args=(self.session.opening,), name="jostle-trainer", daemon=True
            )
            self._process.start()
            self.starts += 1
            self._process.join()
            if self._stopping.is_set():
                return
            crashes = 0 if time.monotonic() - began > STEADY else crashes + 1
            pause = PATIENCE[min(crashes, len(PATIENCE)) - 1] if crashes else PATIENCE[0]
            report_status(
                self.session.store, problem=_ended(self._process.exitcode, self.session.project, pause)
            )
            self._stopping.wait(pause)


def _ended(code: int | None, project: Path, pause: float) -> str:
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
    return f"the training process {how}; it is started again in {pause:.0f} s (see {project / LOG})"


def work(opening: dict[str, Any]) -> None:
    """What the process does: rounds as they become due, until its parent is gone."""
    from jostle.labelling.session import Session

    os.nice(5)  # people come first
    session = Session.open(**opening)
    log = (session.project / LOG).open("a", buffering=1, encoding="utf-8")
    sys.stdout = sys.stderr = log
    with FileLock(session.project / ".trainer.lock"):  # one that outlived its parent may still be finishing
        Worker(session).run()


class Worker:
    """The loop inside the process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.said = 0.0
        self.failed_at = -1  # the last act when a round failed: it is tried again after the next
        self.refreshed = time.monotonic()

    def run(self) -> None:
        """For ever, or while the parent lives."""
        while self.alive(LOOK):
            if due(self.session) and self.session.store.last_act() != self.failed_at:
                self.round()
            elif time.monotonic() - self.refreshed > REFRESH:
                self.session.index.refresh()
                self.refreshed = time.monotonic()

    def alive(self, seconds: float) -> bool:
        """Whether the parent lives, after having waited for its end so long."""
        parent = multiprocessing.parent_process()
        return parent is None or not wait([parent.sentinel], seconds)

    def round(self) -> None:
        """One round; an error is reported and ends nothing."""
        try:
            self.session.train(self.tell)
            report_status(self.session.store, note=self.session.learner().note)
        except Exception as error:
            traceback.print_exc()
            where = f" ({place})" if (place := line_in_own_file(error)) else ""
            report_status(self.session.store, problem=f"{type(error).__name__}: {error}{where}")
            self.failed_at = self.session.store.last_act()
        self.refreshed = time.monotonic()

    def tell(self, doing: str, done: int, of: int) -> None:
        """Write down what is being done, not too often; and end if nobody is there for it."""
        if not self.alive(0):
            sys.exit(0)
        if time.monotonic() - self.said > SAY or not done:
            self.said = time.monotonic()
            report_status(self.session.store, doing, done, of, note=status(self.session.store).note)


def due(session: Session) -> bool:
    """Whether there is no ranking yet, or a batch of answers came since the last, or some and somebody wants one."""
    rounds = session.store.rounds()
    if not rounds:
        return True
    _, _, last = rounds[-1]
    news = session.store.answers_since(last.get("act", 0))
    wanted = (
        session.store.fact("round wanted", 0) > last.get("act", 0) or last.get("names") != session.classes()
    )
    return news >= session.settings.batch or (news > 0 and wanted)
