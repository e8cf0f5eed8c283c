"""Models of others on a project's audit: predictions from a file, scored; suggestions, hidden and measured.

The audited examples are a random sample of those that were never picked, so they can score any model that was not
trained on them. Each scored model is a recorded look: it gets a share of alpha, and the intervals of all models hold
together.

A suggestion can sway an answer, so it is shown only where the project's model may show one (see `is_blind`), and who
saw it is recorded. Audited answers were all given without one: they say how often suggestions are right.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import delete, exists, func, insert, select

from jostle.labeling import audit
from jostle.labeling.answers import StoredAnswer, as_class, as_number, clean_person_name
from jostle.labeling.audit import queue
from jostle.labeling.export import NAME_COLUMNS, keys_by_name, read_rows
from jostle.labeling.export.tables import find_column, parse_answer
from jostle.labeling.records import Accuracy, NewData, Predictions, SecondOpinion, SuggesterStatus, Suggestion
from jostle.labeling.sources.contents import SourceError, digest, draw_uniform
from jostle.labeling.store.schema import examples, looks, standing, suggestions, suggestions_shown
from jostle.labeling.store.schema import queue as ranking
from jostle.statistics import ALPHA, AuditSample, ClassQuality, Interval, difference_interval, estimate_mean

if TYPE_CHECKING:
    from jostle.labeling.session import Session
    from jostle.labeling.training.learners import Learner
    from jostle.labeling.training.rounds import TrainingSet


PREDICTION_COLUMNS = ("prediction", "predicted", "answer", "label", "class", "target")
CHANCE_COLUMNS = ("chance", "confidence", "probability")
UNKNOWN_CHANCE = 0.9  # of a prediction without a chance; any constant gives the same bounds
AUDIT_ONLY_SHARE = 0.8  # of alpha for the one model of an audit-only project; the rest is for later looks
STATUS = "suggestions"  # setting that holds a `SuggesterStatus`
OWN = "model"  # source of the project's own suggestions
NOTHING = ""  # source where a person looked and none was shown
ENOUGH = 100  # suggestions for a first ranking by them
# By key: answer and chance; None: no suggestion.
Found = Mapping[str, tuple[StoredAnswer, float | None] | None]


@dataclass(frozen=True)
class Score:
    """A model on the audit.

    Attributes:
        accuracy: Of the examples that were never picked.
        alpha: Share of alpha that this look has.
        look: Number of the look, from 1.
        picked: Number of the answered examples outside the audit that the model predicts.
        picked_right: How many of them it predicts right; None for numbers.
        classes: By class, with the names; empty for numbers and several classes.
    """

    accuracy: Accuracy
    alpha: float
    look: int
    picked: int
    picked_right: int | None
    classes: Mapping[str, ClassQuality]


def read_predictions(session: Session, path: Path) -> Predictions:
    """Read predictions of a model: a name, a prediction, and the chance that it is right, if there is one.

    Raises:
        SourceError: The file has no such columns, or a chance that is none.
        ValueError: The file names a class that the project does not have, or does not predict an audited example.
    """
    found = read_cells(session, path)
    missing = [key for key in audit.audit_sample(session).labels if key not in found]
    if missing:
        names = ", ".join(session.store.names(missing[:3]).values())
        raise ValueError(
            f"{path.name} must predict all audited examples; {len(missing)} are missing, such as {names}"
        )
    return as_predictions(session, found)


def read_cells(session: Session, path: Path) -> dict[str, tuple[StoredAnswer, float | None]]:
    """Read predictions by key, for any part of the examples, with their chances; None where a chance is not given.

    Raises:
        SourceError: The file has no such columns, or a chance that is none.
        ValueError: The file names a class that the project does not have, or no example of the project.
    """
    rows, keys = read_rows(session, path), keys_by_name(session)
    which, what, sure = find_columns(path, rows)
    classes, found = session.book.classes(), dict[str, tuple[StoredAnswer, float | None]]()
    for row in rows:
        key, said = keys.get(str(row.get(which))), parse_answer(session.kind, row.get(what))
        if key is not None and said is not None:
            cell = None if sure is None else row.get(sure)
            found[key] = session.type.encode(said, classes), _read_chance(path, cell)
    if not found:
        raise ValueError(f"{path.name} predicts no example of this project: check its column {which!r}")
    return found


def find_columns(path: Path, rows: Sequence[Mapping[str, Any]]) -> tuple[str, str, str | None]:
    """Return the columns of names, predictions and chances; raise SourceError if one of the first two is missing."""
    columns = list(rows[0]) if rows else []
    sure = next((name for name in columns if name.lower() in CHANCE_COLUMNS), None)
    return find_column(path, columns, NAME_COLUMNS), find_column(path, columns, PREDICTION_COLUMNS), sure


def _read_chance(path: Path, cell: Any) -> float | None:
    try:
        chance = None if cell in (None, "") else float(cell)
    except (TypeError, ValueError):
        chance = -1.0
    if chance is not None and not 0 <= chance <= 1:
        raise SourceError(
            f"{path.name}: the chance of a prediction must be between 0 and 1, got {cell!r:.40}"
        )
    return chance


def as_predictions(session: Session, found: Mapping[str, tuple[StoredAnswer, float | None]]) -> Predictions:
    """Return answers and their chances as predictions of the project."""
    keys, numbers = sorted(found), list(session.book.classes().names)
    said = [(answer, UNKNOWN_CHANCE if chance is None else chance) for answer, chance in map(found.get, keys)]  # type: ignore[misc]
    scores = np.array([session.type.to_scores(*each, numbers) for each in said], dtype=np.float32)
    wrong = np.array([1 - chance for _, chance in said], dtype=np.float32)
    return Predictions(session.kind, keys, np.array(numbers, dtype=np.int64), scores, chances=wrong)


def score(session: Session, found: Predictions, name: str) -> Score:
    """Score predictions on the audit, and record the look.

    Raises:
        ValueError: Nothing has been audited yet.
    """
    sample = audit.audit_sample(session)
    if not sample.labels:
        raise ValueError(
            "no audited example counts: answer more questions first (`jostle label`); where people answered nearly all "
            "examples, none is left to measure a model on"
        )
    number, alpha = record_look(session, name, found)
    scale = number_range(session, sample)
    measured = audit.measure(session, sample, found, scale, whole=True)
    accuracy = audit.describe_measured(session, measured, 0, alpha, scale)
    others = {key: value for key, value in session.snapshot().labels.items() if key not in sample.labels}
    off = audit.prediction_errors(found, others, session.book.classes())
    right = int((off == 0).sum()) if session.type.has_classes else None
    return Score(accuracy, alpha, number, len(off), right, audit.by_class(session, found, sample, alpha))


def compare(session: Session, first: Predictions, second: Predictions, name: str) -> Interval:
    """Bound the accuracy of the first model less that of the second; a recorded look of its own.

    For numbers it is the mean error of the second less that of the first. Larger is better for the first in both cases.
    """
    sample = audit.audit_sample(session)
    _, alpha = record_look(session, name, first, second)
    scale = number_range(session, sample)
    one, two = (audit.measure(session, sample, found, scale, whole=True) for found in (first, second))
    if len(one.errors) != len(two.errors):
        raise ValueError("both models must predict all audited examples: train the project's model again")
    draws = AuditSample(np.arange(len(one.errors)), len(one.expected))
    differs, classes, keys = None, session.book.classes(), sample.keys
    if session.type.has_classes and all(key in first.places and key in second.places for key in keys):
        said = [[found.answer(found.places[key], classes) for key in keys] for found in (first, second)]
        differs = np.array([a != b for a, b in zip(*said, strict=True)])
    gap = difference_interval(draws, two.errors, one.errors, two.expected, one.expected, differs, alpha=alpha)
    return Interval(gap.low * one.unit, gap.high * one.unit)


def number_range(session: Session, sample: audit.ProjectAudit) -> float | None:
    """Return the range of the answers outside the audit, which limits errors of numbers."""
    if session.type.has_classes:
        return None
    labels = session.snapshot().labels.items()
    values = [as_number(value) for key, value in labels if key not in sample.labels]
    return (max(values) - min(values) or None) if values else None


def record_look(session: Session, name: str, *models: Predictions) -> tuple[int, float]:
    """Record that models are scored; return the number of the look and its share of alpha.

    The same predictions again are the same look: its interval holds after every answer.
    """
    chances = [[] if model.chances is None else model.chances.tolist() for model in models]
    content = [[list(m.keys), m.scores.tolist(), sure] for m, sure in zip(models, chances, strict=True)]
    mark = digest(json.dumps(content).encode())
    for known in session.store.rows(select(looks).where(looks.c.digest == mark)):
        return int(known.number), float(known.alpha)
    share = audit.spend_share(session, candidate=True)
    if share <= 0:
        raise ValueError("this audit has been looked at too often: no share of alpha is left")
    row = {"at": session.store.clock(), "name": name, "digest": mark, "alpha": share}
    with session.store.write_transaction() as tx:
        number = tx.execute(insert(looks).values(**row).returning(looks.c.number)).scalar_one()
    return int(number), share


def begin_audit_only(session: Session, path: Path) -> None:
    """Take predictions of a file as the project's only model, which random questions are to prove.

    Raises:
        ValueError: The project has a model of its own.
    """
    if session.store.last_model():
        if session.store.setting("audited model"):
            return
        raise ValueError("this project has a model of its own: name another project with --project")
    session.index.refresh()
    found = read_predictions(session, path)
    number = session.store.current_round() + 1
    folder = session.round_folder(number)
    found.save(folder)
    order = sorted(found.keys, key=lambda key: draw_uniform(session.settings.seed, "audit", key))
    found.subset(order[: audit.AUDIT_PREDICTIONS]).save(folder / "audit")
    summary = {
        "model": True, "trained": 0, "answers": 0, "act": 0, "names": session.classes(), "candidate": True,
        "alpha": AUDIT_ONLY_SHARE * ALPHA, "note": f"predictions of {path.name}",
    }  # fmt: skip
    session.store.begin_round([], summary)
    session.store.save_settings(**{"audited model": path.name})


def read_status(session: Session) -> SuggesterStatus | None:
    """Return the status of the suggestions; None where the project has none."""
    held = session.store.setting(STATUS)
    return None if held is None else SuggesterStatus(**held)


def write_status(session: Session, status: SuggesterStatus | None) -> None:
    """Write the status of the suggestions; None: the project has none any more."""
    session.store.save_settings(**{STATUS: None if status is None else asdict(status)})


def save_suggestions(session: Session, source: str, found: Found, *, whole: bool = False) -> None:
    """Save suggestions; with `whole` they replace all of their source."""
    same, nothing = {"source": source, "at": session.store.clock()}, {"answer": None, "chance": None}
    rows = [
        {**same, "key": key, **({"answer": json.dumps(each[0]), "chance": each[1]} if each else nothing)}
        for key, each in found.items()
    ]
    with session.store.write_transaction() as tx:
        if whole:
            tx.execute(delete(suggestions).where(suggestions.c.source == source))
        session.store.upsert(tx, suggestions, rows)


def load_suggestions(
    session: Session, source: str, keys: Collection[str] | None = None
) -> dict[str, tuple[Any, float | None]]:
    """Return suggestions of a source by key: answers as they are stored, and chances; `keys` None: all of them."""
    wanted = select(suggestions).where(suggestions.c.source == source, suggestions.c.answer.is_not(None))
    if keys is not None:
        wanted = wanted.where(suggestions.c.key.in_(list(keys)))
    return {row.key: (json.loads(row.answer), row.chance) for row in session.store.rows(wanted)}


def count_suggestions(session: Session, source: str) -> int:
    """Return the number of examples that have a suggestion."""
    made = select(func.count()).where(suggestions.c.source == source, suggestions.c.answer.is_not(None))
    return int(session.store.value(made))


def next_keys(session: Session, source: str, n: int) -> list[str]:
    """Return up to n examples to suggest next: what is asked next, what was audited, then all others by their keys.

    Nothing here depends on whether a question is a pick or an audit: neither has its suggestion sooner.
    """
    made = exists().where(suggestions.c.source == source, suggestions.c.key == examples.c.key)
    answered = exists().where(standing.c.key == examples.c.key)
    free = select(examples.c.key).where(examples.c.here, ~made)
    ranked = ranking.c.round == session.store.current_round()
    orders = (
        free.join(ranking, ranking.c.key == examples.c.key).where(ranked, ~answered).order_by(ranking.c.rank),
        free.where(examples.c.purpose == "audit").order_by(examples.c.key),
        free.order_by(examples.c.key),  # a hash: a random order
    )
    found: dict[str, None] = {}
    for each in orders:
        if len(found) < n:
            found |= dict.fromkeys(session.store.column(each.limit(n)))
    return list(found)[:n]


def show_suggestions(
    session: Session, key: str, person: str
) -> tuple[Suggestion | None, SecondOpinion | None]:
    """Return the suggestions for a question, the project's own first, and record that a person saw them.

    A question without any takes the same work, so that the time of a reply says nothing.
    """
    own, other, status = session.suggestion(key), None, read_status(session)
    if status is not None:
        found, blind = load_suggestions(session, status.source, [key]).get(key), audit.is_blind(session, key)
        if found is not None and not blind:
            answer = session.type.decode(found[0], session.book.classes())
            other = SecondOpinion(status.name, answer, found[1])
    seen = ([] if own is None else [OWN]) + ([] if other is None or status is None else [status.source])
    if session.store.names([key]):
        record_shown(session, key, clean_person_name(person), seen)
    return own, other


def record_shown(session: Session, key: str, person: str, sources: Sequence[str]) -> None:
    """Record which suggestions a person saw, or that there were none; what nobody was asked yet no longer measures."""
    now = session.store.clock()
    rows = [{"key": key, "person": person, "source": each, "at": now} for each in sources or [NOTHING]]
    if session.store.purpose(key) is None and sources:
        session.store.mark_wanted([key])
    with session.store.write_transaction(durable=False) as tx:
        session.store.upsert(tx, suggestions_shown, rows)


def suggestion_accuracy(session: Session, sample: audit.ProjectAudit) -> NewData | None:
    """Return how often suggestions are right, or their mean error, by audited answers; None before there are any.

    The interval is a confidence sequence for the suggestions by themselves: it takes no share of the models' alpha.
    """
    status = read_status(session)
    found = load_suggestions(session, status.source, sample.labels) if status is not None else {}
    if not found:
        return None
    scale = number_range(session, sample)
    measured = audit.measure(session, sample, as_predictions(session, found), scale, whole=True)
    error = estimate_mean(measured.errors, measured.expected)
    return audit.describe_error(session, error, measured.interval(ALPHA, 0.5), measured.unit)


# the first ranking


def are_enough(session: Session) -> bool:
    """Return whether suggestions can rank the first questions: one class each, and many of them."""
    status = read_status(session)
    if status is None or not session.type.has_one_class:
        return False
    return 0 < min(ENOUGH, session.store.count(examples.c.here)) <= count_suggestions(session, status.source)


def is_first_ranking_due(session: Session) -> bool:
    """Return whether suggestions arrived after the first ranking, before anybody answered."""
    rounds = session.store.rounds()
    waiting = bool(rounds) and not rounds[-1][2].get("suggested") and not session.store.last_event()
    return waiting and are_enough(session)


def first_picks(
    session: Session, learner: Learner, training_set: TrainingSet, pool: Any, n: int, seed: int
) -> list[int]:
    """Return places to ask first: each suggested class in turn, by examples that cover it.

    So a rare class is met early. In a search, the class to find comes first, by its chance.
    """
    status, classes = read_status(session), session.book.classes()
    assert status is not None
    found = load_suggestions(session, status.source)
    groups: dict[int | None, list[int]] = {}
    for place in training_set.candidates().tolist():
        said = found.get(training_set.keys[place])
        groups.setdefault(None if said is None else classes.merged[as_class(said[0])], []).append(place)
    wanted: list[int] = []
    if session.settings.find:
        wanted = groups.pop(classes.number(session.settings.find), [])
        wanted.sort(key=lambda place: -(found[training_set.keys[place]][1] or 0.0))
    strategy, network = queue.first_strategy(session.settings.strategy), learner.untrained(pool)
    most = max(queue.MAX_FIRST_CANDIDATES // max(len(groups), 1), 20)
    orders = [
        queue.pick(strategy, network, pool, n, candidates=np.array(group), most=most, seed=seed)
        for group in groups.values()
    ]
    turns = (place for turn in zip_longest(*orders) for place in turn if place is not None)
    return [*wanted, *turns][:n]
