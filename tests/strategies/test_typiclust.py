import numpy as np
import torch
from skactiveml.pool import TypiClust as PeerTypiClust

from jostle.selectors.typical import Typical, typical


def arms(center: float, steps: int) -> torch.Tensor:
    """A middle and 2 * steps points beside it, ever farther apart: the middle is the most typical."""
    beside = torch.arange(1, steps + 1).cumsum(0)
    line = torch.cat([torch.zeros(1), beside, -beside]) + center
    return torch.stack([line, torch.zeros_like(line)], 1)


def test_scikit_activeml_picks_the_same_middles() -> None:
    rows = torch.cat([arms(0, 4), arms(500, 6), arms(-500, 8)])
    peer = PeerTypiClust(random_state=0, k=4).query(rows.numpy(), np.full(len(rows), np.nan), batch_size=3)
    assert typical(rows, 3, seed=0).tolist() == peer.tolist() == [22, 9, 0]  # the largest cluster first


def test_more_picks_than_clusters_come_in_turn() -> None:
    rows = torch.cat([arms(0, 8), arms(900, 6)])
    picks = Typical(clusters=2).pick(rows, 6, seed=0)
    assert (picks.positions >= 17).int().tolist() == [0, 1, 0, 1, 0, 1]
    assert picks.positions[:2].tolist() == [0, 17]
    assert sorted(typical(rows, 30, seed=0).tolist()) == list(range(30))
