"""Questions drawn uniformly: before there is a ranking, and for when one comes to its end before the next is made."""

from __future__ import annotations

import heapq
from collections.abc import Set
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from jostle.labelling.contents import chance
from jostle.labelling.drawing import audits, mixed, shares
from jostle.labelling.schema import examples
from jostle.labelling.store import Ranked

if TYPE_CHECKING:
    from jostle.labelling.session import Session

FEWEST = 16  # questions that are drawn at a time while files are read for it
AT_ONCE = 500  # and when all are known: looking at a hundred thousand takes a second, so it is done rarely


def uniform(session: Session, free: Set[str], asked: int, audited: int, n: int, purpose: str) -> list[Ranked]:
    """So many questions of those that are free, the audit among them; `asked` and `audited` count those before."""
    seed = session.settings.seed
    picked, measured = shares(min(n, len(free)), session.settings.audit, asked, audited)
    drawn = audits(free, measured, seed)
    chosen = heapq.nsmallest(picked, free - set(drawn), key=lambda key: chance(seed, purpose, key))
    return mixed(chosen, drawn, seed)


def fill(session: Session, n: int) -> bool:
    """Add questions to the ranking; False where none are left.

    The audit takes part once everything has been read: before that copies are not known, and a picture with two
    would be drawn twice as often.
    """
    current = session.store.current_round()
    if not session.store.fact("indexed", False):
        first = session.index.start(max(n, FEWEST))
        session.store.extend([Ranked(key, "pick") for key in first], since=current)
        return bool(first)
    with session.store.reading() as tx:
        free = set(
            tx.execute(select(examples.c.key).where(examples.c.here, examples.c.purpose.is_(None))).scalars()
        )
        by = select(examples.c.purpose, func.count()).group_by(examples.c.purpose)
        asked: dict[str | None, int] = dict(tx.execute(by).all())
    audited = asked.get("audit", 0)
    found = uniform(
        session, free, asked.get("pick", 0) + audited, audited, max(n, AT_ONCE), f"fill {current}"
    )
    session.store.extend(found, since=current)
    return bool(found)


def left(session: Session) -> int:
    """How many examples nobody has answered yet; before everything has been read, at least one."""
    given = session.snapshot().given
    answered = {one.key for one in given if one.here and one.act in ("answer", "correction")}
    with session.store.reading() as tx:
        here = int(tx.execute(select(func.count()).where(examples.c.here)).scalar_one())
    return max(0 if session.store.fact("indexed", False) else 1, here - len(answered))
