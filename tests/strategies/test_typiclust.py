import numpy as np
import pytest
import torch
from skactiveml.pool import TypiClust as PeerTypiClust
from torch import nn
from torch.utils.data import TensorDataset

from jostle.selectors.typical import Typical, typical
from jostle.strategies import select


def rose(center: tuple[float, float], petals: int) -> torch.Tensor:
    """A middle and points around it: the middle is the most typical however that is measured."""
    angles = torch.arange(petals) * (2 * torch.pi / petals)
    around = torch.stack([angles.cos(), angles.sin()], 1)
    return torch.cat([torch.zeros(1, 2), around]) + torch.tensor(center)


def test_the_outlier_is_never_picked() -> None:
    blob, outlier = 0.1 * torch.randn(30, 2), torch.tensor([[40.0, 40.0]])
    rows = torch.cat([outlier, blob])
    for n in (1, 2, 5, 20, 30):
        assert 0 not in typical(rows, n, seed=n)
    assert 0 in typical(rows, 31, seed=0)


def test_typicality_by_hand() -> None:
    rows = torch.tensor([[0.0], [1], [3], [7]]).double()  # two of three neighbours count
    expected = 1 / (torch.tensor([(1 + 9) / 2, (1 + 4) / 2, (4 + 9) / 2, (16 + 36) / 2]).double() + 1e-5)
    torch.testing.assert_close(Typical().typicality(rows), expected)
    assert typical.pick(rows, 1, seed=0).positions.tolist() == [1]


def test_scikit_activeml_picks_the_same_middles() -> None:
    parts = [rose((0, 0), 12), rose((50, 0), 10), rose((0, 50), 8)]
    rows = torch.cat(parts)
    peer = PeerTypiClust(random_state=0, k=5).query(rows.numpy(), np.full(len(rows), np.nan), batch_size=3)
    assert sorted(typical(rows, 3, seed=0).tolist()) == sorted(peer.tolist()) == [0, 13, 24]


def test_clusters_with_labels_wait() -> None:
    first, second, third = rose((0, 0), 14), rose((50, 0), 10), rose((0, 50), 8)
    model = nn.Sequential(nn.Identity(), nn.Linear(2, 2))
    labeled = TensorDataset(first[:1], torch.zeros(1).long())
    pool = torch.cat([first[1:], second, third])
    query = select("typiclust", model, pool, n=2, labeled=labeled, seed=0)
    assert query.indices.tolist() == [14, 25]  # middles of the second and third, the larger one first


def test_more_picks_than_clusters_come_in_turn() -> None:
    rows = torch.cat([rose((0, 0), 9), rose((90, 0), 7)])
    picks = Typical(clusters=2).pick(rows, 6, seed=0)
    assert (picks.positions >= 10).int().tolist() == [0, 1, 0, 1, 0, 1]
    assert picks.positions[:2].tolist() == [0, 10]
    assert sorted(typical(rows, 18, seed=0).tolist()) == list(range(18))


def test_features_can_be_given_and_labels_are_not_needed() -> None:
    rows = torch.cat([rose((0, 0), 9), rose((90, 0), 7)])
    query = select("typiclust", nn.Linear(3, 1), torch.randn(18, 3), n=2, seed=0, head=lambda model, x: rows)
    assert query.indices.tolist() == [0, 10]


def test_copies_give_distinct_finite_picks() -> None:
    picks = typical.pick(torch.ones(8, 3), 8, seed=0)
    assert sorted(picks.positions.tolist()) == list(range(8))
    assert picks.scores.isfinite().all()
    with pytest.raises(ValueError, match="clusters and neighbours are at least 1"):
        Typical(neighbours=0)
