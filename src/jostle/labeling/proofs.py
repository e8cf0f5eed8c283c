"""Random questions in a row, when a proof of the goal is all that is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, select

from jostle.labeling import audit
from jostle.labeling.queries import BULK, retry_conflicts
from jostle.labeling.queue import mix_audit, next_audit
from jostle.labeling.schema import examples, queue

if TYPE_CHECKING:
    from jostle.labeling.session import Session
    from jostle.labeling.store import QueueEntry, Store

MAX_QUESTIONS = 100  # random questions for one model; then picks make a better one
MIN_QUESTIONS = 10
PROOF_SHARE = 0.8  # of the questions during a proof; picks among them keep the audit blind


def begin(session: Session, questions: int | None = None) -> int:
    """Ask random questions next, a few picks among them; return how many random ones there are.

    Args:
        session: A project with a goal and a model.
        questions: Number of random questions. None: by the forecast, at most 100, and none where a proof is unlikely.
    """
    if questions is None:
        forecast = audit.proof(session, audit.accuracy(session))
        if forecast is None or forecast.questions is None or forecast.questions > 2 * MAX_QUESTIONS:
            return 0
        questions = min(max(2 * forecast.questions, MIN_QUESTIONS), MAX_QUESTIONS)
    current, seed = session.store.current_round(), session.settings.seed
    with session.store.read_transaction() as tx:
        free = set(
            tx.execute(select(examples.c.key).where(examples.c.here, examples.c.purpose.is_(None))).scalars()
        )
        ranked = select(queue.c.key).where(queue.c.round == current, queue.c.purpose == "pick")
        picks = [key for key in tx.execute(ranked.order_by(queue.c.rank)).scalars() if key in free]
        asked = select(func.count()).where(examples.c.purpose == "audit")
        audited = int(tx.execute(asked).scalar_one())
    drawn = next_audit(free, questions, seed)
    among = list(dict.fromkeys(picks))[: round(len(drawn) * (1 / PROOF_SHARE - 1))]
    _lead_queue(session.store, mix_audit(among, drawn, seed), since=current)
    until = audited + max(len(drawn), audit.proof_questions(session))  # these are the first of any under way
    session.store.save_settings(proof={"round": current, "until": until})
    return len(drawn)


@retry_conflicts
def _lead_queue(store: Store, ranking: Sequence[QueueEntry], since: int) -> None:
    """Put entries before all others of round `since`, unless another has begun; those that were ranked later move."""
    with store.write_transaction(BULK) as tx:
        if store.current_round() != since:
            return
        first = tx.execute(select(func.min(queue.c.rank)).where(queue.c.round == since)).scalar_one()
        for entry in ranking:
            same = and_(queue.c.round == since, queue.c.key == entry.key, queue.c.purpose == entry.purpose)
            tx.execute(delete(queue).where(same))
        store.append_queue(tx, since, (first or 0) - len(ranking), ranking)
