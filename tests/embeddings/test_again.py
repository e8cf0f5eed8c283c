"""Inputs that a race comes back to: held as far as there is room, read again and compared beyond."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from sure import WORK, trained
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from jostle import NoiseStability
from jostle.core import Query
from jostle.embeddings import race
from jostle.embeddings.again import Again

EACH = 6 * 4  # bytes of an example
FIRST_LOOK = 1  # at a couple of examples, which show the model's shapes


class Decoded(Dataset[Tensor]):
    """Examples that are made each time they are read, always alike."""

    def __init__(self, pool: Tensor) -> None:
        self.pool, self.reads, self.times = pool, 0, Counter[int]()

    def __len__(self) -> int:
        return len(self.pool)

    def __getitem__(self, position: int) -> Tensor:
        self.reads += 1
        self.times[position] += 1
        return self.pool[position].clone()


class Drawn(Decoded):
    """Examples that come out otherwise each time, as augmented ones do."""

    def __getitem__(self, position: int) -> Tensor:
        return super().__getitem__(position) + torch.rand(6)


class Mirrored(Decoded):
    """Examples that are turned around half of the time: their numbers are the same, in another order."""

    def __getitem__(self, position: int) -> Tensor:
        example = super().__getitem__(position)
        return example.flip(0) if torch.rand(()) < 0.5 else example


def in_two(few: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Two arguments of a model, and targets."""
    return list(torch.stack(few).split([2, 4], 1)), torch.zeros(len(few))


def same(raced: Query, plain: Query) -> bool:
    """Whether the picks are, and their scores up to rounding."""
    return raced.indices.tolist() == plain.indices.tolist() and raced.scores.tolist() == pytest.approx(
        plain.scores.tolist(), rel=1e-4
    )


def test_examples_that_are_held_are_read_once() -> None:
    pool, strategy = Drawn(torch.randn(300, 6)), NoiseStability(jolts=16)
    plain = replace(strategy, race=None).select(trained(), pool, 5, seed=0)
    read, pool.reads = pool.reads, 0
    raced = replace(strategy, race=0.01).select(trained(), pool, 5, seed=0)
    assert raced.passes is not None
    assert pool.reads == read
    assert same(raced, plain)


@pytest.mark.parametrize("held", [0, 1, 40, 299])
def test_what_the_buffer_does_not_hold_is_read_again(held: int) -> None:
    pool = Decoded(torch.randn(300, 6))
    strategy = NoiseStability(jolts=16, race=0.01, buffer_bytes=max(1, held * EACH))
    plain = replace(strategy, race=None).select(trained(), pool, 5, seed=0)
    read, pool.reads = pool.reads, 0
    pool.times.clear()
    raced = strategy.select(trained(), pool, 5, seed=0)
    assert raced.passes is not None
    assert raced.notes == ()
    assert same(raced, plain)
    assert pool.reads == read if held == 299 else read < pool.reads < 2 * read
    assert max(pool.times.values()) <= 2 + FIRST_LOOK


def test_the_most_promising_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that come again: 24 that are jolted in full to begin with take no second reading."""
    pool = Decoded(torch.randn(300, 6))
    seen = list[Again]()
    real = Again.batches
    monkeypatch.setattr(Again, "batches", lambda self, who: (seen.append(self), real(self, who))[1])
    NoiseStability(jolts=16, race=0.01, buffer_bytes=24 * EACH).select(trained(), pool, 5, seed=0)
    again = seen[0]
    held = (again.slots >= 0).nonzero()[:, 0]
    with NoiseStability(jolts=16).request(trained(), pool.pool, seed=0) as request:
        promise = race.Race(NoiseStability(jolts=16), request).promise
    assert held.tolist() == promise.topk(24).indices.sort().values.tolist()
    assert torch.equal(again.kept[again.slots[held]], pool.pool[held])


@pytest.mark.parametrize("kind", [Drawn, Mirrored])
def test_what_is_read_otherwise_the_second_time_does_not_race(kind: type[Decoded]) -> None:
    strategy = NoiseStability(jolts=16, race=0.01, buffer_bytes=10 * EACH)
    query = strategy.select(trained(), kind(torch.randn(300, 6)), 5, seed=0)
    assert query.passes is None
    (note,) = query.notes
    assert (
        note == "everything was jolted, not raced: examples come out otherwise each time that they are read"
    )


def test_unasked_nothing_races_that_is_slow_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "SMALL", 0)
    pool = Decoded(torch.randn(1000, 6))  # whose inputs take a little more than 16 directions
    strategy = NoiseStability(jolts=16, buffer_bytes=1000 * EACH - 1)
    assert strategy.select(trained(), pool, 5, seed=0).passes is None
    assert "inputs would be read twice" in strategy.plan(trained(), pool, 5, seed=0).notes[0]
    monkeypatch.setattr(race, "READING", race.MAY_LOSE * 16 * WORK / EACH)
    assert strategy.select(trained(), pool, 5, seed=0).passes is not None
    monkeypatch.undo()
    monkeypatch.setattr(race, "SMALL", 0)
    roomy = replace(strategy, buffer_bytes=1000 * EACH)
    assert roomy.select(trained(), pool, 5, seed=0).passes is not None


def test_sequences_that_each_batch_pads_for_itself_are_jolted_whole() -> None:
    torch.manual_seed(0)
    texts = [torch.randint(1, 50, (1 + i % 7,)) for i in range(200)]
    model = nn.Sequential(nn.EmbeddingBag(50, 8), nn.Linear(8, 3))
    options: dict[str, Any] = {"collate_fn": lambda few: pad_sequence(few, batch_first=True), "batch_size": 5}
    plain, raced = (
        NoiseStability(jolts=8, race=race).select(model, texts, 5, seed=0, **options) for race in (None, 0.01)
    )
    assert raced.passes is None
    assert "no one shape" in raced.notes[0]
    assert raced.indices.tolist() == plain.indices.tolist()


@pytest.mark.parametrize("held", [300, 50])
@pytest.mark.parametrize("kind", ["list of tensors", "dict"])
def test_several_arrays_are_kept_side_by_side(kind: str, held: int) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = trained()

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.net(torch.cat([a, b], 1))

    model, x = Both(), torch.randn(300, 6)
    items = [{"a": row[:2], "b": row[2:]} if kind == "dict" else row for row in x]
    collate = None if kind == "dict" else in_two
    plain = NoiseStability(jolts=16, race=None).select(model, {"a": x[:, :2], "b": x[:, 2:]}, 5, seed=0)
    strategy = NoiseStability(jolts=16, race=0.01, buffer_bytes=held * EACH)
    raced = strategy.select(model, items, 5, seed=0, collate_fn=collate)
    assert raced.passes is not None
    assert raced.indices.tolist() == plain.indices.tolist()
