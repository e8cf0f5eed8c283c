"""A cycle of a run, and the line of a file that it is: JSON with a checksum of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import nan
from typing import Any

from pydantic import StrictInt, TypeAdapter, ValidationError

__all__ = ["CorruptLineError", "Cycle", "TornLineError"]

CHECKSUM = "checksum"  # the field of a line that guards all others; lines of jostle 0.1 have none
NEEDED = frozenset({"labelled", "metrics"})  # without these a line is no cycle
ABSENT = {
    "picked": [],
    "train_seconds": nan,
    "select_seconds": nan,
    "peak_memory_bytes": None,
    "passes": None,
}


class TornLineError(ValueError):
    """A line that was not written to its end."""


class CorruptLineError(ValueError):
    """A whole line that cannot be true.

    Args:
        position: Its place in the file, from 0.
        why: The message.
    """

    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position


@dataclass(frozen=True)
class Cycle:
    """One point of a learning curve; what varies between repetitions has seconds or memory in its name."""

    cycle: StrictInt
    """Its number, from 0."""
    labelled: StrictInt
    """How many examples were labelled when the model was trained."""
    picked: list[StrictInt]
    """Ids that are newly labelled, in pick order; in cycle 0 the initial set."""
    metrics: dict[str, float]
    """How good the model was, by the name of the metric; nan where it could not be measured."""
    train_seconds: float
    """What training took."""
    select_seconds: float
    """What the selection took that gave `picked`."""
    peak_memory_bytes: int | None
    """The most memory that was held; None where the system does not tell."""
    passes: float | None = None
    """Passes of the candidates through networks, for the selection; None where they were not counted."""


_CYCLE = TypeAdapter(Cycle)


def to_line(cycle: Cycle) -> str:
    """The line of a cycle."""
    fields = asdict(cycle)
    return json.dumps({**fields, CHECKSUM: checksum(fields)})


def from_line(line: str, position: int) -> Cycle:
    """The cycle of a line; what a line from another hand lacks is filled in, its number from its place."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise TornLineError(f"it is not JSON: {line[:40]!r}") from None
    if not isinstance(fields, dict) or not fields.keys() >= NEEDED:
        raise TornLineError(f"it is no cycle of a run: {line[:40]!r}")
    stated = fields.pop(CHECKSUM, None)
    if stated is not None and stated != checksum(fields):
        raise CorruptLineError(position, "its checksum does not fit")
    if unknown := fields.keys() - {"cycle", *ABSENT, *NEEDED}:
        raise CorruptLineError(position, f"a cycle has no field {min(unknown)!r}")
    return _validated({"cycle": position, **ABSENT, **fields}, position)


def checksum(fields: Mapping[str, Any]) -> str:
    """Sixteen digits that any change of a value changes, whatever the order of the fields."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def check_in_order(cycles: Iterable[Cycle]) -> None:
    """Refuse cycles that cannot be one run's: numbers in a row, counts that add up, every id labelled once."""
    known: set[int] = set()
    labelled = 0
    for place, cycle in enumerate(cycles):
        if cycle.cycle != place:
            raise CorruptLineError(place, f"it is cycle {cycle.cycle}, where {place} is due")
        fresh = {example for example in cycle.picked if example >= 0} - known
        if len(fresh) < len(cycle.picked):
            raise CorruptLineError(place, "it labels an example twice, or one with a negative id")
        known |= fresh
        if cycle.labelled <= labelled or (known and cycle.labelled != len(known)):
            said = f"{cycle.labelled} labelled examples after {labelled}, with {len(cycle.picked)} new ones"
            raise CorruptLineError(place, f"its counts do not add up: {said}")
        labelled = cycle.labelled


def _validated(fields: dict[str, Any], position: int) -> Cycle:
    if isinstance(fields["metrics"], dict):
        measured = {name: nan if value is None else value for name, value in fields["metrics"].items()}
        fields = {**fields, "metrics": measured}
    try:
        return _CYCLE.validate_python(fields)
    except ValidationError as wrong:
        error = wrong.errors()[0]
        where = ".".join(map(str, error["loc"]))
        raise CorruptLineError(position, f"{where}: {error['msg'].lower()}") from None
