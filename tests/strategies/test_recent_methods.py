"""Methods of 2019 to 2024: what their oracles do not see."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from torch import Tensor, nn
from torch.utils.data import TensorDataset

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
    settings = {"members": members} if posterior == "committee" else {"samples": 200, "noise_scale": 0.5}
    strategy = jostle.strategies.build("epig", target=pool[:10] * 1.1, posterior=posterior, **settings)
    model = members[0].eval()
    scores = strategy.embed(model, pool, seed=0)
    assert scores[:10].mean() > 1.5 * scores[10:].mean()


def test_falcun_draws_by_uncertainty_and_distance() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.6, 0.3, 0.1], [1.0, 0.0, 0.0]]).double()
    u = torch.tensor([1.0, 1.0, 0.7, 0.0]).double()
    draw = ContrastiveDraws(gamma=2.0)
    picks = torch.stack([draw.pick(p, 2, weights=u, seed=seed).positions for seed in range(500)])
    first = (u + (u - u.min()) / (u.max() - u.min())).square()
    torch.testing.assert_close(
        picks[:, 0].bincount(minlength=4).double() / 500, first / first.sum(), rtol=0, atol=0.1
    )
    after = picks[picks[:, 0] == 0, 1]
    nearest = torch.minimum(u, (p - p[0]).abs().sum(1))[1:]
    relevance = (u[1:] + (nearest - nearest.min()) / (nearest.max() - nearest.min())).square()
    shares = after.bincount(minlength=4)[1:].double() / len(after)
    torch.testing.assert_close(shares, relevance / relevance.sum(), rtol=0, atol=0.15)


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


@pytest.mark.parametrize("name", ["igs", "gsx"])
def test_greedy_sampling_picks_as_scikit_activeml_does(name: str) -> None:
    pool = pytest.importorskip("skactiveml.pool")
    regressor = pytest.importorskip("skactiveml.regressor").SklearnRegressor(LinearRegression())
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.full(40, np.nan)
    y[:8] = x[:8, 0] ** 2
    fitted = regressor.fit(x, y)
    if name == "igs":
        picks = pool.GreedySamplingTarget(random_state=0).query(x, y, reg=fitted, fit_reg=False, batch_size=6)
    else:
        picks = pool.GreedySamplingX(random_state=0).query(x, y, batch_size=6)
    model = nn.Linear(3, 1).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(fitted.coef_)[None])
        model.bias.fill_(fitted.intercept_)
    labeled = TensorDataset(torch.from_numpy(x[:8]), torch.from_numpy(y[:8, None]))
    query = jostle.select(name, model, torch.from_numpy(x[8:]), n=6, labeled=labeled, seed=0)
    assert (query.indices + 8).tolist() == picks.tolist()
