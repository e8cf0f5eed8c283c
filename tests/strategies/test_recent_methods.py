"""Methods of 2019 to 2024 against their definitions, written out by loops."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import jostle
from jostle.strategies.bait import Bait
from jostle.strategies.cal import divergence_from_neighbors
from jostle.strategies.epig import categorical_epig, gaussian_epig
from jostle.strategies.falcun import ContrastiveDraws
from jostle.strategies.ldm_s import least_disagreement, seeding_weights


def net(outputs: int = 3, dropout: float = 0.0) -> nn.Module:
    return (
        nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, outputs)).double().eval()
    )


def test_epig_is_the_mutual_information_of_two_labels() -> None:
    pool, target = torch.randn(6, 5, 3).double().softmax(2), torch.randn(4, 5, 3).double().softmax(2)
    found = categorical_epig(pool, target)
    for i in range(6):
        total = 0.0
        for j in range(4):
            for y, z in product(range(3), range(3)):
                joint = float((pool[i, :, y] * target[j, :, z]).mean())
                total += joint * math.log(joint / float(pool[i, :, y].mean() * target[j, :, z].mean()))
        assert float(found[i]) == pytest.approx(total / 4, rel=1e-9)


def test_epig_of_numbers_is_that_of_correlated_normals() -> None:
    pool, target = torch.randn(6, 40, 1).double(), torch.randn(3, 40, 1).double()
    noise = float(pool[:, :, 0].var(1, unbiased=False).mean())
    found = gaussian_epig(pool, target)
    for i in range(6):
        total = 0.0
        for j in range(3):
            cov = torch.cov(torch.stack([pool[i, :, 0], target[j, :, 0]]), correction=0)
            cov += noise * torch.eye(2).double()
            entropies = 0.5 * (cov[0, 0] * cov[1, 1] / torch.linalg.det(cov)).log()
            total += float(entropies)
        assert float(found[i]) == pytest.approx(total / 3, rel=1e-9)


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


def test_bait_in_its_binary_form_is_bait_of_one_logit() -> None:
    """With two classes, p (1 - p) h h^T is the Fisher information of a single logit."""
    model, pool, known = net(4), torch.randn(15, 4).double(), torch.randn(6, 4).double()
    labeled = TensorDataset(known, torch.arange(6) % 4)
    with Bait(binary=True).context(model, pool, labeled=labeled, seed=0) as context:
        fisher = Bait(binary=True).fisher(context, 3)
    with torch.no_grad():
        both = model[:3](torch.cat([pool, known]))
        p = model(torch.cat([pool, known])).softmax(1).amax(1)
    information = torch.stack([q * (1 - q) * torch.outer(h, h) for q, h in zip(p, both, strict=True)])
    torch.testing.assert_close(fisher.target, information.mean(0))
    seen = torch.eye(8).double() + information[15:].mean(0) * 6 / 9
    torch.testing.assert_close(fisher.inverse, torch.linalg.inv(seen))
    gains = [
        ((torch.linalg.inv(seen) - torch.linalg.inv(seen + one * 3 / 9)) @ information.mean(0)).trace()
        for one in information[:15]
    ]
    torch.testing.assert_close(fisher.gains(), torch.stack(gains))
    query = jostle.select("bait-binary", model, pool, n=3, labeled=labeled, seed=0)
    assert len(set(query.indices.tolist())) == 3


def test_cal_is_the_mean_divergence_from_the_nearest_labels() -> None:
    rows, known = torch.randn(7, 3), torch.randn(5, 3)
    p, q = torch.randn(7, 4).double().softmax(1), torch.randn(5, 4).double().softmax(1)
    found = divergence_from_neighbors(rows, p, known, q, 2)
    for i in range(7):
        near = (known - rows[i]).norm(dim=1).argsort()[:2]
        expected = sum(float((q[j] * (q[j] / p[i]).log()).sum()) for j in near) / 2
        assert float(found[i]) == pytest.approx(expected, rel=1e-9)


def test_clue_takes_one_of_each_uncertain_cluster() -> None:
    """Four clusters; only two of them are uncertain, and two picks go there."""
    model = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[10.0, 0.0], [-10.0, 0.0]]))
    spots = torch.tensor([[0.0, 5.0], [0.0, -5.0], [9.0, 0.0], [-9.0, 0.0]]).double()
    pool = spots.repeat_interleave(6, 0) + 0.01 * torch.randn(24, 2).double()
    query = jostle.select("clue", model, pool, n=2, seed=0)
    assert sorted(query.indices // 6) == [0, 1]


def test_falcun_draws_by_uncertainty_and_distance() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.6, 0.3, 0.1], [1.0, 0.0, 0.0]]).double()
    u = torch.tensor([1.0, 1.0, 0.7, 0.0]).double()
    draw = ContrastiveDraws(gamma=2.0)
    picks = torch.stack([draw.pick(p, 2, weights=u, seed=seed).positions for seed in range(3000)])
    first = (u + (u - u.min()) / (u.max() - u.min())).square()
    torch.testing.assert_close(
        picks[:, 0].bincount(minlength=4).double() / 3000, first / first.sum(), rtol=0, atol=0.04
    )
    after = picks[picks[:, 0] == 0, 1]
    nearest = torch.minimum(u, (p - p[0]).abs().sum(1))[1:]
    relevance = (u[1:] + (nearest - nearest.min()) / (nearest.max() - nearest.min())).square()
    shares = after.bincount(minlength=4)[1:].double() / len(after)
    torch.testing.assert_close(shares, relevance / relevance.sum(), rtol=0, atol=0.05)


def test_the_least_disagree_metric_of_one_weight() -> None:
    """y = [x > w]: a threshold that flips x flips all between w and x, so L is the share of the pool in between."""
    x = torch.tensor([-0.5, -0.3, -0.1, 0.05, 0.2, 0.4]).double()

    def predicted(weight: Tensor, bias: Tensor) -> Tensor:
        return (x > weight[0] + 0 * bias[0]).long()

    draws = torch.Generator().manual_seed(0)
    metric = least_disagreement(predicted, torch.zeros(1), torch.zeros(1), draws, 50)
    assert metric.tolist() == pytest.approx([3 / 6, 2 / 6, 1 / 6, 1 / 6, 2 / 6, 3 / 6])


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
def test_greedy_sampling_by_loops(name: str) -> None:
    model, pool, known, y = net(1), torch.randn(20, 4).double(), torch.randn(5, 4).double(), torch.randn(5, 1)
    query = jostle.select(name, model, pool, n=4, labeled=TensorDataset(known, y), seed=0)
    with torch.no_grad():
        features = model[:3](torch.cat([pool, known]))
        values = torch.cat([model(pool), y.double()])
    chosen = list(range(20, 25))
    picks = []
    for _ in range(4):

        def worth(i: int) -> float:
            apart = [
                float((features[i] - features[j]).norm())
                * (1 if name == "gsx" else float((values[i] - values[j]).abs()))
                for j in chosen
            ]
            return min(apart)

        picks.append(max((i for i in range(20) if i not in chosen), key=worth))
        chosen.append(picks[-1])
    assert query.indices.tolist() == picks


def test_greedy_sampling_starts_in_the_middle() -> None:
    pool = torch.tensor([[0.0], [4.0], [10.0], [5.5]])
    query = jostle.select("gsx", nn.Linear(1, 1), pool, n=3, seed=0)
    assert query.indices.tolist() == [3, 0, 2]  # the mean is 4.875
