import pytest
import torch
from torch import Tensor

from jostle.selectors import break_ties, tie_keys
from jostle.selectors.clusters import k_means
from jostle.selectors.prob_cover import SURFACE, BallGraph, pure_radius
from jostle.selectors.prob_cover import ProbCover as Cover


def naive(rows: Tensor, n: int, delta: float, centers: Tensor | None = None) -> tuple[list[int], list[int]]:
    """The whole graph, edges to covered rows removed at every pick; ties as seed 0 draws them."""
    keys = tie_keys(0, torch.arange(len(rows)))
    edges = torch.cdist(rows, rows) < delta
    covered = torch.zeros(len(rows), dtype=torch.bool)
    if centers is not None:
        covered = (torch.cdist(rows, centers) < delta).any(1)
    picks, gains = [], []
    for _ in range(n):
        degrees = (edges & ~covered).sum(1)
        picks.append(break_ties(degrees, keys))
        gains.append(int(degrees.max()))
        covered |= edges[picks[-1]]
    return picks, gains


@pytest.mark.parametrize("with_centers", [False, True])
@pytest.mark.parametrize("pairs", [2**22, 1000])  # kept, and computed again
def test_picks_equal_those_on_the_whole_graph(
    with_centers: bool, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jostle.selectors.prob_cover.MAX_PAIRS", pairs)
    rows = torch.randn(1500, 3).double()  # more than a block
    centers = torch.randn(9, 3).double() if with_centers else None
    picks = Cover(delta=0.6).pick(rows, 30, centers=centers, seed=0)
    positions, gains = naive(rows, 30, 0.6, centers)
    assert picks.positions.tolist() == positions
    assert picks.scores.tolist() == gains
    assert (picks.scores.diff() <= 0).all()


@pytest.mark.parametrize("scale", [1.0, 1e25])
def test_pairs_that_single_precision_cannot_tell_are_measured(scale: float) -> None:
    rows = torch.randn(40, 30).repeat(5, 1).double()
    rows += 1e-9 * torch.randn(200, 30).double()  # all distances within a group are nearly one
    apart = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    around = apart[::40, 1::40].flatten().sort().values  # of the pairs of two groups
    delta = float(around[12:14].mean()) / SURFACE**0.5
    within = (apart < SURFACE**0.5 * delta).sum(1)
    graph = BallGraph(rows * scale, SURFACE * (delta * scale) ** 2)
    assert graph.count_neighbors(torch.arange(200)).tolist() == within.tolist()


def test_the_pure_radius_is_the_largest() -> None:
    rows = torch.randn(60, 2).double()
    cells, _ = k_means(rows, 4, seed=0)
    radius = pure_radius(rows, cells, 0.9)

    def purity(delta: float) -> float:
        mixed = (torch.cdist(rows, rows) < delta) & (cells[:, None] != cells)
        return float((~mixed.any(1)).double().mean())

    assert purity(radius - 1e-9) >= 0.9
    assert purity(radius + 1e-6) < 0.9
    assert pure_radius(rows, torch.zeros(60), 0.9) == float("inf")


def test_a_row_on_the_surface_is_outside_whatever_rounding_does() -> None:
    rows = torch.tensor([[0.0], [1.0], [5.0]])
    for scale in [seventh / 7 for seventh in range(1, 50)]:  # in double precision, the rows in single
        assert float(Cover(delta=scale).pick(rows * scale, 1).scores) == 1
