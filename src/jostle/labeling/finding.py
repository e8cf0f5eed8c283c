"""Find all examples of one class: questions by the chance of the class, and a bound on the share that was found.

All members of the class are one fixed number, so one confidence sequence holds for the whole search. Its draws are the
random questions of the audit, each among the examples that were unanswered at that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from jostle.labeling.answers import as_classes
from jostle.labeling.records import Advice, Predictions, Recall
from jostle.labeling.schema import events, examples
from jostle.labeling.stopping import count_words, percent
from jostle.statistics import ALPHA, RecallSequence

if TYPE_CHECKING:
    from jostle.labeling.session import Session

FIND_AUDIT = 0.5  # share of random questions in a search, unless the project says otherwise
DEFAULT_GOAL = 0.95  # recall


def class_chances(session: Session, found: Predictions) -> NDArray[np.float64]:
    """Return the chance of the wanted class, (n,), by place in the predictions."""
    classes = session.book.classes()
    assert session.settings.find is not None
    number = classes.number(session.settings.find)
    columns = [i for i, old in enumerate(found.numbers) if classes.merged[int(old)] == number]
    chances: NDArray[np.float64] = found.scores[:, columns].sum(1).astype(np.float64).clip(0, 1)
    return chances


def is_dry(session: Session) -> bool:
    """Return whether the last picks of a model found no member, so that only random questions are left to ask."""
    since = min((s["act"] for _, _, s in session.store.rounds() if s.get("model")), default=None)
    if since is None:
        return False
    answers = [one for one in session.snapshot().answers if one.seq > since and one.act != "skip"]
    picks = sorted((one for one in answers if one.purpose == "pick"), key=lambda one: one.seq)
    enough, members = max(session.settings.batch // 2, 1), member_keys(session)
    return len(picks) >= enough and not any(one.key in members for one in picks[-enough:])


def member_keys(session: Session) -> set[str]:
    """Return the keys of the answered examples of the wanted class."""
    assert session.settings.find is not None
    number = session.book.classes().number(session.settings.find)
    return {
        key
        for key, value in session.snapshot().labels.items()
        if value == number or (session.kind == "several" and number in as_classes(value))
    }


def recall(session: Session) -> Recall | None:
    """Return a lower bound on the share of the class that was found; None where no class is searched for."""
    wanted = session.settings.find
    if wanted is None:
        return None
    goal = session.settings.goal or DEFAULT_GOAL
    labels, members = session.snapshot().labels, member_keys(session)
    with session.store.read_transaction() as tx:
        here = set(tx.execute(select(examples.c.key).where(examples.c.here)).scalars()) | labels.keys()
        audited = set(tx.execute(select(examples.c.key).where(examples.c.purpose == "audit")).scalars())
        first = select(events.c.key, func.min(events.c.seq)).where(events.c.act.in_(("answer", "correction")))
        times: dict[str, int] = dict(tx.execute(first.group_by(events.c.key)).all())
    models = [(s["act"], number) for number, _, s in session.store.rounds() if s.get("model")]
    sequence = RecallSequence(len(here), goal)
    left, chances, current = here, dict[str, float](), 0
    for key in sorted(labels, key=lambda key: times.get(key, 0)):
        number = max((n for act, n in models if act < times.get(key, 0)), default=0)
        if number != current:
            current, chances = number, _stored_chances(session, number)
        if key in audited:
            usual = float(np.mean(list(chances.values()))) if chances else 0.05
            order = list(left)
            values = np.array([chances.get(each, usual) for each in order])
            sequence.add_draw(values, order.index(key), key in members)
        else:
            sequence.add_answers(1, int(key in members))
        left = left - {key}
    bound = sequence.bound(ALPHA)
    proven = bound.recall if bound.found else 0.0
    return Recall(wanted, proven, bound.found, bound.missed, goal, proven >= goal)


def _stored_chances(session: Session, number: int) -> dict[str, float]:
    """Return the chances of the class that a round kept, by key."""
    found = session.audit_predictions(number)
    if found is None:
        return {}
    return dict(zip(found.keys, class_chances(session, found).tolist(), strict=True))


def advise(found: Recall, left: int) -> Advice:
    """Return the advice of a search: stop when enough of the class is proven to be found."""
    known = f"{count_words(found.found, 'example')} of {found.name} found, at most {found.missed:,} missed."
    sure = f"At least {percent(found.low)} of them are found, with 95 % confidence; the goal is {percent(found.goal)}."
    if left == 0:
        return Advice(True, "Everything is answered.", (known,), None)
    if found.reached:
        return Advice(
            True, f"At least {percent(found.low)} of {found.name} are found. Stop here.", (known, sure), None
        )
    return Advice(False, f"Go on: the goal of {percent(found.goal)} is not proven.", (known, sure), None)
