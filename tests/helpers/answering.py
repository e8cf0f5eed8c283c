"""People who answer truly, for tests of the labeling loop."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from jostle.labeling import Session
from jostle.labeling.store.schema import examples


def color_in(name: str) -> str:
    return name.removesuffix(".png").rpartition("-")[2]


def labeled(session: Session, n: int, person: str = "you", say: Callable[[str], Any] = color_in) -> list[str]:
    """Answer n questions truly; their keys."""
    keys = []
    for _ in range(n):
        [question] = session.ask(1, person)
        session.tell(question.key, say(question.name), person, seconds=2.0)
        keys.append(question.key)
    return keys


def purposes(session: Session) -> dict[str, str | None]:
    return {row.key: row.purpose for row in session.store.rows(select(examples))}
