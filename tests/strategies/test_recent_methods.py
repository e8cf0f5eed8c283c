"""Methods of 2019 to 2024: what their oracles do not see."""

import pytest
import torch
from torch import Tensor, nn

import jostle
from jostle.strategies.falcun import ContrastiveDraws
from jostle.strategies.ldm_s import seeding_weights


@pytest.mark.parametrize("posterior", ["perturbations", "dropout", "committee"])
def test_epig_cares_about_the_targets_it_is_given(posterior: str) -> None:
    """Left and right halves of the inputs have weights of their own: a label of one side says nothing of the other."""

    class Sides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(8, 2, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.drop(x))

    pool = torch.zeros(20, 8)
    pool[:10, :4], pool[10:, 4:] = torch.randn(10, 4) * 3, torch.randn(10, 4) * 3
    members = [Sides() for _ in range(8)]
    settings = {"members": members} if posterior == "committee" else {"samples": 60, "noise_scale": 0.5}
    strategy = jostle.strategies.build("epig", target=pool[:10] * 1.1, posterior=posterior, **settings)
    model = members[0].eval()
    scores = strategy.embed(model, pool, seed=0)
    assert scores[:10].mean() > 1.5 * scores[10:].mean()


def test_falcun_draws_by_uncertainty_and_distance() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.6, 0.3, 0.1], [1.0, 0.0, 0.0]]).double()
    u = torch.tensor([1.0, 1.0, 0.7, 0.0]).double()
    draw = ContrastiveDraws(gamma=2.0)
    picks = torch.stack([draw.pick(p, 2, weights=u, seed=seed).positions for seed in range(200)])
    first = (u + (u - u.min()) / (u.max() - u.min())).square()
    torch.testing.assert_close(
        picks[:, 0].bincount(minlength=4).double() / 200, first / first.sum(), rtol=0, atol=0.14
    )
    after = picks[picks[:, 0] == 0, 1]
    nearest = torch.minimum(u, (p - p[0]).abs().sum(1))[1:]
    relevance = (u[1:] + (nearest - nearest.min()) / (nearest.max() - nearest.min())).square()
    shares = after.bincount(minlength=4)[1:].double() / len(after)
    torch.testing.assert_close(shares, relevance / relevance.sum(), rtol=0, atol=0.2)


def test_seeding_weights_decay_and_the_rest_weighs_as_much_as_the_batch() -> None:
    metric = torch.tensor([0.4, 0.1, 0.2, 0.3, 0.8]).double()
    gamma = seeding_weights(
        metric, metric.argsort(), 2
    )  # L_n is the third smallest, as in the published code
    rest = torch.tensor([0.4, 0.3, 0.8]).double()
    decay = (-(rest - 0.3).clamp(min=0) / 0.3).exp()
    expected = (2 * decay / decay.sum()).clamp(max=1)
    assert gamma[[1, 2]].tolist() == [1.0, 1.0]
    torch.testing.assert_close(gamma[[0, 3, 4]], expected)
