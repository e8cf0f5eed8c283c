"""The map keeps neighbors together, is made in steps, and regions are what they look like."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from labeling_data import COLORS, colored_folder
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors

from jostle.labeling import Session
from jostle.labeling.training.example_map import (
    ExampleMap,
    MapBuilder,
    embed_neighbors,
    first_map,
    inside_polygon,
    nearest_neighbors,
    warm_start,
)


@pytest.fixture(scope="module")
def digits() -> ExampleMap:
    rows = load_digits().data[:900].astype(np.float32)
    return first_map([f"{i:032x}" for i in range(len(rows))], rows, seed=0)


def test_most_neighbors_are_the_nearest_of_all(digits: ExampleMap) -> None:
    found = nearest_neighbors(digits.reduced, 10, seed=0)
    exact = NearestNeighbors(n_neighbors=10).fit(digits.reduced).kneighbors(return_distance=False)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    assert shared > 0.85
    assert not (found == np.arange(len(found))[:, None]).any()
    assert all(len(set(row)) == 10 for row in found.tolist())


def test_the_map_keeps_neighbors_better_than_pca(digits: ExampleMap) -> None:
    rows = load_digits().data[:900]
    near = nearest_neighbors(digits.reduced, 12, seed=0)
    last = list(embed_neighbors(digits.positions, near, seed=0))[-1]
    assert np.isfinite(last).all()
    kept = trustworthiness(rows, last, n_neighbors=10)
    assert kept > 0.96
    assert kept > trustworthiness(rows, digits.positions, n_neighbors=10) + 0.05


def test_pca_is_that_of_scikit_learn(digits: ExampleMap) -> None:
    from sklearn.decomposition import PCA

    rows = load_digits().data[:900]
    known = PCA(2).fit_transform(rows)
    for axis in (0, 1):
        assert abs(np.corrcoef(known[:, axis], digits.positions[:, axis])[0, 1]) > 0.999


def test_a_map_with_new_examples_begins_where_the_old_one_was(digits: ExampleMap) -> None:
    old = replace(digits, keys=digits.keys[:800], positions=digits.positions[:800], stage="neighbors")
    near = nearest_neighbors(digits.reduced, 12, seed=0)
    start = warm_start(digits, near, old)
    np.testing.assert_array_equal(start[:800], digits.positions[:800])
    for place in range(800, 810):
        there = [other for other in near[place] if other < 800]
        np.testing.assert_allclose(start[place], digits.positions[there].mean(0), rtol=1e-4)


def test_similar_examples_come_first(digits: ExampleMap) -> None:
    gaps = np.linalg.norm(digits.reduced - digits.reduced[5], axis=1)
    assert digits.nearest(digits.reduced[5], 20).tolist() == np.argsort(gaps, kind="stable")[:20].tolist()


def test_a_region_holds_what_lies_inside_it() -> None:
    points = np.random.default_rng(0).uniform(-2, 2, size=(2000, 2)).astype(np.float32)
    diamond = abs(points).sum(1) < 1
    notch = (points[:, 1] > abs(points[:, 0])) & diamond  # the quarter that a fifth corner cuts out
    inside = inside_polygon(points, [(1, 0), (0, -1), (-1, 0), (-0.5, 0.5), (0, 0), (0.5, 0.5)])
    np.testing.assert_array_equal(inside, diamond & ~notch)


@pytest.mark.parametrize("count", [4, 40])
def test_a_map_is_made_in_steps_and_once(tmp_path: Path, count: int) -> None:
    session = Session.open(colored_folder(tmp_path / "colors", count), answers=COLORS, encoder="pixels")
    builder = MapBuilder(session)
    assert not builder.step()  # nothing is encoded yet
    session.train()
    builder.check()
    assert builder.step()
    first = ExampleMap.load(session.map_folder)
    assert first.stage == "pca"
    while builder.step():
        pass
    done = ExampleMap.load(session.map_folder)
    assert (done.stage, len(done.keys)) == ("neighbors", count)
    assert np.isfinite(done.positions).all()
    builder.check()
    assert not builder.step()
    session.close()
