"""HTML pages that need no other file: the frame of reports, the gallery of picks, and the style of figures."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, cast

import matplotlib as mpl
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2DBase, ScaledTranslation, blended_transform_factory
from PIL import Image
from torch import Tensor

from jostle.core import Query
from jostle.datasets import Data, ImageFiles
from jostle.experiments.results import Preview, shorten, thumbnail
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
class Section:
    """A chapter of the page: words, figures, tables, pictures, and text to copy."""

    key: str
    title: str
    text: str = ""
    drawings: tuple[Drawing, ...] = ()
    tables: Mapping[str, Table] | None = None  # file name -> table
    filed: Mapping[str, Table] | None = None  # written to files only, where a figure already shows them
    strips: Mapping[str, Sequence[tuple[str, Preview]]] | None = None  # strategy -> first picks with names
    listings: tuple[tuple[str, str], ...] = ()  # (heading, text to copy)

    @property
    def files(self) -> dict[str, Callable[[], bytes | str]]:
        """Tables and figures that are written beside the page: path in the folder -> what makes its content."""
        found: dict[str, Callable[[], bytes | str]] = {}
        for drawing in self.drawings:
            found[f"figures/{drawing.name}.png"] = partial(png, drawing.figure)
            found[f"figures/{drawing.name}.svg"] = partial(getattr, drawing, "svg")
        for stem, table in {**(self.tables or {}), **(self.filed or {})}.items():
            found[f"tables/{stem}.md"] = table.markdown
            found[f"tables/{stem}.tex"] = table.latex
            found[f"tables/{stem}.csv"] = table.csv
        return found


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
    def files(self) -> dict[str, Callable[[], bytes | str]]:
        """Every file beside the page."""
        return {path: content for section in self.sections for path, content in section.files.items()}


def write(page: Page, out: Path, name: str, own: bool = False) -> Path:
    """Write the page and, beside it, its tables (md, tex, csv) and figures (png, svg).

    Nothing is written over but an earlier page and what lies beside it, unless the folder is jostle's `own`.
    """
    path, beside = out / name, page.files
    if not own:
        check_target(path, lambda head: TITLE.search(head) is not None, advice=ELSEWHERE)
        for place in beside if not path.exists() else ():
            check_target(out / place, lambda head: False, advice=ELSEWHERE)
    write_whole(path, render(page))  # first, so that what is written half is known for ours
    for place, content in beside.items():
        write_whole(out / place, content())
    return path


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


def is_gallery(head: bytes) -> bool:
    """Whether a file begins as the page of `jostle pick --gallery` does."""
    return MARK in head


def render_gallery(title: str, facts: Mapping[str, str], cards: Sequence[Card]) -> str:
    """The page as HTML: one file, no script or picture from elsewhere; facts say what it is -> what it was."""
    page, gallery = (
        templates().get_template("gallery.html.j2"),
        {"title": title, "facts": facts, "cards": cards},
    )
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


def answers_of(outputs: Tensor, task: Task, classes: Sequence[str]) -> list[tuple[Answer, ...]]:
    """Return the prediction for each example: the likeliest classes, shares of pixels and tokens, or numbers."""
    if not task.has_classes:
        return [
            tuple(Answer("predicts", short_number(value)) for value in row)
            for row in outputs.flatten(1).tolist()
        ]
    outputs = outputs.double()
    if task.name == "classification" and look_like_probabilities(outputs, task):
        shares = outputs.flatten(1)  # the model ends with a softmax
    else:
        spread = task.distribution(outputs)  # (n, sites, c)
        shares = spread[..., 1] if task.name == "multi-label" else spread.mean(1)  # (n, labels) or (n, c)
    names = classes if len(classes) == shares.shape[1] else [f"class {i}" for i in range(shares.shape[1])]
    best = shares.topk(min(ANSWERS, shares.shape[1]), dim=1)
    return [
        tuple(Answer(names[i], f"{share:.1%}", share) for share, i in zip(values, places, strict=True))
        for values, places in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


INK = "#1d2127"  # a page with a dark mode replaces this one color
GREY = "#868d96"
# Told apart by red-, green- and blue-blind eyes, on white and on black; beyond six, dashes and markers help.
COLORS = ("#0f6fc6", "#0b8f6a", "#d070b0", "#cc9a00", "#4fb3d9", "#d1480a")
FAVOURITE = {"noise-stability": "#d1480a", "random": GREY}
DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
MARKERS = "osD^vPX*<>"
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "text.parse_math": False,  # a label may hold dollars
    "svg.fonttype": "none",
    "svg.hashsalt": "jostle",
    "path.simplify": False,
}
P = ParamSpec("P")


class LineStyle(NamedTuple):
    """How one strategy is drawn in every figure of a report."""

    color: str
    dash: Any
    marker: str


def line_styles(labels: Sequence[str]) -> dict[str, LineStyle]:
    """A style for each label: `random` is always gray, `noise-stability` always vermilion."""
    free = [c for c in COLORS if c not in {FAVOURITE.get(label) for label in labels}]
    others = [label for label in labels if label not in FAVOURITE]
    found = {}
    for label in labels:
        if label in FAVOURITE:
            found[label] = LineStyle(FAVOURITE[label], DASHES[1] if label == "random" else "-", "o")
        else:
            turn, place = divmod(others.index(label), len(free))
            marker = MARKERS[1 + others.index(label) % 9]
            found[label] = LineStyle(free[place], DASHES[turn % len(DASHES)], marker)
    return found


@contextmanager
def _style() -> Iterator[None]:
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **STYLE}
    del settings["backend"]
    with mpl.rc_context(settings):
        yield


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw with our settings whatever the user's are, and leave theirs alone."""

    @wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with _style():
            return draw(*args, **kwargs)

    return wrapped


def svg(figure: Figure) -> str:
    """The figure as SVG text on white, without a date."""
    out = io.StringIO()
    with _style():
        figure.savefig(out, format="svg", facecolor="white", metadata={"Date": None, "Creator": "jostle"})
    return out.getvalue()


def png(figure: Figure) -> bytes:
    """The figure as PNG on white."""
    out = io.BytesIO()
    with _style():
        figure.savefig(out, format="png", facecolor="white", dpi=160, metadata={"Software": "jostle"})
    return out.getvalue()


def blank(width: float, height: float) -> Figure:
    """An empty figure of so many inches that needs no window and no pyplot."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def moved_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move rising places apart to at least `gap`, as little as possible and inside the limits if they fit."""
    groups: list[list[float]] = []  # (wish, members) of places that touch
    for place in wanted:
        groups.append([place, 1.0])
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < gap * (groups[-1][1] + groups[-2][1]) / 2:
            (b, m), (a, k) = groups.pop(), groups.pop()
            groups.append([(a * k + b * m) / (k + m), k + m])
    places = [middle + gap * (i - (size - 1) / 2) for middle, size in groups for i in range(int(size))]
    last = len(places) - 1
    raised = [max(place, low + i * gap) for i, place in enumerate(places)]
    return [min(place, high - (last - i) * gap) for i, place in enumerate(raised)]


def name_ends(axes: Axes, x: float, ends: Sequence[tuple[str, float, LineStyle]]) -> None:
    """Right of each curve's end write a sample of its line and its name, moved apart so as not to overlap."""
    ends = sorted((end for end in ends if np.isfinite(end[1])), key=lambda end: end[1])
    low, high = axes.get_ylim()
    inches = axes.get_window_extent().height / axes.figure.dpi
    places = moved_apart([end[1] for end in ends], gap=12 / (72 * inches) * (high - low), low=low, high=high)
    from_edge = axes.figure.dpi_scale_trans + ScaledTranslation(1, 0, cast(Affine2DBase, axes.transAxes))
    beside = blended_transform_factory(from_edge, axes.transData)  # inches from the right edge, data
    for (name, y, look), place in zip(ends, places, strict=True):
        line: dict[str, Any] = {"color": look.color, "transform": beside, "clip_on": False}
        arrow = {"arrowstyle": "-", "color": look.color, "lw": 0.7, "shrinkA": 0, "shrinkB": 3}
        axes.annotate("", (x, y), (0.25, place), textcoords=beside, annotation_clip=False, arrowprops=arrow)
        axes.plot([0.25, 0.6], [place, place], ls=look.dash, lw=1.6, **line)
        axes.plot(0.425, place, marker=look.marker, ms=4.2, mew=0, **line)
        axes.text(0.68, place, name, transform=beside, va="center", fontsize=9)
