"""Export of labels: the answer that counts for each example, to a file or folder of any format.

With `predictions` the last model fills in the rest, marked as such. Answers of the audit are left out unless they are
asked for: a model that is trained on them cannot be scored by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from jostle.labeling.aggregation import CurrentAnswer
from jostle.labeling.answers import Answer, decode_answer
from jostle.labeling.formats import FORMATS, target_format
from jostle.labeling.formats.rows import OLD_COLUMNS, Export, Means, Row
from jostle.labeling.near_copies import COPY
from jostle.labeling.remarks import remark_cells, remarks_by_key
from jostle.labeling.review import make_suggestion
from jostle.labeling.schema import examples
from jostle.utils.files import check_target, is_same

if TYPE_CHECKING:
    from jostle.labeling.session import Session


def export(
    session: Session,
    path: Path,
    *,
    format: str | None = None,
    predictions: bool = False,
    with_audit: bool = False,
    overwrite: bool = False,
    means: Means = "link",
) -> int:
    """Write labels to a file or folder; return the number of examples.

    Args:
        session: The project.
        path: A file, or a folder that is new or empty.
        format: Name of the format; None: by the ending of the name, folders by class for a name without one.
        predictions: Also write the model's predictions for the rest.
        with_audit: Also write the answers of the audit, marked as such.
        overwrite: Write over a file that jostle did not write.
        means: How pictures get into a folder: "link" or "copy".
    """
    name = target_format(path, format)
    chosen = FORMATS[name]
    chosen.check(name, session, path)
    if predictions and not chosen.predictions:
        raise ValueError(f"the format {name} cannot say which answers are a model's: leave --predictions out")
    held = Export(session, list(export_rows(session, predictions, with_audit)), means)
    if not path.suffix:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FileExistsError(f"{path} is not empty: name a new folder")
    else:
        check_target(path, partial(chosen.is_ours, held, path), overwrite)
    table = getattr(session.source, "path", None)
    if table is not None and is_same(path, table):
        raise ValueError(f"{path} is what people label: name another file")
    chosen.write(held, path)
    return len(held.rows)


def count_audited(session: Session) -> int:
    """Return the number of labels of the audit."""
    labels = session.snapshot().labels
    return len(
        {one.key for one in session.snapshot().answers if one.purpose == "audit" and one.key in labels}
    )


def export_rows(session: Session, predictions: bool, with_audit: bool = False) -> Iterator[Row]:
    """Yield a row for each answered example in the order of names, then one for each predicted one."""
    classes, snapshot = session.book.classes(), session.snapshot()
    people: dict[str, list[str]] = {}
    first: dict[str, CurrentAnswer] = {}
    for one in snapshot.answers:
        first.setdefault(one.key, one)
        if one.act != "skip" and one.person not in people.setdefault(one.key, []):
            people[one.key].append(one.person)
    remarked, copies = remarks_by_key(session.store), session.copies.get().copies
    for key in sorted(snapshot.labels, key=lambda key: (first[key].name, key)):
        if first[key].purpose == "audit" and not with_audit:
            continue
        answer = decode_answer(session.kind, snapshot.labels[key], classes)
        row = make_row(first[key].name, answer, "people", None, people[key], first[key].purpose, key)
        yield {**row, **remark_cells(remarked.get(key, []))}
        for copy in [each for each in copies.get(key, ()) if each not in snapshot.labels]:
            yield {**row, "name": session.question(copy).name, "by": COPY, "key": copy}
    found, carried = (
        session.predictions() if predictions else None,
        session.copies.get().carried(snapshot.labels),
    )
    if found is None:
        return
    with session.store.read_transaction() as tx:
        here = tx.execute(
            select(examples.c.key, examples.c.name).where(examples.c.here).order_by(examples.c.name)
        ).all()
    for key, name in here:
        if key in found.places and key not in snapshot.labels and key not in carried:
            guess = make_suggestion(session, found, key, classes)
            yield make_row(name, guess.answer, "model", guess.confidence, [], None, key)


def make_row(
    name: str,
    answer: Answer,
    by: str,
    sure: float | None,
    people: Sequence[str],
    purpose: str | None,
    key: str,
) -> Row:
    """Return the row of one example."""
    values = (name, answer, by, sure, list(people), purpose, key)
    return {**dict(zip(OLD_COLUMNS, values, strict=True)), **remark_cells([])}
