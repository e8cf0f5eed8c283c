"""Picks over shards are those of one machine, bit for bit: however many shards, and in whatever order they answer."""

import pickle
import random

import pytest
import torch
from selector_oracles import tiny_blocks
from selector_rows import normal
from torch import Tensor

from jostle.rows.geometry import Outer, exact_sums, halved_sums, nearest_distances
from jostle.selectors import KCenter, Selector, selector
from jostle.selectors.shards import LocalShards, Shard


def near_ties() -> Tensor:
    """Rows whose lengths and distances are equal but for rounding, and some that are equal altogether."""
    rows = normal(25, 33)
    shuffled = [rows[:, torch.randperm(33, generator=torch.Generator().manual_seed(s))] for s in range(5)]
    return torch.cat([*shuffled, rows, -rows])


SCENES = {
    "plain": lambda: normal(300, 8),
    "doubles": lambda: normal(200, 8).double(),
    "ties": lambda: torch.randint(-1, 2, (300, 3), generator=torch.Generator().manual_seed(2)).float(),
    "near ties": near_ties,
    "copies": lambda: normal(40, 5).repeat(6, 1) + 100,
    "factors": lambda: Outer(normal(200, 4), 30 * normal(200, 6, seed=1)),
}
SELECTORS = {
    "k-center": selector("k-center"),
    "k-center-unit": selector("k-center-unit"),
    "k-center from a draw": KCenter(origin=False),
    "k-means++": selector("k-means++"),
    "longest": selector("longest"),
}


class Shuffled(LocalShards):
    """Shards whose results come in any order, after functions were pickled as for a cluster."""

    def gather(self, function):
        results = super().gather(pickle.loads(pickle.dumps(function)))
        random.Random(len(results)).shuffle(results)
        return results


def parted(rows: Tensor | Outer, shards: int, seed: int = 0) -> Shuffled:
    """Every row in one of some shards of unequal sizes, in pieces that do not lie together."""
    draws = torch.Generator().manual_seed(seed)
    owner = torch.randint(shards, (len(rows) // 5 + 1,), generator=draws).repeat_interleave(5)[: len(rows)]
    owner[:shards] = torch.arange(shards)
    return Shuffled([Shard(rows[owner == s], (owner == s).nonzero()[:, 0]) for s in range(shards)])


def assert_same_picks(chooser: Selector, rows, shards: int, n: int, centers=None) -> None:
    whole = chooser.pick(rows, n, centers=centers, seed=5)
    parts = chooser.pick_over(parted(rows, shards), n, centers=centers, seed=5)
    assert parts.positions.tolist() == whole.positions.tolist()
    assert parts.scores.numpy().tobytes() == whole.scores.numpy().tobytes()


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("name", SELECTORS)
def test_picks_do_not_depend_on_shards(name: str, scene: str) -> None:
    assert_same_picks(SELECTORS[name], SCENES[scene](), 5, 40)


@pytest.mark.parametrize("name", ["k-center", "k-center-unit", "k-means++"])
def test_nor_with_labeled_centers(name: str) -> None:
    for rows in (normal(300, 8), near_ties(), SCENES["factors"]()):
        assert_same_picks(SELECTORS[name], rows, 7, 30, centers=rows[[3, 50, 50, 120]])


def test_equal_scores_are_drawn_alike() -> None:
    scores = torch.randint(0, 6, (400,), generator=torch.Generator().manual_seed(0)).float()
    assert_same_picks(selector("top-k"), scores, 7, 150)


@pytest.mark.parametrize("name", ["k-center", "k-means++"])
def test_all_rows_can_be_picked_over_shards(name: str) -> None:
    rows = normal(12, 3).repeat(4, 1)
    assert_same_picks(SELECTORS[name], rows, 5, 48)


@pytest.mark.parametrize("name", ["k-center", "k-means++"])
def test_blocks_do_not_matter_either(name: str) -> None:
    rows = near_ties()
    whole = SELECTORS[name].pick(rows, 60, seed=1)
    with tiny_blocks():
        tiny = SELECTORS[name].pick(rows, 60, seed=1)
        over = SELECTORS[name].pick_over(parted(rows, 3), 60, seed=1)
    assert whole.positions.tolist() == tiny.positions.tolist() == over.positions.tolist()
    assert whole.scores.tolist() == tiny.scores.tolist() == over.scores.tolist()


@pytest.mark.parametrize("sums", [exact_sums, halved_sums])
@pytest.mark.parametrize("width", [1, 7, 70_000])
def test_sums_are_the_same_in_every_block_and_for_every_thread(width: int, sums) -> None:
    numbers = normal(7, width).double()
    whole, threads = sums(numbers), torch.get_num_threads()
    torch.testing.assert_close(whole, numbers.sum(1), rtol=1e-11, atol=1e-11)
    try:
        torch.set_num_threads(3)
        for start in range(7):
            for size in (1, 2, 3):
                assert sums(numbers[start : start + size])[0] == whole[start]
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("factors", [False, True])
def test_nearest_distances_are_the_same_whatever_comes_along(factors: bool) -> None:
    rows, centers = (
        Outer(normal(40, 5, seed=s).double(), 1e3 * normal(40, 9, seed=s + 9).double()) for s in (0, 1)
    )
    if not factors:
        rows, centers = rows.dense(), centers.dense()
    whole = nearest_distances(rows, centers)
    by_one = torch.stack([nearest_distances(rows, centers[[c]]) for c in range(40)]).amin(0)
    alone = torch.cat([nearest_distances(rows[[r]], centers) for r in range(40)])
    assert whole.tolist() == by_one.tolist() == alone.tolist()


@pytest.mark.parametrize("name", ["k-dpp", "herding(targets=50)", "weighted-k-means"])
def test_other_selectors_collect_rows_and_weights(name: str) -> None:
    rows, weights = normal(120, 12), normal(120, 1)[:, 0].abs()
    chooser, shards = selector(name), parted(rows, 3)
    for shard in shards.shards:
        shard.weights = weights[shard.places]
    given = {} if name == "k-dpp" else {"weights": weights}
    whole, parts = chooser.pick(rows, 9, seed=5, **given), chooser.pick_over(shards, 9, seed=5)
    assert parts.positions.tolist() == whole.positions.tolist()
    assert parts.scores.tolist() == whole.scores.tolist()
    assert chooser.collects_rows == (not name.startswith("herding"))
