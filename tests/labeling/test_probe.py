"""Probes against scikit-learn, and against leaving examples out one by one."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from jostle.labeling.training.learners import (
    RIDGES,
    SIGMOIDS,
    SOFTMAX,
    Loss,
    Probe,
    _fit_path,
    fit_classifier,
    fit_regressor,
)


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 120)
    rows = rng.normal(size=(120, 40)) + 1.5 * np.eye(3, 40)[labels]
    return rows.astype(np.float32), labels


@pytest.mark.parametrize("loss", [SOFTMAX, SIGMOIDS])
def test_probabilities_are_scikit_learns(loss: Loss, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    """Sigmoids are a classifier for each class, softmax is one for all."""
    rows, labels = blobs
    targets = (
        np.eye(3)[labels] if loss is SOFTMAX else np.stack([labels == 0, labels != 1], axis=1).astype(float)
    )
    [(weight, bias)] = _fit_path(loss, rows.astype(float), targets, (1e-2,))
    ours = loss.probabilities(rows @ weight.T + bias)
    theirs = LogisticRegression(C=1 / (1e-2 * len(rows)), max_iter=1000, tol=1e-8)
    if loss is SOFTMAX:
        expected = theirs.fit(rows, labels).predict_proba(rows)
    else:
        expected = np.stack([theirs.fit(rows, each).predict_proba(rows)[:, 1] for each in targets.T], axis=1)
    np.testing.assert_allclose(ours, expected, atol=2e-3)


def test_held_out_predictions_have_not_seen_their_examples(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    rows, _ = blobs
    noise = np.random.default_rng(1).integers(0, 2, 120)  # nothing can be learned
    _, held_out = fit_classifier(SOFTMAX, rows, np.arange(120), np.eye(2)[noise], seed=0)
    assert (held_out.argmax(1) == noise).mean() < 0.65
    assert held_out.max(1).mean() < 0.65  # and the temperature says so


def test_confidence_means_what_it_says(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 2000)
    rows = (rng.normal(size=(2000, 40)) + 1.2 * np.eye(3, 40)[labels]).astype(np.float32)
    probe, _ = fit_classifier(SOFTMAX, rows, np.arange(150), np.eye(3)[labels[:150]], seed=0)
    with torch.no_grad():
        sure = probe(torch.from_numpy(rows[150:])).softmax(1)
    right = (sure.argmax(1).numpy() == labels[150:]).mean()
    assert right > 0.6
    assert float(sure.max(1).values.mean()) == pytest.approx(right, abs=0.06)


def test_ridge_is_left_out_one_by_one() -> None:
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(60, 8)).astype(np.float32)
    targets = pool @ rng.normal(size=8) + rng.normal(size=60)
    places = np.arange(30)
    probe, held_out = fit_regressor(pool, places, targets[:30].astype(float))
    rows = Probe(pool, 1).features(pool)[:30]
    scale = float((np.linalg.svd(rows - rows.mean(0))[1] ** 2).mean())

    def left_out(ridge: float) -> np.ndarray:
        found = []
        for one in range(30):
            rest = np.arange(30) != one
            shifted = rows[rest] - rows.mean(0)  # the whole's center, as in the short way
            fitted = Ridge(ridge * scale, fit_intercept=True).fit(shifted, targets[:30][rest])
            found.append(float(fitted.predict(rows[one : one + 1] - rows.mean(0))[0]))
        return np.array(found)

    errors = {ridge: float(((left_out(ridge) - targets[:30]) ** 2).mean()) for ridge in RIDGES}
    best = min(errors, key=lambda ridge: errors[ridge])
    np.testing.assert_allclose(held_out[:, 0], left_out(best), atol=0.02)
    whole = Ridge(best * scale).fit(rows, targets[:30])
    with torch.no_grad():
        ours = probe(torch.from_numpy(pool))[:, 0].numpy()
    np.testing.assert_allclose(ours, whole.predict(Probe(pool, 1).features(pool)), atol=1e-3)
