"""HTML pages that need no other file: the frame of reports, and the gallery of picks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from jostle.core import Query
from jostle.datasets import Data, ImageFiles
from jostle.experiments.results import Preview, shorten, thumbnail
from jostle.experiments.styles import INK, png, svg
from jostle.experiments.tables import Table
from jostle.tasks import Task, look_like_probabilities
from jostle.utils.files import check_target, write_whole

TITLE = re.compile(rb" jostle [a-z]+</title>")
ELSEWHERE = "name another folder"


@dataclass(frozen=True)
class Drawing:
    """A figure with what it shows; `name` is its file's."""

    name: str
    figure: Figure
    caption: str

    @cached_property
    def svg(self) -> str:
        """The figure as SVG; drawn once for the file and the page."""
        return svg(self.figure)


@dataclass(frozen=True)
class Strip:
    """First picks of one strategy, in pick order."""

    label: str
    pictures: tuple[tuple[str, str], ...]  # (name, data URI)
    texts: tuple[tuple[str, str], ...]  # (name, text)


@dataclass(frozen=True)
class Section:
    """A chapter of the page: words, figures, tables, pictures, and text to copy."""

    key: str
    title: str
    text: str = ""
    drawings: tuple[Drawing, ...] = ()
    tables: Mapping[str, Table] | None = None  # file name -> table
    filed: Mapping[str, Table] | None = None  # written to files only, where a figure already shows them
    strips: tuple[Strip, ...] = ()
    listings: tuple[tuple[str, str], ...] = ()  # (heading, text to copy)

    @property
    def files(self) -> dict[str, Table]:
        """All tables that are written to files, by name."""
        return {**(self.tables or {}), **(self.filed or {})}


@dataclass(frozen=True)
class Page:
    """Everything that the template needs."""

    title: str
    subtitle: str
    kind: str
    headline: str
    details: str
    facts: Sequence[tuple[str, str]]  # (figure, what it is)
    warnings: Sequence[str]
    sections: Sequence[Section]
    colors: Mapping[str, str]  # strategy -> color

    @property
    def has_files(self) -> bool:
        """Whether tables and figures are written beside the page."""
        return any(section.drawings or section.tables or section.filed for section in self.sections)


def write(page: Page, out: Path, name: str, own: bool = False) -> Path:
    """Write the page and, beside it, its tables (md, tex, csv) and figures (png, svg).

    Nothing is written over but an earlier page and what lies beside it, unless the folder is jostle's `own`.
    """
    path, beside = out / name, files_beside(page)
    if not own:
        check_target(path, is_page, advice=ELSEWHERE)
        for place in beside if not path.exists() else ():
            check_target(out / place, lambda head: False, advice=ELSEWHERE)
    write_whole(path, render(page))  # first, so that what is written half is known for ours
    for place, content in beside.items():
        write_whole(out / place, content())
    return path


def is_page(head: bytes) -> bool:
    """Whether a file begins as a report or a comparison does."""
    return TITLE.search(head) is not None


def files_beside(page: Page) -> dict[str, Callable[[], bytes | str]]:
    """Every file beside a page: its path in the folder -> what makes its content."""
    found: dict[str, Callable[[], bytes | str]] = {}
    for section in page.sections:
        for drawing in section.drawings:
            found[f"figures/{drawing.name}.png"] = partial(png, drawing.figure)
            found[f"figures/{drawing.name}.svg"] = partial(getattr, drawing, "svg")
        for stem, table in section.files.items():
            found[f"tables/{stem}.md"] = table.markdown
            found[f"tables/{stem}.tex"] = table.latex
            found[f"tables/{stem}.csv"] = table.csv
    return found


def render(page: Page) -> str:
    """The page as HTML."""
    known = templates()
    known.filters["inline"] = inline
    known.filters["table"] = lambda table: Markup(table.html(page.colors))  # nosec  # B704: cells are escaped
    return known.get_template("report.html.j2").render(page=page)


def templates() -> Environment:
    """The templates of all pages; what they are given is escaped."""
    loader = PackageLoader("jostle.experiments")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def inline(drawing: Drawing) -> Markup:
    """A figure as SVG inside the page: scaled with it, its ink that of the text, so that dark mode works."""
    text = drawing.svg[drawing.svg.index("<svg") :]
    for ground in (r"<metadata>.*?</metadata>", r'<g id="patch_1">.*?</g>'):  # the latter is the white ground
        text = re.sub(ground, "", text, count=1, flags=re.DOTALL)
    ids = r'\b(id="|url\(#|href="#)'  # those of one figure must not meet another's in the page
    text = re.sub(ids, rf"\g<1>{drawing.name}-", text)
    width = float(re.search(r'width="([\d.]+)pt"', text).group(1)) * 4 / 3  # type: ignore[union-attr]
    text = re.sub(r'(<svg[^>]*?) width="[\d.]+pt"', rf'\1 style="width:{width:.0f}px"', text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[\d.]+pt"', r"\1", text, count=1)
    return Markup(text.replace(INK, "currentColor"))  # nosec  # B704: Matplotlib escapes what it draws


def strip(label: str, ids: Sequence[int], previews: Mapping[int, Preview]) -> Strip:
    """Pictures and texts of some examples, as far as there are previews of them."""
    shown = [(f"example {i}", previews[i]) for i in ids if i in previews]
    return Strip(
        label,
        pictures=tuple((name, each.picture) for name, each in shown if each.picture),
        texts=tuple((name, each.text) for name, each in shown if each.text),
    )


def toml(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Settings as a TOML file; what is None is left out, as TOML has no word for it."""
    plain = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_toml(value)}" for key, value in plain.items() if value is not None]
    for key, value in settings.items():
        if isinstance(value, Mapping):
            name = prefix + _key(key)
            header = (
                [] if value and all(isinstance(each, Mapping) for each in value.values()) else [f"[{name}]"]
            )
            lines += ["", *header, toml(value, name + ".")]
    return "\n".join(lines).strip("\n")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, flags=re.ASCII) else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items() if v is not None)
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value if each is not None) + "]"
    return json.dumps(value, ensure_ascii=False)


MARK = b'<meta name="generator" content="jostle pick">'
ANSWERS = 3  # the model's likeliest, shown beside each pick
LETTERS = 4000  # of a text
CELLS = 10  # of a table's row that are seen at once
SIDES = ((200, 448), (1000, 288))  # up to so many picks, pictures are so high: a page stays under 40 MB or so
SMALLEST = 160


class Answer(NamedTuple):
    """Prediction for one example: a class and its probability, or a number."""

    label: str
    value: str
    share: float | None = None  # of the whole, for a bar


@dataclass(frozen=True)
class Card:
    """One pick as people see it."""

    order: int  # from 1
    name: str
    score: str
    picture: str = ""  # a data URI
    text: str = ""
    cells: tuple[tuple[str, str], ...] = ()  # of a table's row: column, value
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True)
class Gallery:
    """Everything that the page needs."""

    title: str
    facts: Mapping[str, str]  # what it is -> what it was
    cards: Sequence[Card]


def is_gallery(head: bytes) -> bool:
    """Whether a file begins as such a page does."""
    return MARK in head


def render_gallery(gallery: Gallery) -> str:
    """The page as HTML: one file, no script or picture from elsewhere."""
    page = templates().get_template("gallery.html.j2")
    return page.render(gallery=gallery, mark=MARK.decode(), few=CELLS).lstrip()


def cards(query: Query, data: Data, answers: Sequence[tuple[Answer, ...]]) -> list[Card]:
    """A card for each pick, in pick order; answers may be empty."""
    side = next((height for most, height in SIDES if len(query) <= most), SMALLEST)
    told = answers or [()] * len(query)
    pairs = zip(query.indices.tolist(), query.scores.tolist(), told, strict=True)
    return [
        Card(order, data.names(i), short_number(score), answers=each, **_shown(data, i, side))
        for order, (i, score, each) in enumerate(pairs, start=1)
    ]


def _shown(data: Data, position: int, side: int) -> dict[str, Any]:
    """The picture of a card, its text or its cells."""
    if cells := data.cells(position):
        return {"cells": tuple(cell(column, value) for column, value in cells)}
    files = data.train.inputs
    shown = files.original(position) if isinstance(files, ImageFiles) else data.preview(position)
    return (
        {"picture": thumbnail(shown, side)}
        if isinstance(shown, Image.Image)
        else {"text": shorten(shown, LETTERS)}
    )


def cell(column: str, value: float) -> tuple[str, str]:
    """A column and its value; of a one-hot column `roof=flat` the word."""
    name, equals, word = column.partition("=")
    return (name, word) if equals and value == 1 else (column, short_number(value))


def short_number(value: float) -> str:
    """A number of any size, to be read at a glance."""
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"


def _shares(outputs: Tensor, task: Task) -> Tensor:
    """How likely each label or class is, (n, labels) or (n, c)."""
    if task.name == "classification" and look_like_probabilities(outputs, task):
        return outputs.flatten(1)  # the model ends with a softmax
    spread = task.distribution(outputs)  # (n, sites, c)
    return spread[..., 1] if task.name == "multi-label" else spread.mean(1)


def answers_of(outputs: Tensor, task: Task, classes: Sequence[str]) -> list[tuple[Answer, ...]]:
    """Return the prediction for each example: the likeliest classes, shares of pixels and tokens, or numbers."""
    if not task.has_classes:
        return [
            tuple(Answer("predicts", short_number(value)) for value in row)
            for row in outputs.flatten(1).tolist()
        ]
    shares = _shares(outputs.double(), task)
    names = classes if len(classes) == shares.shape[1] else [f"class {i}" for i in range(shares.shape[1])]
    best = shares.topk(min(ANSWERS, shares.shape[1]), dim=1)
    return [
        tuple(Answer(names[i], f"{share:.1%}", share) for share, i in zip(values, places, strict=True))
        for values, places in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
