"""Training in the background: one process reads, encodes, learns, predicts, ranks, suggests, while nobody waits.

It is spawned, talks through the project alone (the store, the cache, the rounds' folders), and ends with the process
that started it, however that ends. A crash is reported and the process started again. This package is the only part of
labeling that imports torch, and only in that process.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from jostle.labeling.audit.other_models import is_first_ranking_due
from jostle.labeling.records import read_status, write_status
from jostle.labeling.training.example_map import MapBuilder, answer_lookups
from jostle.labeling.training.suggesters import SuggestionWorker, describe_error

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from jostle.labeling.session import Session

ENCODE_SECONDS = 20.0  # seconds that a round encodes before it learns from what it has
RESTART_SECONDS = (1.0, 5.0, 30.0, 120.0)  # before it is started again, after so many crashes in a row
LOG_FILE = "trainer.log"


class Trainer:
    """Background process of a session, started again when it ends."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._process: SpawnProcess | None = None
        self._stopping = threading.Event()
        self._watch: threading.Thread | None = None

    def start(self) -> None:
        """Start the process; returns at once."""
        self._stopping.clear()
        self._watch = threading.Thread(target=self._supervise, name="jostle-trainer", daemon=True)
        self._watch.start()

    def stop(self) -> None:
        """End the process; an unfinished round is run again next time."""
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
        if self._watch is not None:
            self._watch.join()

    @property
    def pid(self) -> int | None:
        """Id of the process while it runs."""
        return self._process.pid if self._process is not None and self._process.is_alive() else None

    def _supervise(self) -> None:
        crashes = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            self._process = multiprocessing.get_context("spawn").Process(
                target=run_worker, args=(self.session.open_args,), name="jostle-trainer", daemon=True
            )
            self._process.start()
            self._process.join()
            if self._stopping.is_set():
                return
            crashes = 1 if time.monotonic() - began > 60 else crashes + 1  # in a row: within a minute each
            pause, code = RESTART_SECONDS[min(crashes, len(RESTART_SECONDS)) - 1], self._process.exitcode or 0
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            log = self.session.project / LOG_FILE
            problem = f"the training process {how}; it is started again in {pause:.0f} s (see {log})"
            write_status(self.session.store, problem=problem)
            self._stopping.wait(pause)


def run_worker(opening: dict[str, Any]) -> None:
    """Run rounds as they become due, until the parent process ends."""
    from jostle.labeling.session import Session

    os.nice(5)  # people come first
    session = Session.open(**opening)
    log = (session.project / LOG_FILE).open("a", buffering=1, encoding="utf-8")
    sys.stdout = sys.stderr = log
    with FileLock(session.project / ".trainer.lock"):  # one that outlived its parent may still be finishing
        Worker(session).run()


class Worker:
    """Loop of the background process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.reported_at = 0.0
        self.failed_at = -1  # the last act when a round failed: it is tried again after the next
        self.refreshed = time.monotonic()
        self.map = MapBuilder(session)
        self.suggesting = SuggestionWorker(session)
        self.encoded = False  # whether everything is, as far as it was looked at
        self.encoding: tuple[float, int] | None = None  # when encoding began, and how many were encoded then

    def run(self) -> None:
        """Run until the parent process ends."""
        while self.is_parent_alive(0.5):
            self.answer_lookups()
            if self.is_round_due():
                self.round()
            elif self.map.is_due:
                self.improve_map()
            elif not self.encoded:
                self.encode()
            elif self.suggesting.is_due:
                self.work(self.suggesting.step)  # a user's function
            elif time.monotonic() - self.refreshed > 30:
                self.session.index.refresh()
                self.refreshed = time.monotonic()
                self.encoded = False
                self.map.check()

    def is_parent_alive(self, seconds: float) -> bool:
        """Wait up to some seconds for the end of the parent process; return whether it lives."""
        parent = multiprocessing.parent_process()
        return parent is None or not wait([parent.sentinel], seconds)

    def round(self) -> None:
        """Run one round; an error is reported, and the loop goes on."""
        from jostle.labeling.training.rounds import run_round

        try:
            run_round(self.session, self.report, ENCODE_SECONDS)
            write_status(self.session.store, note=self.session.learner().note)
        except Exception as error:
            self.fail(error)
            self.failed_at = self.session.store.last_event()
        self.refreshed = time.monotonic()
        self.encoded = False
        self.encoding = None
        self.map.check()

    def is_round_due(self) -> bool:
        """Return whether a round is due that has not just failed."""
        due = is_round_due(self.session) or is_first_ranking_due(self.session)
        return due and self.session.store.last_event() != self.failed_at

    def encode(self) -> None:
        """Encode until all is done or a round is due; at the end learn once from everything."""
        from jostle.labeling.training.rounds import encode_more

        try:
            self.encoded = encode_more(self.session, self.report, self.is_round_due)
        except Exception as error:
            self.fail(error)
            self.encoded = True  # tried again after the next round
            return
        self.encoding = None
        if self.encoded:
            write_status(self.session.store, note=self.session.learner().note)
            done = self.session.store.rounds()
            if done and done[-1][2].get("partial"):
                self.round()

    def fail(self, error: Exception) -> None:
        """Report an error to the page and the log."""
        traceback.print_exc()
        write_status(self.session.store, problem=describe_error(error))

    def answer_lookups(self) -> None:
        """Embed texts that somebody searches by meaning."""
        try:
            answer_lookups(self.session)
        except Exception:
            traceback.print_exc()  # the search says that nobody replied

    def improve_map(self) -> None:
        """Compute the map until it is done or a round is due."""
        try:
            self.work(self.map.step)
        except Exception:
            traceback.print_exc()  # labeling goes on without a map
            self.map.give_up()

    def work(self, step: Callable[[], bool]) -> None:
        """Take steps of a long work until nothing is left or a round is due."""
        while step() and self.is_parent_alive(0) and not self.is_round_due():
            self.answer_lookups()

    def report(self, doing: str, done: int, of: int) -> None:
        """Write the status, at most once a second; end if the parent process has ended."""
        if not self.is_parent_alive(0):
            sys.exit(0)
        if time.monotonic() - self.reported_at > 1 or not done:
            self.reported_at = time.monotonic()
            if doing == "encoding":
                self.answer_lookups()
            left = self.seconds_left(done, of) if doing == "encoding" else None
            note = read_status(self.session.store).note
            write_status(self.session.store, doing=doing, done=done, of=of, note=note, seconds_left=left)

    def seconds_left(self, done: int, of: int) -> float | None:
        """Return how long encoding will take, by its pace so far; None at its beginning."""
        now = time.monotonic()
        if self.encoding is None:
            self.encoding = now, done
        began, before = self.encoding
        return None if done <= before else (of - done) * (now - began) / (done - before)


def is_round_due(session: Session) -> bool:
    """Return whether there is no ranking yet, a batch of answers since, or some and a requested round."""
    rounds = session.store.rounds()
    if not rounds:
        return True
    last = rounds[-1][2]
    act = last.get("act", 0)
    learned, audited = session.store.answers_since(act)
    wanted = session.store.setting("round wanted", 0) > act or last.get("names") != session.classes()
    batch, share = session.settings.batch, session.settings.audit
    # random questions of a proof bring no new model: only their usual share of a batch counts
    full = learned + min(audited, round(share * batch)) >= batch
    return learned > 0 and (full or wanted)
