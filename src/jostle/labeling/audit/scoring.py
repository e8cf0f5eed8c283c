"""Any model on a project's audit: predictions from a file, scored on the audited answers.

The audited examples are a random sample of those that were never picked, so they can score any model that was not
trained on them. Each scored model is a recorded look: it gets a share of alpha, and the intervals of all models hold
together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import insert, select

from jostle.labeling import audit
from jostle.labeling.answers import StoredAnswer, as_number
from jostle.labeling.export import NAME_COLUMNS, keys_by_name, read_rows
from jostle.labeling.export.tables import find_column, parse_answer
from jostle.labeling.records import Accuracy, Predictions
from jostle.labeling.sources.contents import SourceError, digest, draw_uniform
from jostle.labeling.store.schema import looks
from jostle.statistics import ALPHA, AuditSample, ClassQuality, Interval, difference_interval

if TYPE_CHECKING:
    from jostle.labeling.session import Session

PREDICTION_COLUMNS = ("prediction", "predicted", "answer", "label", "class", "target")
CHANCE_COLUMNS = ("chance", "confidence", "probability")
UNKNOWN_CHANCE = 0.9  # of a prediction without a chance; any constant gives the same bounds
AUDIT_ONLY_SHARE = 0.8  # of alpha for the one model of an audit-only project; the rest is for later looks


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
            chance = None if sure is None or row.get(sure) in (None, "") else _read_chance(path, row[sure])
            found[key] = session.type.encode(said, classes), chance
    if not found:
        raise ValueError(f"{path.name} predicts no example of this project: check its column {which!r}")
    return found


def find_columns(path: Path, rows: Sequence[Mapping[str, Any]]) -> tuple[str, str, str | None]:
    """Return the columns of names, predictions and chances; raise SourceError if one of the first two is missing."""
    columns = list(rows[0]) if rows else []
    sure = next((name for name in columns if name.lower() in CHANCE_COLUMNS), None)
    return find_column(path, columns, NAME_COLUMNS), find_column(path, columns, PREDICTION_COLUMNS), sure


def _read_chance(path: Path, cell: Any) -> float:
    try:
        chance = float(cell)
    except (TypeError, ValueError):
        chance = -1.0
    if not 0 <= chance <= 1:
        raise SourceError(
            f"{path.name}: the chance of a prediction must be between 0 and 1, got {cell!r:.40}"
        )
    return chance


def as_predictions(session: Session, found: Mapping[str, tuple[StoredAnswer, float | None]]) -> Predictions:
    """Return answers and their chances as predictions of the project."""
    keys, numbers = sorted(found), list(session.book.classes().names)
    chances = [UNKNOWN_CHANCE if (chance := found[key][1]) is None else chance for key in keys]
    scores = [
        session.type.to_scores(found[key][0], sure, numbers) for key, sure in zip(keys, chances, strict=True)
    ]
    wrong = np.array([1 - sure for sure in chances], dtype=np.float32)
    return Predictions(
        session.kind,
        keys,
        np.array(numbers, dtype=np.int64),
        np.array(scores, dtype=np.float32),
        chances=wrong,
    )


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
    measured = audit.measure(session, sample, found, number_range(session), whole=True)
    accuracy = audit.describe_measured(session, measured, 0, alpha, number_range(session))
    others = {key: value for key, value in session.snapshot().labels.items() if key not in sample.labels}
    off = audit.prediction_errors(found, others, session.book.classes())
    right = int((off == 0).sum()) if session.type.has_classes else None
    return Score(accuracy, alpha, number, len(off), right, audit.by_class(session, found, sample, alpha))


def compare(session: Session, first: Predictions, second: Predictions, name: str) -> Interval:
    """Bound the accuracy of the first model less that of the second; a recorded look of its own.

    For numbers it is the mean error of the second less that of the first. Larger is better for the first in both cases.
    """
    sample, scale = audit.audit_sample(session), number_range(session)
    _, alpha = record_look(session, name, first, second)
    one, two = (audit.measure(session, sample, found, scale, whole=True) for found in (first, second))
    if len(one.errors) != len(two.errors):
        raise ValueError("both models must predict all audited examples: train the project's model again")
    draws = AuditSample(np.arange(len(one.errors)), len(one.expected))
    order = [*sample.labels, *sample.waiting, *sample.unasked]
    differs, classes = None, session.book.classes()
    if session.type.has_classes and all(key in first.places and key in second.places for key in order):
        said = [[found.answer(found.places[key], classes) for key in order] for found in (first, second)]
        differs = np.array([a != b for a, b in zip(*said, strict=True)])
    gap = difference_interval(draws, two.errors, one.errors, two.expected, one.expected, differs, alpha=alpha)
    return Interval(gap.low * one.unit, gap.high * one.unit)


def number_range(session: Session) -> float | None:
    """Return the range of the answers outside the audit, which limits errors of numbers."""
    if session.type.has_classes:
        return None
    sample = audit.audit_sample(session).labels
    values = [as_number(value) for key, value in session.snapshot().labels.items() if key not in sample]
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
    summary = {"model": True, "trained": 0, "answers": 0, "act": 0, "names": session.classes()}
    alpha = {"candidate": True, "alpha": AUDIT_ONLY_SHARE * ALPHA, "note": f"predictions of {path.name}"}
    session.store.begin_round([], {**summary, **alpha})
    session.store.save_settings(**{"audited model": path.name})
