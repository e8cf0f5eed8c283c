"""The page of picks: each card has name, order, score and the model's answers; nothing comes from elsewhere."""

import re

import numpy as np
import pytest
import torch

from jostle.core import Query
from jostle.datasets import Data, Split
from jostle.datasets.data import Texts
from jostle.experiments.page import Answer, answers_of, cards, is_gallery, render_gallery
from jostle.tasks import TASKS

EVIL = '<script>alert("1")</script>&amp;'


def query(*places: int) -> Query:
    scores = np.linspace(1, 0.5, len(places))
    return Query(np.array(places), scores, {"embedding": 0.0, "selection": 0.0}, seed=0)


def data_of(inputs: object, **more: object) -> Data:
    nothing = Split(torch.empty(0), torch.empty(0))
    names = tuple(f"{EVIL}{i}" for i in range(len(inputs)))  # type: ignore[arg-type]
    return Data("made", None, Split(inputs, torch.empty(0), names), nothing, **more)  # type: ignore[arg-type]


def page_of(data: Data, picks: Query, answers: list[tuple[Answer, ...]] | None = None) -> str:
    return render_gallery(data.name, {"Fed": EVIL}, cards(picks, data, answers or []))


def test_cards_in_pick_order_with_names_scores_and_answers():
    data = data_of(torch.rand(3, 3, 8, 8))
    told = [(Answer(EVIL, "75.0%", 0.75), Answer("b", "25.0%", 0.25)), (Answer("c", "99.9%", 0.999),)]
    page = page_of(data, query(2, 0), told)
    assert page.count("<script>") == 1  # our own
    assert "alert" in page
    assert re.findall(r'id="pick-(\d+)"', page) == ["1", "2"]
    shown = re.findall(r'<span title="([^"]*)">', page)
    assert [name[-1] for name in shown] == ["2", "0"]
    assert re.findall(r"score ([\d.]+)<", page) == ["1", "0.5"]
    assert re.findall(r'class="value">([^<]*)<', page) == ["75.0%", "25.0%", "99.9%"]
    assert re.findall(r'width:([\d.]+)%"></i>', page) == ["75.00", "25.00", "99.90"]
    assert page.count("data:image/png;base64") == 2
    assert is_gallery(page.encode()[:4096])
    assert not is_gallery(b"<!doctype html><title>mine</title>")


def test_texts_and_rows():
    page = page_of(data_of(Texts(((EVIL + " first", "second"), ("b", "c")))), query(0))
    assert "&amp;amp; first\nsecond</div>" in page
    assert page.count("<script>") == 1
    rows = torch.tensor([[1.0, 0, 3, 70_000], [0, 1, 2.5, 4]])
    data = data_of(rows, columns=("roof=flat", "roof=gable", "rooms", EVIL))
    page = page_of(data, query(0))
    cells = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', page)
    assert cells[:2] == [("roof", "flat"), ("rooms", "3")]
    assert cells[2][1] == "70,000"
    assert len(cells) == 3
    assert page.count("<script>") == 1
    wide = data_of(torch.ones(1, 15), columns=tuple(map(str, range(15))))
    assert "5 more columns" in page_of(wide, query(0))


def test_answers_by_hand():
    logits = torch.tensor([[0.0, 3.0, 1.0, -9.0]])
    odds = np.exp([0.0, 3.0, 1.0, -9.0])
    classes = answers_of(logits, TASKS["classification"], ("a", "b", "c", "d"))[0]
    assert [answer.label for answer in classes] == ["b", "c", "a"]
    assert [answer.share for answer in classes] == pytest.approx((odds / odds.sum())[[1, 2, 0]], abs=1e-9)
    assert answers_of(logits, TASKS["classification"], ("a",))[0][0].label == "class 1"
    ended = answers_of(logits.softmax(1), TASKS["classification"], ())[0]  # a model that ends with a softmax
    assert [answer.share for answer in ended] == pytest.approx([answer.share for answer in classes], abs=1e-6)
    yes = answers_of(torch.tensor([3.0]), TASKS["binary"], ("no", "yes"))[0]
    assert (yes[0].label, yes[0].share) == ("yes", pytest.approx(1 / (1 + np.exp(-3))))
    labels = answers_of(logits, TASKS["multi-label"], ("a", "b", "c", "d"))[0]
    assert labels[0].share == pytest.approx(1 / (1 + np.exp(-3)))
    pixels = torch.zeros(1, 2, 1, 2)
    pixels[0, 1, 0, 0] = 50.0  # one pixel is surely of class 1, the other half
    maps = answers_of(pixels, TASKS["segmentation"], ("sky", "road"))[0]
    assert [(answer.label, answer.share) for answer in maps] == [("road", 0.75), ("sky", 0.25)]
    assert answers_of(torch.tensor([[12345.6]]), TASKS["regression"], ())[0] == (
        Answer("predicts", "12,346"),
    )
