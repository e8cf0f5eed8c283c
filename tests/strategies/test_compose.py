"""Any embedding meets any selector: in Python, by name, on the command line and in a protocol."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from selector_rows import OF_SCORES
from torch import nn
from torch.utils.data import TensorDataset
from zoo import ConvNet

import jostle
from jostle import Embedded, Embedding, QueryContext, embeddings, selectors, strategies
from jostle.strategies import Badge, CoreSet, NoiseStability

N, PICKS = 24, 5
QUICK: dict[str, dict[str, Any]] = {
    "deviations": {"num_perturbations": 3},
    "sketched-gradients": {"sketch": 8},
    "graph": {"epochs": 3},
    "bald": {"passes": 3},
    "entropy-dropout": {"passes": 3},
    "qbc": {"committee": 2},
}
DENSE_ONLY = {
    "k-dpp",
    "lcmd",
    "prob-cover",
    "typical",
    "herding",
    "explained-variance",
    "weighted-k-means",
}  # of these, Outer rows are refused
SCORES = {"entropy", "margin", "least-confidence", "egl", "bald", "entropy-dropout", "qbc"}

POOL = torch.randn(N, 1, 8, 8, generator=torch.Generator().manual_seed(1))
LABELED = TensorDataset(
    torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(2)), torch.arange(8) % 4
)


def fit(dataset: Any, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return ConvNet()


def select(strategy: jostle.Strategy, model: nn.Module, **change: Any) -> jostle.Query:
    call = {"labeled": LABELED, "fit": fit, "seed": 3} | change
    return strategy.select(model, POOL, PICKS, **call)


def refusal(embedding: str, selector: str) -> str:
    """Words of the error where two do not fit; "" where they do."""
    if selector in OF_SCORES and embedding not in SCORES:
        return "scores must be"
    if embedding == "last-layer-gradients" and selector in DENSE_ONLY:
        return "needs dense rows; got rows in two factors"
    if selector == "k-dpp" and embedding in SCORES | {"probabilities"}:
        return "no more than the rank"
    return ""


KINDS = ("features", "last-layer-gradients", "entropy")  # of rows: a matrix, two factors, scores


@pytest.mark.parametrize("embedding", embeddings.names())
def test_every_embedding_and_every_selector_pick_or_say_why_not(embedding: str) -> None:
    """Every selector on each kind of row; of the other embeddings the two ways in which rows are read."""
    for selector in selectors.names() if embedding in KINDS else ("k-center", "top-k"):
        strategy = jostle.compose(embedding, selector, **QUICK.get(embedding, {}))
        if words := refusal(embedding, selector):
            with pytest.raises((ValueError, TypeError), match=words):
                select(strategy, ConvNet())
        else:
            picked = select(strategy, ConvNet()).indices.tolist()
            assert len(set(picked) & set(range(N))) == PICKS, selector


@pytest.mark.parametrize(
    ("composed", "named"),
    [
        (("features", "k-center"), "coreset"),
        (("features", "typical"), "typiclust"),
        (("last-layer-gradients", "k-means++"), "badge"),
        (("deviations", "k-center"), "noise-stability"),
        (("deviations", "longest"), "noise-stability-m"),
        (("sketched-gradients", "lcmd"), "lcmd"),
        (("graph", "k-center"), "core-gcn"),
        (("entropy", "top-k"), "entropy"),
        (("bald", "top-k"), "bald"),
    ],
)
def test_compositions_are_the_strategies_of_that_name(composed: tuple[str, str], named: str) -> None:
    model, settings = ConvNet(), QUICK.get(composed[0], {})
    one = select(jostle.compose(*composed, **settings), model)
    two = select(strategies.build(named, **settings), model)
    assert one.indices.tolist() == two.indices.tolist()
    np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.parametrize(
    "spelled",
    [
        jostle.compose("deviations", "typical(clusters=3, small=1)", num_perturbations=4),
        jostle.compose("deviations(num_perturbations=4)", selectors.Typical(clusters=3, small=1)),
        jostle.compose(
            {"use": "deviations", "num_perturbations": 4}, selectors.build("typical", clusters=3, small=1)
        ),
        jostle.compose(embeddings.Deviations(), "typical(clusters=3, small=1)", num_perturbations=4),
        strategies.build(
            "compose", embedding="deviations(num_perturbations=4)", selector="typical(clusters=3, small=1)"
        ),
    ],
)
def test_names_values_and_tables_are_spellings_of_one_thing(spelled: Embedding) -> None:
    assert isinstance(spelled, embeddings.Deviations)
    assert (spelled.num_perturbations, selectors.selector(spelled.selector)) == (
        4,
        selectors.Typical(clusters=3, small=1),
    )


def test_without_a_selector_the_embeddings_own_is_taken() -> None:
    assert jostle.compose("badge") == Badge()
    assert jostle.compose(CoreSet(head="fc"), "lcmd") == CoreSet(head="fc", selector="lcmd")
    assert jostle.compose("noise-stability-relative", "k-dpp", num_perturbations=2) == NoiseStability(
        normalize=True, num_perturbations=2, selector="k-dpp"
    )


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        (("featurs", "k-center"), {}, "unknown embedding 'featurs'; did you mean 'features'"),
        (("features", "k-centr"), {}, "unknown selector 'k-centr'; did you mean 'k-center'"),
        (
            ("features", "typical(cluster=3)"),
            {},
            "unknown setting of typical 'cluster'; did you mean 'clusters'",
        ),
        (
            ("deviations(num_perturbation=3)", "k-center"),
            {},
            "unknown setting of deviations 'num_perturbation'; did you mean 'num_perturbations'",
        ),
        (
            ("deviations", "k-center"),
            {"num_perturbations": "many"},
            "deviations: num_perturbations takes a whole number; got 'many'",
        ),
        (("alfa-mix", "k-center"), {}, "alfa-mix picks by itself: it has no rows"),
        ((7, "k-center"), {}, "an embedding is a name, a value or a table with `use`; got 7"),
        (({"num_perturbations": 3}, "k-center"), {}, "a table with `use`"),
        (
            (embeddings.Features(), "k-center"),
            {"hed": "fc"},
            "unknown setting of Features 'hed'; did you mean 'head'",
        ),
    ],
)
def test_what_cannot_be_composed_is_said(arguments: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        jostle.compose(*arguments, **settings)


OWN = """
from dataclasses import dataclass, fields
from jostle import Embedded, Embedding

@dataclass(frozen=True, kw_only=True)
class Ratio(Embedding):
    power: float = 1.0

    def embedding(self, context):
        best = context.probabilities().topk(2).values
        return Embedded((best[:, 1] / best[:, 0]) ** self.power)
"""


def test_an_embedding_of_ones_own_meets_any_selector(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    model = ConvNet()
    ratio = jostle.compose(f"{tmp_path}/mine.py:Ratio(power=2)", "top-k")
    assert ratio.power == 2  # type: ignore[attr-defined]
    one = select(jostle.compose(f"{tmp_path}/mine.py:Ratio", "uniform"), model)
    assert one.indices.tolist() == select(strategies.build("random"), model).indices.tolist()
    best = model.eval()(POOL).softmax(1).topk(2).values
    expected = (best[:, 1] / best[:, 0]).topk(PICKS).indices.tolist()
    assert select(ratio, model).indices.tolist() == expected


def test_an_embedding_can_be_registered() -> None:
    with embeddings.REGISTRY.restored():

        @embeddings.register("first-pixel")
        @dataclass(frozen=True, kw_only=True)
        class FirstPixel(Embedding):
            """The first pixel of each image."""

            def embedding(self, context: QueryContext) -> Embedded:
                return Embedded(torch.cat([x[:, :, 0, 0] for x in context.batches()]))

        picked = select(jostle.compose("first-pixel", "top-k"), ConvNet()).indices.tolist()
        assert picked == POOL[:, 0, 0, 0].topk(PICKS).indices.tolist()
        assert embeddings.describe("first-pixel").idea == "The first pixel of each image."
    assert "first-pixel" not in embeddings.names()


def test_rows_meet_a_selector_in_one_place_and_who_picks_alone_carries_none() -> None:
    for name in strategies.names():
        kind = strategies.REGISTRY.entry(name).made_by
        assert isinstance(kind, type)
        if issubclass(kind, Embedding):
            assert kind.query is Embedding.query
        else:
            assert "selector" not in {field.name for field in fields(kind)}
