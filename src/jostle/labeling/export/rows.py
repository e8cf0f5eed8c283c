"""Rows of an export: one for each labeled example, the same for every format.

A row has the columns of `COLUMNS`. A reader returns rows with the columns that its file has; `key` names an example by
its content, as jostle wrote it, `content` is the key of a content in the file, and `name` is a path, an id or a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import select

from jostle.labeling.answers import AnswerKind
from jostle.labeling.sources.contents import Content, SourceError
from jostle.labeling.sources.index import GoneError
from jostle.labeling.store.schema import places

if TYPE_CHECKING:
    from jostle.labeling.session import Session

OLD_COLUMNS = ("name", "answer", "by", "confidence", "people", "purpose", "key")  # of version 0.2
REMARK_COLUMNS = ("unsure", "flagged", "notes")
COLUMNS = (*OLD_COLUMNS, *REMARK_COLUMNS)
LISTS = ("people", *REMARK_COLUMNS)  # columns with several words in a cell
FORMAT = "jostle-labels"
SEPARATOR = "; "  # words in one cell

Row = dict[str, Any]
Means = Literal["link", "copy"]


@dataclass(frozen=True)
class Export:
    """Labels to write, and how pictures get into a folder."""

    session: Session
    rows: Sequence[Row]
    means: Means = "link"

    def contents(self) -> Iterator[tuple[Row, Content]]:
        """Yield rows with their contents; skip those whose content is gone."""
        for each in self.rows:
            with suppress(GoneError):
                yield each, self.session.index.content(each["key"])


def place_keys(session: Session) -> dict[str, str]:
    """Return the keys of all places by name."""
    return {row.name: row.key for row in session.store.rows(select(places).where(places.c.key.is_not(None)))}


def join_words(words: Sequence[str]) -> str:
    """Return words as one cell: with semicolons between them, or as a JSON list where a word has one."""
    if any(";" in each for each in words) or (words and words[0].startswith("[")):
        return json.dumps(list(words), ensure_ascii=False)
    return SEPARATOR.join(words)


def split_words(cell: Any) -> list[str]:
    """Return the words of a cell that `join_words` wrote, or of a list."""
    if cell is None:
        return []
    if not isinstance(cell, str):
        return list(cell)
    if cell.startswith("["):
        with suppress(ValueError):
            return [str(each) for each in json.loads(cell)]
    return [part.strip() for part in cell.split(SEPARATOR.strip()) if part.strip()]


def answer_words(answer: Any) -> list[str]:
    """Return the classes of an answer, of which a number has none."""
    if isinstance(answer, str):
        return [answer]
    return list(answer) if isinstance(answer, list | tuple) else []


def flat_row(found: Row) -> Row:
    """Return a row whose cells are words and numbers."""
    answer = found["answer"]
    flat = join_words(answer) if isinstance(answer, tuple) else answer
    return {**found, "answer": flat, **{name: join_words(found[name]) for name in LISTS}}


def extra_cells(found: Row) -> Row:
    """Return the flat cells of a row beside its name and answer, without empty ones."""
    cells = flat_row(found)
    return {name: cells[name] for name in COLUMNS[2:] if cells[name] not in (None, "")}


def remark_words(found: Row) -> dict[str, list[str]]:
    """Return the remarks of a row by column."""
    return {name: split_words(found.get(name)) for name in REMARK_COLUMNS}


def parse_answer(kind: AnswerKind, answer: Any) -> Any:
    """Return an answer as a session takes it; None for an empty cell."""
    if kind == "several" and isinstance(answer, str | list | tuple):
        return split_words(answer)
    if isinstance(answer, list | tuple) and len(answer) < 2:  # of a format that can hold several
        answer = answer[0] if answer else None
    if isinstance(answer, dict | list | tuple):
        raise SourceError(f"expected a class or a number as the answer of an example; got {answer!r:.80}")
    if answer is None or (isinstance(answer, str) and not answer.strip()):
        return None
    return str(answer) if kind == "one" else answer


def find_column(path: Path, columns: Sequence[str], usual: Sequence[str]) -> str:
    """Return the first of the usual columns that a file has; raise SourceError if there is none."""
    for name in usual:
        for column in columns:
            if column.lower() == name:
                return column
    raise SourceError(
        f"{path.name} has columns {', '.join(columns) or 'none'}; expected one of {', '.join(usual)}"
    )
