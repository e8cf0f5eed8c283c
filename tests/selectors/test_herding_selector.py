"""Herding against the formula worked out with all kernels at once, and what is cut for large pools."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from jostle.rows.geometry import squared_distances, unit_length
from jostle.selectors import Weighing, explained_variance, herding
from jostle.selectors.herding import Herding, max_herding


def plain_greedy(
    rows: Tensor, n: int, centers: Tensor | None, weights: Tensor, sigma: float
) -> tuple[list[int], list[float]]:
    """Every kernel at once, every gain at every step."""
    unit = rows / rows.norm(dim=1, keepdim=True)
    apart = torch.cdist(unit, unit, compute_mode="donot_use_mm_for_euclid_dist")
    kernel = torch.exp(-apart.square() / sigma**2)
    covered = torch.zeros(len(rows), dtype=rows.dtype)
    if centers is not None:
        known = centers / centers.norm(dim=1, keepdim=True)
        covered = torch.exp(-torch.cdist(known, unit).square() / sigma**2).amax(0)
    picks, gains = list[int](), list[float]()
    for _ in range(n):
        gain = ((kernel - covered).clamp(min=0) * weights).sum(1)
        gain[picks] = -1
        best = int(gain.argmax())
        picks.append(best)
        gains.append(float(gain[best]))
        covered = torch.maximum(covered, kernel[best])
    return picks, gains


@pytest.fixture
def rows() -> Tensor:
    return torch.randn(300, 4, dtype=torch.float64)


@pytest.mark.parametrize("labeled", [0, 9])
@pytest.mark.parametrize("look", [1, 64])
def test_lazy_picks_are_those_of_the_plain_algorithm(
    rows: Tensor, labeled: int, look: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(herding, "LOOK", look)
    centers = torch.randn(labeled, 4, dtype=torch.float64) if labeled else None
    weights = torch.rand(300, dtype=torch.float64)
    known = None if centers is None else centers / centers.norm(dim=1, keepdim=True)
    sigma = Herding().sigma(known)
    picks = Herding().pick(rows, 40, centers=centers, weights=weights, seed=0)
    expected, gains = plain_greedy(rows, 40, centers, weights, sigma)
    assert picks.positions.tolist() == expected
    torch.testing.assert_close(picks.scores, torch.tensor(gains, dtype=torch.float64))


def test_the_width_follows_the_labeled_rows() -> None:
    angles = torch.tensor([0.0, 10.0, 40.0, 180.0]).deg2rad()
    known = torch.stack([angles.cos(), angles.sin()], 1)
    chord = [2 * math.sin(math.radians(a / 2)) for a in (10, 10, 30, 140)]  # to the nearest other one
    assert Herding(width="smallest").sigma(known) == pytest.approx(chord[0], rel=1e-3)
    assert Herding(width="median").sigma(known) == pytest.approx(sorted(chord)[1], rel=1e-3)
    assert Herding(width=0.3).sigma(known) == 0.3
    assert Herding().sigma(None) == Herding().sigma(known[:1]) == 1.0
    assert Herding(width="smallest").sigma(known[[0, 0]]) == 1.0  # nothing but copies says nothing


def test_targets_of_large_pools_stand_for_all_rows() -> None:
    weights = torch.rand(2000, dtype=torch.float64) ** 3
    values = torch.rand(2000, dtype=torch.float64)
    sums = []
    for seed in range(300):
        few, shares = herding.sample_targets(weights, 100, torch.Generator().manual_seed(seed))
        assert len(few.unique()) == 100
        sums.append(float(shares @ values[few]))
    exact = float(weights @ values)
    error = torch.tensor(sums).std().item() / math.sqrt(len(sums))
    assert abs(sum(sums) / len(sums) - exact) < 4 * error
    assert error < 0.02 * exact


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_labeled_example_that_is_there_twice_says_nothing_of_the_smallest_gap(dtype: torch.dtype) -> None:
    for width in (10, 64, 128, 512):
        centers = unit_length(torch.rand(100, width, dtype=dtype))
        copies = torch.cat([centers, centers[:1], centers[1:2] * (1 + torch.finfo(dtype).eps)])
        assert herding.smallest_gap(copies) == pytest.approx(herding.smallest_gap(centers), rel=1e-3)


def test_gaps_of_many_centers_are_found_in_blocks() -> None:
    centers = torch.randn(1500, 3, dtype=torch.float64)  # more than a block of all pairs holds
    apart = torch.cdist(centers, centers).fill_diagonal_(torch.inf).amin(1)
    torch.testing.assert_close(herding.other_distances(centers), apart)
    held = list[int]()

    def watched(rows: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        held.append(len(rows) * len(others))
        return squared_distances(rows, others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(herding, "squared_distances", watched)
        herding.other_distances(centers)
    assert max(held) <= 2**20 < sum(held)


def test_what_is_left_once_all_is_covered_is_drawn() -> None:
    rows = torch.eye(3).repeat_interleave(100, 0)  # a pool that is sorted
    picks = [max_herding.pick(rows, 33, seed=seed) for seed in (0, 0, 1)]
    kinds = [(each.positions // 100).bincount(minlength=3) for each in picks]
    assert all(sorted((each.positions[:3] // 100).tolist()) == [0, 1, 2] for each in picks)
    assert picks[0].scores[3:].tolist() == [0.0] * 30
    assert picks[0].positions.tolist() == picks[1].positions.tolist() != picks[2].positions.tolist()
    assert all(int(each.min()) > 3 for each in kinds)
    assert all(len(each.positions.unique()) == 33 for each in picks)


@pytest.mark.parametrize("selector", [max_herding, explained_variance])
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (torch.ones(250), r"one number for each of 300 rows; got \(250,\)"),
        (torch.ones(350), r"one number for each of 300 rows; got \(350,\)"),
        (torch.ones(300, 1), r"one number for each of 300 rows; got \(300, 1\)"),
        (-torch.ones(300), "not below 0; got -1 to -1"),
        (torch.full((300,), torch.nan), "finite"),
    ],
)
def test_weights_that_cannot_be_are_refused(
    rows: Tensor, selector: Weighing, weights: Tensor, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        selector.pick(rows, 3, weights=weights)


@pytest.mark.parametrize("width", [8, 64, 256])
@pytest.mark.parametrize("sigma", [1e-2, 1e-3])
def test_a_narrow_kernel_is_not_decided_by_the_rounding_of_single_precision(sigma: float, width: int) -> None:
    rows = torch.randn(20, width).repeat_interleave(10, 0) + sigma / 2 * torch.randn(200, width)
    weights = torch.rand(200)
    expected, gains = plain_greedy(rows.double(), 20, None, weights.double(), sigma)
    picks = Herding(width=sigma).pick(rows, 20, weights=weights, seed=0)
    assert picks.positions.tolist() == expected
    torch.testing.assert_close(picks.scores, torch.tensor(gains, dtype=torch.float64), rtol=1e-4, atol=0)
