"""Sequences of unequal length: padding counts nowhere, so that batches of any size say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import jostle
from jostle.inference.reader import aligned, as_vectors, mean_over, reduce_over
from jostle.inputs import Pool
from jostle.inputs.sources import Columns, Window
from jostle.rng import uniform_by_place
from jostle.rows.geometry import Outer
from jostle.strategies import build

N, M, CLASSES, PAD = 34, 9, 4, 0
QUICK: dict[str, dict[str, Any]] = {
    "noise-stability": {"num_perturbations": 4}, "bald": {"passes": 4}, "batch-bald": {"passes": 4},
    "entropy-dropout": {"passes": 4}, "core-gcn": {"epochs": 5}, "qbc": {"committee": 3}, "ll4al": {"tokens": "mean"},
}  # fmt: skip


class Tagger(nn.Module):
    """Looks at all tokens that are not padding; what it says of padding is nonsense."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.place = nn.Parameter(torch.randn(16, 8) / 4)
        self.look = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)
        self.body = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(12, CLASSES)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embed(input_ids) + self.place[: input_ids.shape[1]]
        seen, _ = self.look(x, x, x, key_padding_mask=attention_mask == 0, need_weights=False)
        return self.head(self.body(x + seen))


class ByIds(nn.Module):
    """The same, given ids alone."""

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        self.tagger = tagger

    def forward(self, ids: Tensor) -> Tensor:
        return self.tagger(ids, (ids != PAD).long())


def sentences(n: int, seed: int) -> list[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 14, (n,), generator=rng)
    return [torch.randint(1, 30, (int(length),), generator=rng) for length in lengths]


POOL, KNOWN = sentences(N, 1), sentences(M, 2)


def padded(items: list[Tensor]) -> Tensor:
    return nn.utils.rnn.pad_sequence(items, batch_first=True, padding_value=PAD)


def with_mask(items: list[Tensor]) -> dict[str, Tensor]:
    return {"input_ids": padded(items), "attention_mask": (padded(items) != PAD).long()}


@pytest.fixture
def model() -> Tagger:
    torch.manual_seed(0)
    return Tagger().eval()


def asked(
    name: str, model: nn.Module, size: int, embed: bool = False, settings: Any = None, **options: Any
) -> Any:
    def fit(dataset: Any, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        fresh = Tagger()
        return ByIds(fresh) if isinstance(model, ByIds) else fresh

    strategy = build(name, **QUICK.get(name, {}), **(settings or {}))
    collate = options["collate_fn"]
    joined = strategy.join(model, collate(POOL[:2]), 0).model
    call: dict[str, Any] = {"labeled": KNOWN, "fit": fit, "task": "sequence", "seed": 3, "batch_size": size}
    if embed:
        return strategy.embed(joined, POOL, **call, **options)
    return strategy.select(joined, POOL, 12, **call, **options)


# of every way in which sequences are read: scores, features, deviations, dropout, committees, graphs, layers
SERVING = ("entropy", "coreset", "noise-stability", "bald", "qbc", "core-gcn", "ll4al", "uncertainty-herding")


@pytest.mark.parametrize("name", SERVING)
def test_batches_of_any_size_say_what_batches_of_one_say(name: str, model: Tagger) -> None:
    alone = asked(name, model, 1, collate_fn=with_mask)
    together = asked(name, model, 16, collate_fn=with_mask)
    assert together.indices.tolist() == alone.indices.tolist()
    np.testing.assert_allclose(together.scores, alone.scores, rtol=2e-3, atol=1e-6)
    rows, others = (asked(name, model, size, embed=True, collate_fn=with_mask) for size in (1, 16))
    assert not isinstance(rows, Outer)
    torch.testing.assert_close(others, rows, rtol=1e-3, atol=1e-3 * float(rows.abs().max()))


class FirstToken(nn.Module):
    """Classifies a sentence by what is said of its first word."""

    def __init__(self, tagger: nn.Module) -> None:
        super().__init__()
        self.tagger = tagger

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        said: Tensor = self.tagger(input_ids, attention_mask)
        return said[:, 0]


@pytest.mark.parametrize("name", ["bald", "batch-bald"])
def test_dropout_of_classified_sentences_does_not_depend_on_how_long_a_batch_is(
    name: str, model: Tagger
) -> None:
    strategy, classifier = build(name, **QUICK.get(name, {})), FirstToken(model)
    alone, together = (
        strategy.embed(classifier, POOL, collate_fn=with_mask, batch_size=size, seed=3) for size in (1, 16)
    )
    torch.testing.assert_close(together, alone, rtol=1e-3, atol=1e-5)


def test_dropout_of_a_part_of_an_array_is_that_of_the_whole(model: Tagger) -> None:
    strategy, classifier, whole = build("bald", **QUICK.get("bald", {})), FirstToken(model), with_mask(POOL)
    rows = strategy.embed(classifier, whole, batch_size=4, seed=3)
    part = {name: array[4:12] for name, array in whole.items()}
    some = Pool(Window(Columns(part), 4, N), torch.arange(4, 12))  # as a worker of a cluster is given it
    assert torch.equal(strategy.embed(classifier, some, batch_size=4, seed=3), rows[4:12])


@pytest.mark.parametrize("name", ["entropy", "noise-stability", "coreset", "bald", "ll4al"])
def test_a_function_of_the_inputs_is_as_good_as_a_mask_among_them(name: str, model: Tagger) -> None:
    found = asked(name, model, 5, collate_fn=with_mask)
    told = asked(name, ByIds(model), 5, collate_fn=padded, mask=lambda ids: ids != PAD)
    named = asked(name, model, 5, collate_fn=with_mask, mask="attention_mask")
    assert told.indices.tolist() == found.indices.tolist() == named.indices.tolist()


def test_entropy_is_the_mean_over_the_words(model: Tagger) -> None:
    scores = asked("entropy", model, 16, embed=True, collate_fn=with_mask)
    with torch.no_grad():
        expected = [
            torch.distributions.Categorical(logits=model(ids[None], torch.ones(1, len(ids)))[0].double())
            .entropy()
            .mean()
            for ids in POOL
        ]
    torch.testing.assert_close(scores, torch.stack(expected), rtol=1e-5, atol=1e-6)
    off = asked("entropy", model, 16, embed=True, collate_fn=with_mask, mask=False)
    assert not torch.allclose(off, scores)


@pytest.mark.parametrize("name", ["entropy", "margin", "least-confidence", "bald", "entropy-dropout", "qbc"])
def test_scores_of_words_are_reduced_as_the_setting_says(name: str, model: Tagger) -> None:
    """The sum is the mean times the number of words; the largest is that of the words, one at a time."""
    lengths = torch.tensor([len(ids) for ids in POOL])
    found = {
        how: asked(name, model, 16, embed=True, collate_fn=with_mask, settings={"reduction": how})
        for how in ("mean", "sum", "max")
    }
    torch.testing.assert_close(found["sum"], found["mean"] * lengths, rtol=1e-6, atol=1e-9)
    assert (found["max"] >= found["mean"] - 1e-9).all()
    if name == "entropy":
        with torch.no_grad():
            logits = [model(ids[None], torch.ones(1, len(ids)))[0].double() for ids in POOL]
        largest = [torch.distributions.Categorical(logits=each).entropy().max() for each in logits]
        torch.testing.assert_close(found["max"], torch.stack(largest), rtol=1e-5, atol=1e-6)


def test_movements_lie_side_by_side_with_zeros_for_what_is_not_there(model: Tagger) -> None:
    rows = asked("noise-stability", model, 7, embed=True, collate_fn=with_mask)
    longest = max(map(len, POOL))
    tokens = rows.view(N, 4, longest, CLASSES)
    for row, ids in zip(tokens, POOL, strict=True):
        assert row[:, : len(ids)].abs().amin() > 0
        assert not row[:, len(ids) :].any()


def test_the_side_of_the_padding_does_not_matter(model: Tagger) -> None:
    def to_the_right(items: list[Tensor]) -> dict[str, Tensor]:
        right = padded([item.flip(0) for item in items]).flip(1)
        return {"input_ids": right, "attention_mask": (right != PAD).long()}

    class Plain(nn.Sequential):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return super().forward(input_ids)  # type: ignore[no-any-return]

    plain = Plain(nn.Embedding(30, 8), nn.Linear(8, CLASSES))
    for name in ("noise-stability", "coreset", "margin"):
        left, right = (
            jostle.select(
                name, plain, POOL, 9, task="sequence", labeled=KNOWN, seed=0, batch_size=5, collate_fn=each
            )
            for each in (with_mask, to_the_right)
        )
        assert left.indices.tolist() == right.indices.tolist()


NO_MASKS: list[tuple[Any, str]] = [
    ("padding", r"mask='padding' is not among the inputs, which are 'input_ids', 'attention"),
    (
        lambda inputs: inputs["attention_mask"][:, :3],
        r"the mask \(\d+, 3\) does not fit \d+ tokens: pass mask=",
    ),
    (
        lambda inputs: inputs["attention_mask"][:, 0],
        r"says of every token whether it counts, .*; got \(\d+,\)",
    ),
    (
        lambda inputs: (inputs["attention_mask"].float() - 1) * 10_000,
        r"1 where a token counts.* from -10000\.0 to",
    ),
    (3, "mask is a key of the inputs, a function of them, or False"),
]


@pytest.mark.parametrize(("mask", "words"), NO_MASKS)
def test_what_is_no_mask_is_refused(mask: Any, words: str, model: Tagger) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        asked("entropy", model, 16, collate_fn=with_mask, mask=mask)


def test_masked_arithmetic() -> None:
    values = torch.tensor([[[1.0], [2.0], [torch.nan]], [[torch.nan], [4.0], [6.0]], [[torch.nan]] * 3])
    mask = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0]]).bool()
    assert reduce_over(values, mask, "sum").tolist() == [[3.0], [10.0], [0.0]]
    assert reduce_over(values, mask, "max").tolist() == [[2.0], [6.0], [0.0]]
    with pytest.raises(ValueError, match="mean, sum, max; got 'median'"):
        reduce_over(values, mask, "median")  # type: ignore[arg-type]
    assert mean_over(values, mask).tolist() == as_vectors(values, mask=mask).tolist() == [[1.5], [5.0], [0.0]]
    assert aligned(values, mask, 4)[:, :, 0].tolist() == [[1, 2, 0, 0], [4, 6, 0, 0], [0, 0, 0, 0]]
    assert aligned(values[:1, :2], None, 3)[:, :, 0].tolist() == [[1, 2, 0]]


def test_draws_by_place_are_uniform_and_do_not_know_the_shape() -> None:
    large = uniform_by_place((40, 30, 50), 7)
    assert torch.equal(uniform_by_place((5, 30, 9), 7), large[:5, :, :9])
    assert not torch.equal(uniform_by_place((40, 30, 50), 8), large)
    assert 0 <= large.min() < large.max() < 1
    counts = torch.histc(large.flatten(), 20, 0, 1)
    assert (counts - 3000).abs().max() < 250  # five standard deviations
    apart = torch.corrcoef(torch.stack([large[:-1].flatten(), large[1:].flatten()]))[0, 1]
    assert abs(apart) < 0.02
