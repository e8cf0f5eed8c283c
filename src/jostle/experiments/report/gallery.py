"""The page of `jostle pick --gallery`: a card for each pick, to look at before labeling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from PIL import Image
from torch import Tensor

from jostle.core import Query
from jostle.datasets import Data, ImageFiles
from jostle.experiments.report.page import templates
from jostle.experiments.results.previews import shorten, thumbnail
from jostle.tasks import Task, look_like_probabilities

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


def render(gallery: Gallery) -> str:
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
