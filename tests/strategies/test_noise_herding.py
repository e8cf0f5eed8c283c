"""What is perturbed for noise herding and flip cover: the smallest margins, and the labeled set."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import strategies
from jostle.embeddings.deviations import Deviations
from jostle.inference.context import QueryContext
from jostle.inputs import Pool


@pytest.mark.parametrize("name", ["noise-herding", "flip-cover"])
def test_only_the_smallest_margins_are_perturbed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    rows = Deviations.rows

    def watched(self: Deviations, context: QueryContext, *pools: Pool) -> Tensor:
        sizes.append(sum(map(len, pools)))
        return rows(self, context, *pools)

    monkeypatch.setattr(Deviations, "rows", watched)
    strategy = strategies.build(name, candidates_per_pick=4)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    labeled = TensorDataset(torch.randn(9, 4), torch.arange(9) % 3)
    strategy.select(model, torch.randn(200, 4), 5, labeled=labeled, seed=0)
    regressor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    known = TensorDataset(torch.randn(9, 4), torch.randn(9, 1))
    strategy.select(regressor, torch.randn(3000, 4), 5, labeled=known, seed=0)
    assert sizes == [4 * 5 + 9, 2048 + 9]
