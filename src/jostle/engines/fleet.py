"""Workers on a cluster as one holder of shards: whatever dies is replaced by what is left, and picks stay the same.

A worker's rows follow from its portions, and a shard's state from its rows and from what all shards were told. So a
dead worker's portions are scored again by the others, and what was told is told again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from jostle.engines.portions import Candidates, Span
from jostle.engines.waiting import EngineError, cause_of, got, ready
from jostle.selectors.shards import LASTING

TRIES = 3  # workers that may die over one portion

Advance = Callable[[int], None]


@dataclass
class Home:
    """A shard of a worker."""

    worker: Any
    number: int
    spans: list[Span]


@dataclass
class Fleet:
    """All shards, wherever they are; `ask` and `tell` are what selectors know of them."""

    ray: Any
    workers: list[Any]
    candidates: Candidates
    patience: float
    again: Callable[[], Any]
    """Starts a worker in place of one that died."""
    history: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    homes: list[Home] = field(default_factory=list)
    deaths: dict[Span, int] = field(default_factory=dict)
    told: list[Any] = field(default_factory=list)
    """News that are on their way; a worker hears them before the next question."""
    settled: int = 0
    scored: int = 0
    """Portions that were scored, not read from beside."""

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def count(self) -> int:
        """How many shards there are."""
        return len(self.homes)

    def centers(self) -> Any:
        """Rows of the labelled set, made by one worker for all; by another where it dies."""
        first = self.candidates.smallest
        while True:
            worker = self.workers[0]
            ref = worker.centers.remote(first)
            try:
                return got(self.ray, ref, self.patience, "rows of the labelled set")
            except self.ray.exceptions.RayError as error:
                self.bury(worker, [first.span], error)

    def score(self, spans: Iterable[Span], advance: Advance) -> None:
        """Have all portions scored, by whoever is free, and make shards of what each worker has."""
        todo, made = deque(spans), dict[Any, list[Span]]()
        busy: dict[Any, tuple[Any, Span]] = {}
        idle = deque(self.workers)
        while todo or busy:
            while todo and idle:
                worker, span = idle.popleft(), todo.popleft()
                busy[worker.score.remote(self.candidates.portion(span))] = worker, span
            ref, (worker, span) = next(
                ready(self.ray, busy, self.patience, f"{len(busy)} portions to be scored")
            )
            del busy[ref]
            try:
                self.scored += bool(self.ray.get(ref))
            except self.ray.exceptions.RayTaskError as error:
                raise cause_of(error) from None
            except self.ray.exceptions.RayError as error:
                lost = [span, *made.pop(worker, [])]
                idle.extend(self.bury(worker, lost, error))
                todo.extendleft(lost)
                advance(-sum(stop - start for start, stop in lost[1:]))
                continue
            made.setdefault(worker, []).append(span)
            idle.append(worker)
            advance(span.stop - span.start)
        self.settle(made, advance)

    def settle(self, made: dict[Any, list[Span]], advance: Advance) -> None:
        """A shard for each worker that scored something, which knows all that was told so far."""
        news, lost = self.ray.put(self.history), list[Span]()
        refs = {}
        for worker, spans in made.items():
            self.settled += 1
            refs[worker.settle.remote(self.settled, news)] = Home(worker, self.settled, spans)
        rounds = sum(news in LASTING for news, _ in self.history)  # of a race, which its examples run again
        limit = self.patience * (1 + rounds * max(map(len, made.values()), default=0))
        for ref, home in ready(self.ray, refs, limit, "shards to be made"):
            try:
                got(self.ray, ref, limit, "a shard to be made")
                self.homes.append(home)
            except self.ray.exceptions.RayError as error:
                self.bury(home.worker, home.spans, error)
                lost += home.spans
        if lost:
            advance(-sum(stop - start for start, stop in lost))
            self.score(lost, advance)

    def bury(self, worker: Any, spans: list[Span], error: Exception) -> list[Any]:
        """Do without a dead worker; if it was the last, there is a new one. Too many deaths over a portion end it."""
        for span in spans[:1]:  # the one it was at
            self.deaths[span] = self.deaths.get(span, 0) + 1
            if self.deaths[span] >= TRIES:
                raise EngineError(
                    f"{TRIES} workers died over the examples at places {span.start} to {span.stop - 1}: {why(error)}"
                )
        self.workers[:] = [each for each in self.workers if each is not worker]
        if self.workers:
            return []
        self.workers.append(self.again())
        return list(self.workers)

    def ask(self, question: str, *about: Any) -> list[Any]:
        """What all shards answer, in any order; shards that are lost are made again and asked then."""
        answers, waiting = list[Any](), list(self.homes)
        sent = self.ray.put(about)
        while waiting:
            known = list(self.homes)
            found, lost = self.heard(question, sent, waiting)
            answers += found
            if not lost:
                return answers
            self.score(lost, lambda steps: None)
            waiting = [home for home in self.homes if not any(home is old for old in known)]
        return answers

    def tell(self, news: str, *about: Any) -> None:
        """Tell all shards, and those that are made later too; what goes wrong shows when they are asked next."""
        if news == "begin":
            self.history = [told for told in self.history if told[0] in LASTING]
        sent = self.ray.put(about)
        self.history.append((news, about))
        self.told += [home.worker.answer.remote(home.number, news, sent) for home in self.homes]

    def heard(self, question: str, sent: Any, homes: list[Home]) -> tuple[list[Any], list[Span]]:
        """Answers of some shards, and the portions of those that are lost; a dead worker's answers do not count."""
        refs = {home.worker.answer.remote(home.number, question, sent): home for home in homes}
        answers, dead = list[tuple[Home, Any]](), list[Any]()
        doing = f"shards to answer ({question})"
        self.hear_out(doing)
        for ref, home in ready(self.ray, refs, self.patience, doing):
            try:
                answers.append((home, got(self.ray, ref, self.patience, doing)))
            except self.ray.exceptions.RayError as error:
                if home.worker not in dead:
                    dead.append(home.worker)
                    self.bury(home.worker, home.spans, error)
        lost = [span for home in self.homes if home.worker in dead for span in home.spans]
        self.homes = [home for home in self.homes if home.worker not in dead]
        return [answer for home, answer in answers if home.worker not in dead], lost

    def hear_out(self, doing: str) -> None:
        """Raise what went wrong with news, which comes before the answer to a question; a death shows in that."""
        told, self.told = self.told, []
        for ref in told:
            with suppress(self.ray.exceptions.RayError):
                got(self.ray, ref, self.patience, doing)


def why(error: Exception) -> str:
    """What Ray says of a death, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    memory = next((line for line in lines if "memory" in line.lower()), None)
    return memory or (lines[0] if lines else type(error).__name__)
