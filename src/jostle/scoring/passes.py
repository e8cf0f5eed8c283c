"""How many examples went through a model: what a strategy costs, whatever the machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Passes"]


@dataclass(frozen=True)
class Passes:
    """What a race of jolts took: examples times forward passes, and the chance that a pick is another."""

    made: int
    """Forward passes of single examples that were made, the clean ones included."""
    plain: int
    """Those that it takes without a race: (K + 1) n."""
    risk: float
    """The chance that an example that was left out could have been picked, added up over all of these."""

    @property
    def saved(self) -> int:
        """Those that were not made."""
        return self.plain - self.made

    @property
    def confidence(self) -> float:
        """The chance that the picks are those of all jolts, at least."""
        return 1 - self.risk

    def __str__(self) -> str:
        share = f"{self.saved:,} of {self.plain:,} passes were saved ({self.saved / self.plain:.0%})"
        return f"{share}; the picks are those of all jolts with a chance of at least {self.confidence:.4%}"


@dataclass
class Tally:
    """Examples that went through a network forwards; one jolt, one dropout mask or one member of a committee each."""

    examples: int = 0


_tally: ContextVar[Tally | None] = ContextVar("tally", default=None)


@contextmanager
def tallied() -> Iterator[Tally]:
    """Count the examples that go through networks while this lasts."""
    tally = Tally()
    token = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(token)


def note(examples: int) -> None:
    """These went through."""
    tally = _tally.get()
    if tally is not None:
        tally.examples += examples
