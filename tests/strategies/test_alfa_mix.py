from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle.strategies import AlfaMix, select
from jostle.strategies.alfa_mix import Mixing


def two_classes(d: int) -> nn.Module:
    """Features are the inputs, the head is linear with two classes."""
    return nn.Sequential(nn.Identity(), nn.Linear(d, 2)).double()


def test_sure_predictions_flip_in_single_precision_as_they_should() -> None:
    d, model = 6, two_classes(6).float()
    with torch.no_grad():
        model[1].weight.mul_(50)
        model[1].weight[1].add_(200)  # what both logits share moves no prediction
        model[1].weight[0].add_(200)
    pool, known, classes = 3 * torch.randn(400, d), 3 * torch.randn(20, d), torch.arange(20) % 2
    scores = AlfaMix(cap_step=1.0).embed(model, pool, labeled=TensorDataset(known, classes), seed=0)
    weight, bias = model[1].weight[1] - model[1].weight[0], model[1].bias[1] - model[1].bias[0]
    to_plane = (pool @ weight + bias).abs() / weight.norm()
    means = torch.stack([known[classes == c].mean(0) for c in (0, 1)])
    reach = torch.cdist(pool, means).amax(1) / d**0.5
    clear = (reach / to_plane - 1).abs() > 0.05
    assert ((to_plane * weight.norm() > 30) & (reach > to_plane) & clear).sum() > 20
    assert torch.equal(scores.squeeze(1)[clear], (reach > to_plane).float()[clear])


def test_once_all_have_flipped_no_empty_batch_reaches_the_head() -> None:
    class Strict(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            assert len(x) > 0
            return super().forward(x)

    model = nn.Sequential(nn.Identity(), Strict(4, 2))
    nn.init.zeros_(model[1].bias)
    pool, far = 1e-3 * torch.randn(5, 4), 100 * torch.randn(6, 4)
    labeled = TensorDataset(far, torch.arange(6) % 2)
    query = select("alfa-mix", model, pool, n=5, labeled=labeled, seed=0)
    assert sorted(query.indices.tolist()) == list(range(5))
    assert (query.scores > 0).all()


def adam_by_hand(model: nn.Module, z: Tensor, anchor: Tensor, share: Tensor, steps: int) -> list[Tensor]:
    """The mixtures that Adam meets under a linear head, from its formulas and the loss's gradient in closed form."""
    predicted = nn.functional.one_hot(model[1](z).argmax(1), 2)
    first, second, mixtures = torch.zeros_like(share), torch.zeros_like(share), []
    for step in range(1, steps + 1):
        mixtures.append(z + share * (anchor - z))
        upwards = (model[1](mixtures[-1]).softmax(1) - predicted) @ model[1].weight * (anchor - z)
        gradient = 0.01 * share / share.square().sum(1, keepdim=True).sqrt() - upwards
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        lr = 0.1 if step <= 4 else 0.01  # the last two of six
        share = share - lr * first / (1 - 0.9**step) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
        share = share.clamp(1e-8, 0.9)
    return [*mixtures, z + share * (anchor - z)]


def test_every_step_of_the_optimized_form_by_hand() -> None:
    model, z, anchors = two_classes(5), torch.randn(7, 5).double(), torch.randn(2, 5).double()
    context = SimpleNamespace(rng=lambda *purpose: torch.Generator().manual_seed(purpose[2]))
    mixing = Mixing(model[1], z, model[1](z).argmax(1), anchors)
    settings = AlfaMix(form="optimized", steps=6)
    met = list(mixing.optimized(torch.arange(7), 0.9, settings, context))  # type: ignore[arg-type]
    expected: list[Tensor] = []
    for number, anchor in enumerate(anchors):
        normal = torch.randn(7, 5, generator=context.rng("", "", number), dtype=torch.float64)
        share = (0.45 + 0.45 * normal).clamp(1e-8, 0.9)
        expected += adam_by_hand(model, z, anchor, share, 6)
    assert len(met) == 2 * 7
    torch.testing.assert_close(torch.stack(met), torch.stack(expected).detach(), rtol=1e-7, atol=1e-9)


def test_the_head_must_lead_to_the_outputs() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.classifier = (
                nn.Linear(4, 5),
                nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)),
            )

        def forward(self, x: Tensor) -> Tensor:
            return 3 * self.classifier(torch.relu(self.body(x)))

    x, labeled = torch.randn(20, 4), TensorDataset(torch.randn(6, 4), torch.arange(6) % 3)
    with pytest.raises(ValueError, match=r"'classifier.2' of features .* is not the model's outputs"):
        select("alfa-mix", Scaled(), x, n=3, labeled=labeled)
    with pytest.raises(ValueError, match="got a function: name the module"):
        select("alfa-mix", Scaled(), x, n=3, labeled=labeled, head=lambda model, x: x)

    class Plain(Scaled):
        def forward(self, x: Tensor) -> Tensor:
            return self.classifier(torch.relu(self.body(x))).log_softmax(1)

    assert len(select("alfa-mix", Plain(), x, n=3, labeled=labeled, head="classifier")) == 3


def test_copies_that_flip_come_before_examples_that_do_not() -> None:
    """Ten examples flip in one direction, so that they are one cluster; the rest of the batch is theirs too."""
    model = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    near = torch.tensor([0.1, 1.0]).double() * torch.arange(1, 11).double()[:, None]
    pool = torch.cat([torch.tensor([9.0, 0.0]).double().expand(30, 2), near])
    labeled = TensorDataset(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).double(), torch.tensor([0, 1]))
    query = select("alfa-mix", model, pool, n=5, labeled=labeled, seed=0)
    assert set(query.indices.tolist()) <= set(range(30, 40))
