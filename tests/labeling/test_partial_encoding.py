"""Encoding in parts: rounds use what is encoded so far, a uniform sample that begins with the audit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from labeling_data import WORDS, tickets

from jostle.labeling import Session
from jostle.labeling import training as trainer
from jostle.labeling.sources.contents import Content, draw_uniform
from jostle.labeling.store.schema import examples
from jostle.labeling.training.encoders import Encoder, VectorFile, Vectors, embed
from jostle.labeling.training.rounds import run_round


class Lengths(Encoder):
    """Texts by their length; remembers its batches."""

    name, ahead = "lengths", 64

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def read(self, content: Content) -> str:
        return content.texts[0]

    def size(self, ready: Any) -> int:
        return len(ready)

    def encode(self, ready: Sequence[Any]) -> Vectors:
        self.batches.append([len(text) for text in ready])
        return np.array([[len(text), 1] for text in ready], dtype=np.float32)


def all_keys(session: Session) -> list[str]:
    session.index.refresh()
    return session.store.find_keys(examples.c.here)


def test_batches_have_similar_sizes_and_rows_their_own_keys(tmp_path: Path) -> None:
    opened = Session.open(tickets(tmp_path / "t.csv"), answers=tuple(WORDS), text="message", encoder="words")
    keys, encoder, file = all_keys(opened), Lengths(), VectorFile(tmp_path, "lengths")
    assert embed(opened.index, encoder, file, keys)
    assert file.take(keys)[:, 0].tolist() == [len(opened.index.content(key).texts[0]) for key in keys]
    sizes = encoder.batches
    assert max(map(len, sizes)) <= 32
    for first, second in zip(sizes[::2], sizes[1::2], strict=False):  # two batches of each 64 that are read
        assert max(first) <= min(second)
    opened.close()


def test_encoding_that_is_stopped_resumes_where_it_was(session: Session, tmp_path: Path) -> None:
    keys = all_keys(session)
    encoder = session.learner().encoder  # type: ignore[attr-defined]
    whole, parts = VectorFile(tmp_path / "whole", "x"), VectorFile(tmp_path / "parts", "x")
    embed(session.index, encoder, whole, keys)
    seen: list[int] = []
    assert not embed(session.index, encoder, parts, keys, lambda _, done, of: seen.append(done), lambda: True)
    assert set(parts.known()) == set(keys[:32])
    assert embed(session.index, encoder, parts, keys, lambda _, done, of: seen.append(done))
    assert seen == [32, 64, 96, 128, 150]
    np.testing.assert_array_equal(whole.take(keys), parts.take(keys))


def test_a_first_model_learns_before_everything_is_encoded(session: Session) -> None:
    run_round(session, encode_seconds=0)
    for question in session.ask(12):
        session.tell(question.key, question.name.split("-")[1].removesuffix(".png"))
    run_round(session, encode_seconds=0)
    known = session.predictions()
    assert len(known.keys) < 150
    answered = session.labels().keys()
    assert answered <= set(known.keys)
    order = sorted(all_keys(session), key=lambda key: draw_uniform(session.settings.seed, "audit", key))
    rest = [key for key in order if key not in answered]
    encoded = [key for key in rest if key in known.places]
    assert set(encoded) >= set(rest[: len(encoded) - len(answered)])  # the beginning of the audit's order
    assert session.accuracy().population <= len(known.keys)


def test_the_background_process_learns_from_everything_in_the_end(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "ENCODE_SECONDS", 0)
    worker = trainer.Worker(session)
    worker.round()
    first = session.store.rounds()[-1]
    assert first[2]["partial"]
    worker.encode()
    number, _, last = session.store.rounds()[-1]
    assert number == first[0] + 1
    assert not last["partial"]
    worker.encode()  # nothing is left to do
    assert session.store.current_round() == number
