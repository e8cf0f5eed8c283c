"""Second opinions: half of them at random, which measures disagreement, and half where they change a label most."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import select, update

from jostle.labeling.answers import AnswerKind, as_class
from jostle.labeling.schema import examples, queue
from jostle.statistics import answer_error_rate, posterior_classes, value_of_answer

if TYPE_CHECKING:
    from jostle.labeling.session import Session

MIN_TWICE = 20  # examples that two people answered, before their disagreement says something
ANSWER_ERROR = 0.1  # assumed share of wrong answers until then


def random_share(kind: AnswerKind, overlap: float) -> float:
    """Return the share of examples that two people answer by chance; the rest of the overlap is steered."""
    return overlap / 2 if kind == "one" and overlap < 1 else overlap


def count_disagreements(session: Session) -> tuple[int, int]:
    """Return how many examples of the random overlap two people answered differently, and how many they answered."""
    first: dict[str, object] = {}
    differs: dict[str, bool] = {}
    for one in session.snapshot().answers:
        if one.act == "answer" and session.index.copies(one.key) > 1:
            if one.key in first and one.key not in differs:
                differs[one.key] = one.value != first[one.key]
            first.setdefault(one.key, one.value)
    return sum(differs.values()), len(differs)


def ask_again(session: Session) -> list[str]:
    """Have one more person answer examples where that is worth more than an answer to a new one; return their keys.

    Values are compared with those of the next picks (`jostle.statistics.value_of_answer`). Examples of the audit are
    left out: a model that chose which audit answers are checked would change its own score.
    """
    settings, found = session.settings, session.predictions()
    most = round((settings.overlap - random_share(session.kind, settings.overlap)) * settings.batch)
    if found is None or not found.out_of_sample or not most:
        return []
    merged = session.book.classes().merged
    column = {merged[int(number)]: place for place, number in enumerate(found.numbers)}
    votes = defaultdict[str, list[int]](list)
    for one in session.snapshot().answers:
        if one.purpose == "pick" and one.here and one.key in found.places:
            said = column.get(as_class(one.value)) if one.act == "answer" and one.value is not None else None
            votes[one.key].append(-1 if said is None else said)
    with session.store.read_transaction() as tx:
        ranked = select(queue.c.key).join(examples, examples.c.key == queue.c.key)
        ranked = ranked.where(queue.c.round == session.store.current_round(), queue.c.purpose == "pick")
        coming = tx.execute(ranked.where(examples.c.purpose.is_(None)).order_by(queue.c.rank)).scalars()
        new = [found.places[key] for key in coming if key in found.places][: settings.batch]
        asked = dict(tx.execute(select(examples.c.key, examples.c.copies)).all())
    settled = [key for key, said in votes.items() if -1 not in said and len(said) == asked[key]]
    if not settled or not new:
        return []
    differed, twice = count_disagreements(session)
    wrong = answer_error_rate(differed / twice, max(len(column), 2)) if twice >= MIN_TWICE else ANSWER_ERROR
    people = max(len(votes[key]) for key in settled)
    given = np.array([votes[key] + [-1] * (people - len(votes[key])) for key in settled])
    posterior = posterior_classes(found.scores[[found.places[key] for key in settled]], given, wrong)
    gains, usual = value_of_answer(posterior, wrong), value_of_answer(found.scores[new], wrong)
    best = [settled[i] for i in np.argsort(-gains, kind="stable")[:most] if gains[i] > np.median(usual)]
    with session.store.write_transaction() as tx:
        tx.execute(update(examples).where(examples.c.key.in_(best)).values(copies=examples.c.copies + 1))
    return best
