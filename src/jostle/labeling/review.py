"""Views of a session: suggestions, the grid of a class, doubts, disagreements, all answers, progress."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sqlalchemy import select

from jostle.labeling import audit
from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.answers import Classes, StoredAnswer
from jostle.labeling.audit import is_blind, other_models, queue, stopping
from jostle.labeling.audit.queue import CurrentAnswer
from jostle.labeling.records import (
    Disagreement,
    Doubt,
    Entries,
    Entry,
    Match,
    Predictions,
    Progress,
    Suggestion,
    read_status,
)
from jostle.labeling.sources import GoneError
from jostle.labeling.sources.contents import Question
from jostle.labeling.store.schema import examples, places
from jostle.statistics.agreement import EVEN

if TYPE_CHECKING:
    from jostle.labeling.session import Session

GridOrder = Literal["surest", "doubtful"]
MAX_UNREADABLE_SHOWN = 20  # unreadable places that are named
PACE_MINUTES = 10.0  # that the pace is taken from


def suggestion(session: Session, key: str) -> Suggestion | None:
    """Return the model's answer; None for a blind question, or where the model does not know the example."""
    found = session.predictions()
    if found is None or key not in found.places:
        return None
    made = found.suggestion(
        key, session.book.classes(), session.store.last_model()
    )  # for a blind one too: as fast
    return None if is_blind(session, key) else made


def grid(session: Session, name: str, n: int, order: GridOrder = "surest") -> list[Match]:
    """Return the surest, or the most doubtful, examples of a class that nobody was asked.

    Examples chosen by the model's confidence no longer measure: neither those shown, should the audit come to them, nor
    audited examples that belong among them.
    """
    found, classes = session.predictions(), session.book.classes()
    if not session.type.has_classes:
        raise ValueError("answers are numbers here: there is no class to show")
    number = classes.number(name)
    if found is None:
        return []
    sure = class_chances(found, number, classes)
    free = (examples.c.purpose.is_(None)) | (examples.c.purpose == "audit")
    found_here = session.store.rows(select(examples).where(examples.c.here, free))
    rows = [row for row in found_here if sure.get(row.key, 0.0) > 0]
    sign = -1 if order == "surest" else 1
    rows.sort(key=lambda row: (sign * sure[row.key], row.key))
    shown = [row for row in rows if row.purpose is None][:n]
    if shown:
        session.store.mark_wanted([row.key for row in rows[: rows.index(shown[-1]) + 1]])
    return [
        Match(
            Question(row.key, session.source.kind, row.name),
            suggestion=found.suggestion(row.key, classes, session.store.last_model()),
        )
        for row in shown
    ]


def class_chances(found: Predictions, number: int, classes: Classes) -> dict[str, float]:
    """Return the probability of a class for the examples that the model assigns to it."""
    columns = [i for i, old in enumerate(found.numbers) if classes.merged[int(old)] == number]
    if not columns:
        return {}
    chances = found.scores[:, columns].sum(1)
    taken = np.isin(found.best, found.numbers[columns]) if found.kind == "one" else chances > 0.5
    return {found.keys[place]: float(chances[place]) for place in np.flatnonzero(taken).tolist()}


def doubts(session: Session, n: int) -> list[Doubt]:
    """Return answers that are more likely mistakes than not, by what the model predicts without them.

    Audit answers are left out: correcting only those that the model gets wrong would flatter it. A correction is final.
    """
    found, classes = session.predictions(), session.book.classes()
    snapshot = session.snapshot()
    if found is None or not found.out_of_sample:
        return []
    by_key: dict[str, list[CurrentAnswer]] = defaultdict(list)
    for one in snapshot.answers:
        if one.purpose != "audit" and one.act != "skip" and one.key in found.places and one.here:
            by_key[one.key].append(one)
    open_ones = {
        key: snapshot.labels[key]
        for key, group in by_key.items()
        if not any(one.act == "correction" for one in group)
    }
    chances = mistake_chances(found, open_ones, classes)
    worst = sorted((key for key in chances if chances[key] >= EVEN), key=lambda key: -chances[key])
    return [
        Doubt(
            Question(key, session.source.kind, by_key[key][0].name),
            session.type.decode(snapshot.labels[key], classes),
            tuple(sorted({one.person for one in by_key[key]})),
            found.suggestion(key, classes, session.store.last_model()),
            chances[key],
        )
        for key in worst[:n]
    ]


def mistake_chances(
    found: Predictions, labels: Mapping[str, StoredAnswer], classes: Classes
) -> dict[str, float]:
    """Return the probability that each answer is a mistake; answers that equal the model's are left out."""
    columns = list(dict.fromkeys(classes.merged[int(number)] for number in found.numbers))
    known = [key for key, answer in labels.items() if found.kind != "one" or answer in columns]
    if not known:
        return {}
    scores = found.scores[[found.places[key] for key in known]].astype(np.float64)  # (m, c) or (m, 1)
    if columns:
        joined = np.zeros((len(known), len(columns)))  # merged classes share their scores
        for number, score in zip(found.numbers, scores.T, strict=True):
            joined[:, columns.index(classes.merged[int(number)])] += score
        scores = joined
    chances = ANSWER_TYPES[found.kind].mistakes(scores, [labels[key] for key in known], columns)
    return {
        key: float(chance)
        for key, chance in zip(known, chances, strict=True)
        if found.answer(found.places[key], classes) != labels[key]
    }


def disagreements(session: Session) -> list[Disagreement]:
    """Return examples with different answers, the latest first; a corrected one is settled."""
    classes, snapshot = session.book.classes(), session.snapshot()
    by_key: dict[str, list[CurrentAnswer]] = defaultdict(list)
    for one in snapshot.answers:
        by_key[one.key].append(one)
    found: list[tuple[int, Disagreement]] = []
    for key, group in by_key.items():
        answers = {one.person: one.value for one in group if one.act == "answer" and one.value is not None}
        settled = any(one.act == "correction" for one in group)
        if not settled and any(value != next(iter(answers.values())) for value in answers.values()):
            words = {person: session.type.decode(value, classes) for person, value in answers.items()}
            question = Question(key, session.source.kind, group[0].name)
            consensus = session.type.decode(snapshot.labels[key], classes)
            found.append((group[-1].seq, Disagreement(question, words, consensus)))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def entries(session: Session, search: str, page: int, size: int) -> Entries:
    """Return a page of all answers, the latest first."""
    classes, wanted, rows = session.book.classes(), search.casefold().strip(), list[Entry]()
    for one in reversed(session.snapshot().answers):
        answer = None if one.value is None else session.type.decode(one.value, classes)
        question = Question(one.key, session.source.kind, one.name)
        assert one.act != "withdrawal"  # those do not stand
        purpose = one.purpose or "pick"
        row = Entry(question, one.person, one.act, answer, purpose, one.seconds, one.at, one.here)
        if wanted in _search_text(row) or wanted in _content_text(session, row):
            rows.append(row)
    pages = max(1, math.ceil(len(rows) / size))
    page = min(max(1, page), pages)
    return Entries(tuple(rows[(page - 1) * size : page * size]), len(rows), page, pages)


def _search_text(row: Entry) -> str:
    answer = ", ".join(row.answer) if isinstance(row.answer, tuple) else str(row.answer)
    words = [row.question.name, row.person, row.act, *([] if row.answer is None else [answer])]
    return "\n".join(words).casefold()


def _content_text(session: Session, row: Entry) -> str:
    """Return the text of a content; a picture has none."""
    if row.here and row.question.kind != "image":
        with suppress(GoneError):
            return session.index.content(row.question.key, guess=row.question.name).search_text
    return ""


def progress(session: Session) -> Progress:
    """Return the progress of a session."""
    snapshot, classes = session.snapshot(), session.book.classes()
    bad = select(places).where(places.c.problem.is_not(None)).order_by(places.c.name)
    problems = session.store.rows(bad)
    answers = [one for one in snapshot.answers if one.act != "skip"]
    sample = audit.audit_sample(session)
    accuracy, curve = audit.accuracy(session, sample), audit.curve(session, sample)
    proof = audit.proof(session, accuracy, sample)
    kappas = audit.kappas(session)
    remaining, found = queue.count_unanswered(session), stopping.recall(session)
    advice = stopping.advise(accuracy, curve, kappas, remaining, proof)
    if found is not None:
        advice = stopping.advise_search(found, remaining)
    return Progress(
        kind=session.kind,
        examples=queue.count_examples(session),
        copies=len(session.copies.get().representative),
        unreadable={row.name: row.problem for row in problems[:MAX_UNREADABLE_SHOWN]},
        unreadable_count=len(problems),
        indexed=bool(session.store.setting("indexed", False)),
        answered=len(snapshot.labels),
        skipped=len({one.key for one in snapshot.answers if one.act == "skip"} - snapshot.labels.keys()),
        left=remaining,
        counts=count_classes(session, snapshot.labels, classes),
        people=dict(Counter(one.person for one in answers).most_common()),
        per_minute=answers_per_minute([one.at for one in answers], session.store.clock()),
        accuracy=accuracy,
        new_data=audit.new_data(session, sample),
        classes=stopping.by_class(session, sample),
        confusions=stopping.confusions(session),
        noise=stopping.noise(session, None if accuracy.estimate is None else 1 - accuracy.estimate),
        savings=stopping.savings(session),
        recall=found,
        proof=proof,
        curve=curve,
        kappas=kappas,
        stable=stopping.is_stable(kappas),
        change_bound=stopping.change_bound(kappas) if session.type.has_classes else None,
        agreement=queue.agreement(session.type, answers),
        suggested=other_models.suggestion_accuracy(session, sample),
        suggester=(suggester := other_models.read_status(session)),
        suggestions=other_models.count_suggestions(session, suggester.source) if suggester else 0,
        advice=advice,
        round=session.store.current_round(),
        models=len(audit.model_rounds(session)),
        status=read_status(session.store),
    )


def count_classes(session: Session, labels: dict[str, Any], classes: Classes) -> dict[str, int]:
    """Return the number of examples of each class; none for numbers."""
    found = Counter(number for value in labels.values() for number in session.type.class_numbers(value))
    return {name: found.get(number, 0) for number, name in classes.names.items()}


def answers_per_minute(times: list[float], now: float) -> float:
    """Return answers per minute over the last ten minutes, or since the first of them."""
    recent = [at for at in times if at > now - 60 * PACE_MINUTES]
    return len(recent) / max((now - min(recent)) / 60, 1 / 6) if recent else 0.0
