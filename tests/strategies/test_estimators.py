"""scikit-learn estimators as models: the picks of their probabilities, for classifiers, pipelines and regressors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import jostle

RNG = np.random.default_rng(0)
X: NDArray[np.float64] = RNG.normal(size=(80, 5)) * [1, 10, 0.1, 3, 1]
Y = np.array(["ash", "birch", "cedar"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 5)]
POOL, KNOWN, LABELS = X[20:], X[:20], Y[:20]


def picks(*arguments: Any, **options: Any) -> list[int]:
    return list(jostle.select(*arguments, **options, seed=1))


def test_a_classifier_is_asked_for_its_probabilities() -> None:
    forest = RandomForestClassifier(10, random_state=0).fit(KNOWN, LABELS)
    p = forest.predict_proba(POOL)
    assert picks("entropy", forest, POOL, 5) == picks("entropy", probabilities=p, n=5)
    assert 3 not in picks("margin", forest, POOL, 30, exclude=[3])


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
            name, probabilities=pipeline.predict_proba(POOL), features=scaled(POOL), n=5, labeled=known
        )
        assert picks(name, pipeline, POOL, 5, labeled=(KNOWN, LABELS)) == wanted


def test_a_pipeline_of_texts_gives_sparse_features() -> None:
    texts = [f"{Y[i]} {'leaf' if X[i, 2] > 0 else 'bark'} {i % 7}" for i in range(80)]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, Y)
    dense = pipeline[:-1].transform(texts).toarray()
    wanted = picks("badge", probabilities=pipeline.predict_proba(texts), features=dense, n=6)
    assert picks("badge", pipeline, texts, 6) == wanted


def test_members_of_a_committee_may_be_estimators() -> None:
    members = [LogisticRegression(C=c).fit(KNOWN, LABELS) for c in (0.01, 1.0, 100.0)]
    wanted = picks("qbc", members=[member.predict_proba(POOL) for member in members], n=4)
    assert picks("qbc", members[0], POOL, 4, members=members) == wanted


def test_a_regressor_gives_numbers() -> None:
    ridge = Ridge().fit(KNOWN, KNOWN[:, 0])
    labeled = {"features": KNOWN, "labels": KNOWN[:, 0]}
    wanted = picks(
        "coreset", features=POOL, probabilities=ridge.predict(POOL), n=5, task="regression", labeled=labeled
    )
    assert picks("coreset", ridge, POOL, 5, labeled=(KNOWN, KNOWN[:, 0])) == wanted


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
        jostle.select(strategy, model, POOL, 5, **options)
