"""Other results from answers: quality by class, confusions, label noise, and what picking saved.

Confusions are those of answers that are not of the audit, so that no picture says which questions measured.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from jostle.labeling import audit
from jostle.labeling.answers import as_class
from jostle.labeling.audit import aggregation
from jostle.labeling.records import ClassFigures, Confusion, Noise, SavedLabels
from jostle.labeling.sources.contents import Question
from jostle.statistics import estimate_savings, share_of_noise

if TYPE_CHECKING:
    from jostle.labeling.session import Session

MAX_CONFUSIONS = 4
MAX_PICTURES = 4  # of each confusion


def by_class(session: Session, sample: audit.ProjectAudit) -> tuple[ClassFigures, ...]:
    """Return precision and recall of the last model by class; bounds are None where there are too few answers."""
    found = session.predictions()
    if found is None:
        return ()
    labels = {key: value for key, value in sample.labels.items() if key in found.places}
    rest = tuple(key for key in [*sample.waiting, *sample.unasked] if key in found.places)
    known = audit.ProjectAudit(labels, (), rest)  # new files are unknown to the model
    return tuple(
        ClassFigures(
            name,
            each.answered,
            None if each.precision is None else each.precision.low,
            None if each.recall is None else each.recall.low,
        )
        for name, each in audit.by_class(session, found, known).items()
    )


def confusions(session: Session) -> tuple[Confusion, ...]:
    """Return the pairs of classes that the model confuses most, with examples; held-out predictions alone count."""
    found = session.predictions()
    if found is None or not found.out_of_sample or not session.type.has_one_class:
        return ()
    classes, pairs = session.book.classes(), defaultdict[tuple[int, int], list[tuple[str, str]]](list)
    labels = session.snapshot().labels
    for one in session.snapshot().answers:
        if one.purpose != "audit" and one.here and one.key in found.places and one.key in labels:
            true, said = as_class(labels[one.key]), as_class(found.answer(found.places[one.key], classes))
            if true != said and (one.key, one.name) not in pairs[true, said]:
                pairs[true, said].append((one.key, one.name))
    most = sorted((pair for pair in pairs if pairs[pair]), key=lambda pair: -len(pairs[pair]))
    return tuple(
        Confusion(
            classes.names[true],
            classes.names[said],
            len(pairs[true, said]),
            tuple(Question(key, session.source.kind, name) for key, name in pairs[true, said][:MAX_PICTURES]),
        )
        for true, said in most[:MAX_CONFUSIONS]
    )


def noise(session: Session, error: float | None) -> Noise | None:
    """Return how much of a measured error is disagreement of people; None where few examples were answered twice."""
    if not session.type.has_one_class or error is None or len(session.classes()) < 2:
        return None
    differed, twice = aggregation.count_disagreements(session)
    if twice < aggregation.MIN_TWICE:
        return None
    found = share_of_noise(error, differed, twice, len(session.classes()))
    return Noise(found.answer_error, found.model_error, twice)


def savings(session: Session) -> SavedLabels | None:
    """Estimate the answers that picking saved so far; None before 60 audited answers."""
    shadows = [s["shadow"] for _, _, s in session.store.rounds() if s.get("shadow")]
    if not shadows:
        return None
    last, labels, classes = shadows[-1], audit.audit_sample(session).labels, session.book.classes()
    keys = [key for key in last["keys"] if key in labels]
    by_key = dict(zip(last["keys"], last["errors"], strict=True))
    errors, sizes = list[list[float]](), list[int]()
    for number, summary in audit.model_rounds(session):
        found = session.audit_predictions(number)
        if found is not None and all(key in found.places for key in keys):
            errors.append([float(found.answer(found.places[key], classes) != labels[key]) for key in keys])
            sizes.append(summary["trained"])
    if len(sizes) < 2 or not keys:
        return None
    shadow = [np.nan if by_key[key] is None else by_key[key] for key in keys]
    saved = estimate_savings(shadow, last["labels"], errors, sizes)
    seconds = [one.seconds for one in session.snapshot().answers if one.seconds is not None]
    if not sizes[0] < saved.picks < np.inf:  # the first model was better already, or none was as good
        return None
    low = saved.random_labels - saved.high
    return SavedLabels(
        saved.random_labels,
        saved.picks,
        low if np.isfinite(low) else None,
        saved.random_labels - saved.low,
        saved.saved * float(np.median(seconds)) / 60 if seconds else None,
    )
