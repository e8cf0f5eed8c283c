"""Strategies on arrays: the picks that a network with these outputs and features would get, or a refusal by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse, stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import jostle
from jostle import Query, strategies
from jostle.strategies.selection import CANNOT, works_with

POOL, LABELED, CLASSES, WIDTH, N = 60, 12, 4, 7, 9
ALL = {"probabilities", "features", "labeled set"}
NUMBERS = [name for name in strategies.names() if strategies.describe(name).tasks == ("regression",)]
ON_ARRAYS = [
    name
    for name in strategies.names()
    if works_with(strategies.describe(name), ALL) and name not in ("qbc", *NUMBERS)
]
REFUSED = [name for name in strategies.names() if set(strategies.describe(name).needs) & CANNOT.keys()]


@dataclass(frozen=True)
class Scene:
    """A network in double precision, and the same numbers as arrays."""

    model: nn.Sequential
    pool: Tensor
    known: Tensor
    labels: Tensor

    def probabilities(self, x: Tensor) -> NDArray[np.float64]:
        return self.model(x).softmax(1).detach().numpy()

    def features(self, x: Tensor) -> NDArray[np.float64]:
        return self.model[:-1](x).detach().numpy()

    @property
    def arrays(self) -> dict[str, Any]:
        known = {"probabilities": self.probabilities(self.known), "features": self.features(self.known)}
        return {
            "probabilities": self.probabilities(self.pool),
            "features": self.features(self.pool),
            "labeled": {**known, "labels": self.labels.numpy()},
        }


@pytest.fixture(scope="module")
def scene() -> Scene:
    torch.manual_seed(0)
    body = [nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, WIDTH), nn.Tanh()]
    model = nn.Sequential(*body, nn.Linear(WIDTH, CLASSES)).double().eval()
    x = torch.randn(POOL + LABELED, 5, dtype=torch.float64)
    return Scene(model, x[:POOL], x[POOL:], torch.arange(LABELED) % CLASSES)


def settings_of(name: str) -> dict[str, Any]:
    return {"prob-cover": {"delta": 0.3}, "core-gcn": {"epochs": 5}, "uncertain-gcn": {"epochs": 5}}.get(
        name, {}
    )


@pytest.mark.parametrize("name", ON_ARRAYS)
def test_picks_are_those_of_a_network_with_the_same_numbers(name: str, scene: Scene) -> None:
    labeled = TensorDataset(scene.known, scene.labels)
    wanted = jostle.select(name, scene.model, scene.pool, N, labeled=labeled, seed=3, **settings_of(name))
    found = jostle.select(name, **scene.arrays, n=N, seed=3, **settings_of(name))
    assert isinstance(found, Query)
    assert found.indices.tolist() == wanted.indices.tolist()
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-9, atol=1e-12)


def test_what_needs_a_network_is_refused_by_name_with_what_will_do(scene: Scene) -> None:
    everything, features = scene.arrays, {"features": scene.arrays["features"]}
    for arrays, given in ((everything, ALL), (features, {"features"})):
        others = [other for other in strategies.names() if works_with(strategies.describe(other), given)]
        for name in set(REFUSED) - ({"default"} if arrays is everything else set()):
            wanted = rf"^{name} cannot work on arrays: .* use {', '.join(others)}$"
            with pytest.raises(ValueError, match=wanted):
                jostle.select(name, **arrays, n=N)


def test_the_default_of_arrays_is_that_of_a_linear_model(scene: Scene) -> None:
    found = jostle.select("default", **scene.arrays, n=N, seed=3)
    assert (
        found.indices.tolist()
        == jostle.select("linear-herding", **scene.arrays, n=N, seed=3).indices.tolist()
    )


@pytest.mark.parametrize(
    ("name", "missing", "words"),
    [
        ("entropy", "probabilities", "probabilities="),
        ("badge", "features", "features="),
        ("coreset", "labeled", "labeled={"),
    ],
)
def test_what_is_missing_is_asked_for(name: str, missing: str, words: str, scene: Scene) -> None:
    rest = {key: value for key, value in scene.arrays.items() if key != missing}
    with pytest.raises(ValueError, match=rf"^{name} needs more than was given: pass .*{words}"):
        jostle.select(name, **rest, n=N)


def test_entropy_is_scipys_and_zeros_are_probabilities() -> None:
    given = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    query = jostle.select("entropy", probabilities=given, n=2)
    assert query.indices.tolist() == [2, 1]
    np.testing.assert_allclose(query.scores, stats.entropy(given[[2, 1]], axis=1), rtol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float16, torch.tensor, list])
def test_arrays_of_any_kind(kind: Any) -> None:
    given = np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]])
    held = given.astype(kind) if isinstance(kind, type) and kind is not list else kind(given.tolist())
    assert jostle.select("margin", probabilities=held, n=1).indices.tolist() == [1]


def test_the_page_says_what_works_with_which_arrays() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "scikit-learn.md").read_text()
    table = dict(re.findall(r"^\| (.+?) \| (.+) \|$", page, re.MULTILINE)[1:])
    told = {name: case for case, names in table.items() for name in re.findall("`([a-z-]+)`", names)}
    assert set(told) == {*ON_ARRAYS, "qbc"}
    for name in set(told) - {"qbc", "bait", "bait-binary"}:
        needs = set(strategies.describe(name).needs) - {"extra training"}
        assert needs == SAID[told[name]], name


SAID = {
    "`probabilities`": {"probabilities"},
    "`features`": {"features"},
    "both": {"probabilities", "features"},
    "both and the labeled set": {"probabilities", "features", "labeled set"},
    "`features` and the labeled set": {"features", "labeled set"},
    "any of these": set(),
}


class TestOtherTasks:
    def test_labels_that_exclude_nothing(self) -> None:
        given = np.array([[0.5, 0.0], [0.9, 1.0], [0.5, 0.5]])
        query = jostle.select("entropy", probabilities=given, task="multi-label", n=2)
        assert query.indices.tolist() == [2, 0]
        assert query.scores[0] == pytest.approx(np.log(2))

    @pytest.mark.parametrize("shape", [(3,), (3, 1)])
    def test_the_probability_of_yes_alone(self, shape: tuple[int, ...]) -> None:
        yes = np.array([0.1, 0.45, 1.0])
        both = jostle.select("entropy", probabilities=np.stack([1 - yes, yes], axis=1), n=3)
        query = jostle.select("entropy", probabilities=yes.reshape(shape), task="binary", n=3)
        assert query.indices.tolist() == both.indices.tolist() == [1, 0, 2]
        np.testing.assert_allclose(query.scores, both.scores, atol=1e-12)

    def test_features_of_a_regression(self, scene: Scene) -> None:
        arrays = {"features": scene.arrays["features"], "labeled": {"features": scene.features(scene.known)}}
        labeled = TensorDataset(scene.known, scene.labels.double())
        model = nn.Sequential(*scene.model[:-1], nn.Linear(WIDTH, 1).double())
        wanted = jostle.select("bait", model, scene.pool, N, labeled=labeled, seed=0)
        found = jostle.select("bait", **arrays, task="regression", n=N, seed=0)
        assert found.indices.tolist() == wanted.indices.tolist()


class TestCommittee:
    def test_disagreement_is_the_divergence_worked_out_by_hand(self) -> None:
        one, two = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.1, 0.9], [0.6, 0.4]])
        query = jostle.select("qbc", members=[one, two], n=2)
        middle, parts = stats.entropy([0.5, 0.5]), stats.entropy([0.9, 0.1])
        assert query.indices.tolist() == [0, 1]
        np.testing.assert_allclose(query.scores, [middle - parts, 0], atol=1e-12)

    def test_of_numbers_it_is_the_variance(self) -> None:
        members = [np.array([1.0, 2.0]), np.array([1.0, 4.0])]
        assert jostle.select("qbc", members=members, task="regression", n=1).indices.tolist() == [1]

    def test_without_members_it_asks_for_them(self, scene: Scene) -> None:
        with pytest.raises(ValueError, match="members="):
            jostle.select("qbc", probabilities=scene.arrays["probabilities"], n=1)


class TestRefusals:
    GIVEN = np.array([[0.25, 0.75], [0.5, 0.5]])

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"probabilities": [[0.2, 0.7], [0.5, 0.5]]}, "example 0 do not sum to 1: 0.2, 0.7"),
            ({"probabilities": [[0.5, 0.5], [-1.0, 2.0]]}, "example 1 are not all in 0 to 1: -1, 2"),
            ({"probabilities": [[0.5, 0.5], [np.nan, 0.5]]}, "example 1 are not all in"),
            ({"probabilities": [0.2, 0.7]}, "a column for each class"),
            ({"probabilities": [[0.2], [0.7]]}, "a column for each class"),
            ({"probabilities": np.zeros((0, 3))}, "the pool is empty"),
            ({"probabilities": GIVEN, "features": np.zeros((3, 2))}, "2 of probabilities, 3 of features"),
        ],
    )
    def test_numbers_that_cannot_be(self, arrays: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            jostle.select("entropy", **arrays, n=1)

    @pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array, sparse.csc_array])
    def test_sparse_features_are_picked_from_as_dense_ones(self, kind: Any) -> None:
        rows = np.random.default_rng(0).normal(size=(30, 6)) * (np.arange(180).reshape(30, 6) % 3 == 0)
        known = {"features": rows[:3] + 1}
        dense = jostle.select("coreset", features=rows, n=5, labeled=known, seed=0)
        found = jostle.select("coreset", features=kind(rows), n=5, labeled=known, seed=0)
        assert found.indices.tolist() == dense.indices.tolist()

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"probabilities": [[0, 1], [1, 0]]}, "floating numbers; got int64"),
            ({"features": np.zeros(4)}, r"\(n, d\) of floating numbers; got float64 of shape \(4,\)"),
            ({"features": np.zeros((4, 0))}, r"floating numbers; got float64 of shape \(4, 0\)"),
            ({"features": np.zeros((4, 2), dtype=object)}, "floating numbers; got object"),
            ({"probabilities": np.array([["a", "b"]])}, "floating numbers; got <U1"),
            ({"features": sparse.csr_array(np.eye(3, dtype=int))}, "floating numbers; got int64"),
            ({}, "a model and a pool, or arrays"),
            ({"features": GIVEN, "labeled": (GIVEN, [0, 1])}, "labeled= is a dict of arrays; got tuple"),
            ({"features": GIVEN, "labeled": {"feature": GIVEN}}, "did you mean 'features'"),
        ],
    )
    def test_what_is_no_array_of_numbers(self, arrays: dict[str, Any], words: str) -> None:
        with pytest.raises(TypeError, match=words):
            jostle.select("random", **arrays, n=1)

    def test_arrays_that_torch_cannot_share_are_read(self) -> None:
        given = np.array([[0.5, 0.5], [0.1, 0.9], [0.2, 0.8]])
        fixed = given[::-1].copy()
        fixed.flags.writeable = False
        for turned in (given[::-1], fixed):
            assert jostle.select("entropy", probabilities=turned, n=1, seed=0).indices.tolist() == [2]

    def test_a_model_and_arrays(self, scene: Scene) -> None:
        with pytest.raises(TypeError, match="a model and a pool, or arrays"):
            jostle.select("entropy", scene.model, scene.pool, 3, probabilities=self.GIVEN)  # type: ignore[call-overload]

    def test_what_reads_a_network(self) -> None:
        with pytest.raises(ValueError, match="arrays are read as they are"):
            jostle.select("entropy", probabilities=self.GIVEN, n=1, outputs=torch.log)


RNG = np.random.default_rng(0)
X: NDArray[np.float64] = RNG.normal(size=(80, 5)) * [1, 10, 0.1, 3, 1]
Y = np.array(["ash", "birch", "cedar"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 5)]
EXAMPLES, KNOWN, LABELS = X[20:], X[:20], Y[:20]


def picks(*arguments: Any, **options: Any) -> list[int]:
    return list(jostle.select(*arguments, **options, seed=1))


def test_a_classifier_is_asked_for_its_probabilities() -> None:
    forest = RandomForestClassifier(10, random_state=0).fit(KNOWN, LABELS)
    p = forest.predict_proba(EXAMPLES)
    assert picks("entropy", forest, EXAMPLES, 5) == picks("entropy", probabilities=p, n=5)
    assert 3 not in picks("margin", forest, EXAMPLES, 30, exclude=[3])


def test_a_pipeline_gives_the_features_of_its_last_step_and_labels_by_name() -> None:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(KNOWN, LABELS)
    scaled = pipeline[:-1].transform
    known = {
        "probabilities": pipeline.predict_proba(KNOWN),
        "features": scaled(KNOWN),
        "labels": np.array([pipeline.classes_.tolist().index(label) for label in LABELS]),
    }
    for name in ("coreset", "badge", "uncertainty-herding", "bait"):
        wanted = picks(
            name,
            probabilities=pipeline.predict_proba(EXAMPLES),
            features=scaled(EXAMPLES),
            n=5,
            labeled=known,
        )
        assert picks(name, pipeline, EXAMPLES, 5, labeled=(KNOWN, LABELS)) == wanted


def test_a_pipeline_of_texts_gives_sparse_features() -> None:
    texts = [f"{Y[i]} {'leaf' if X[i, 2] > 0 else 'bark'} {i % 7}" for i in range(80)]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, Y)
    dense = pipeline[:-1].transform(texts).toarray()
    wanted = picks("badge", probabilities=pipeline.predict_proba(texts), features=dense, n=6)
    assert picks("badge", pipeline, texts, 6) == wanted


def test_members_of_a_committee_may_be_estimators() -> None:
    members = [LogisticRegression(C=c).fit(KNOWN, LABELS) for c in (0.01, 1.0, 100.0)]
    wanted = picks("qbc", members=[member.predict_proba(EXAMPLES) for member in members], n=4)
    assert picks("qbc", members[0], EXAMPLES, 4, members=members) == wanted


def test_a_regressor_gives_numbers() -> None:
    ridge = Ridge().fit(KNOWN, KNOWN[:, 0])
    labeled = {"features": KNOWN, "labels": KNOWN[:, 0]}
    wanted = picks(
        "coreset",
        features=EXAMPLES,
        probabilities=ridge.predict(EXAMPLES),
        n=5,
        task="regression",
        labeled=labeled,
    )
    assert picks("coreset", ridge, EXAMPLES, 5, labeled=(KNOWN, KNOWN[:, 0])) == wanted


@pytest.mark.parametrize(
    ("strategy", "model", "options", "words"),
    [
        ("entropy", LinearSVC().fit(KNOWN, LABELS), {}, "has no predict_proba"),
        ("noise-stability", LogisticRegression().fit(KNOWN, LABELS), {}, "looks into the model itself"),
        ("coreset", LogisticRegression().fit(KNOWN, LABELS), {"labeled": KNOWN}, r"labeled= is a pair \(X, y\)"),
        ("bait", LogisticRegression().fit(KNOWN, LABELS), {"labeled": (KNOWN, ["oak"] * 20)}, "not fitted on"),
        ("entropy", LogisticRegression, {}, "a model is a torch.nn.Module"),
    ],
)  # fmt: skip
def test_refusals_help(strategy: str, model: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        jostle.select(strategy, model, EXAMPLES, 5, **options)
