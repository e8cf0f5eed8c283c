"""None"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import models
from jostle.strategies import SRAAL, VAAL, adversarial
from jostle.strategies.adversarial import uncertainty
from jostle.strategies.autoencoders import (
    Frame,
    Generator,
    perceptron,
    standardize,
    target_learner,
)
from jostle.tasks import Classification


def black_and_white(seed: int = 0) -> tuple[TensorDataset, Tensor, set[int]]:
    """40 labeled images, all black; 100 others, ten of them white, at these positions."""
    rng = torch.Generator().manual_seed(seed)
    white = torch.randperm(100, generator=rng)[:10]
    pool = 0.05 * torch.randn(100, 1, 8, 8, generator=rng)
    pool[white] += 1
    labeled = TensorDataset(0.05 * torch.randn(40, 1, 8, 8, generator=rng), torch.arange(40) % 10)
    return labeled, pool, set(white.tolist())


@pytest.fixture
def model() -> nn.Module:
    return models.build("digits-cnn", seed=0)


def test_weights_of_the_published_number() -> None:
    def weights(network: nn.Module) -> int:
        return sum(p.numel() for p in network.parameters())

    with torch.device("meta"):
        assert weights(Generator(Frame(3, 32, light=False), 32)) == 22_835_139
        assert weights(Generator(Frame(1, 28, light=True), 32)) < 500_000
        assert weights(perceptron(32, 512, 512, 1)) == 32 * 512 + 512 + 512 * 512 + 512 + 512 + 1


@pytest.mark.parametrize(
    ("settings", "shape", "expected"),
    [
        ({}, (1, 8, 8), Frame(1, 8, True)),
        ({}, (1, 28, 28), Frame(1, 28, True)),
        ({"encoder": "full"}, (1, 28, 28), Frame(1, 28, False)),
        ({}, (3, 32, 32), Frame(3, 32, False)),
        ({"encoder": "light"}, (3, 32, 30), Frame(3, 32, True)),
        ({}, (3, 224, 160), Frame(3, 64, False)),
        ({"resize": 128}, (3, 688, 688), Frame(3, 128, False)),
    ],
)
def test_images_of_every_size_are_framed(
    settings: dict[str, Any], shape: tuple[int, ...], expected: Frame
) -> None:
    class Anything(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :2]

    strategy = VAAL(**settings)
    images = torch.randn(2, *shape)
    with strategy.context(Anything(), images, seed=0) as context:
        frame = strategy.frame(context)
        assert frame == expected
        assert frame.read(context, context.pool).shape == (2, shape[0], expected.side, expected.side)


def test_any_range_of_pixels_is_standardized() -> None:
    a, b = 300 + 80 * torch.randn(40, 2, 5, 5), 300 + 80 * torch.randn(60, 2, 5, 5)
    a[:, 1] = b[:, 1] = 7  # a channel that never changes
    standardize(a, b)
    both = torch.cat([a, b])
    torch.testing.assert_close(both[:, 0].mean().item(), 0.0, atol=1e-5, rtol=0)
    torch.testing.assert_close(both[:, 0].std(correction=0).item(), 1.0, atol=1e-5, rtol=0)
    assert not both[:, 1].any()


def test_losses_by_hand(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each update's loss and its pull at the codes, from the networks and what they last saw."""
    networks: list[Any] = []
    last: dict[str, Tensor] = {}
    updates: list[str] = []
    build, error, divergence, descend = (
        adversarial.seeded_network,
        adversarial.squared_error,
        adversarial.code_divergence,
        adversarial.descend,
    )

    def made(*arguments: Any) -> Any:
        networks.append(build(*arguments))
        return networks[-1]

    def see(images: Tensor, decoded: Tensor) -> Tensor:
        last.update(images=images, decoded=decoded)
        return error(images, decoded)

    def code(mean: Tensor, log_variance: Tensor) -> Tensor:
        last.update(mean=mean, log_variance=log_variance)
        return divergence(mean, log_variance)

    def halves(losses: Tensor) -> Tensor:
        return losses[:16].sum() / 16 + losses[16:].sum() / 16

    def check(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        vae, judge = networks
        if optimizer.param_groups[0]["params"][0] is next(vae.parameters()):
            mean, log_variance = last["mean"], last["log_variance"]
            rebuilt = (last["images"] - last["decoded"]).square().mean((1, 2, 3))
            normal = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
            labeled = -judge(mean).sigmoid().log()[:, 0]  # both sets shall be taken for labeled
            expected = halves(rebuilt + 0.3 * normal + 0.7 * labeled)
            pulls = [torch.autograd.grad(each, mean, retain_graph=True)[0] for each in (loss, expected)]
            torch.testing.assert_close(*pulls, rtol=1e-4, atol=1e-6)
            updates.append("vae")
        else:
            p = judge(vae.encoder(last["images"])[0]).sigmoid()[:, 0]
            expected = halves(-torch.cat([p[:16].log(), (1 - p[16:]).log()]))
            updates.append("judge")
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-6)
        descend(optimizer, loss)

    for name, patch in {
        "seeded_network": made,
        "squared_error": see,
        "code_divergence": code,
        "descend": check,
    }.items():
        monkeypatch.setattr(adversarial, name, patch)
    labeled, pool, _ = black_and_white()
    settings: dict[str, Any] = {"beta": 0.3, "adversary": 0.7, "learning_rate": 5e-3}
    VAAL(steps=3, batch=16, **settings).select(model, pool, n=1, labeled=labeled, seed=0)
    assert updates == ["vae", "vae", "judge"] * 3


class Listening(Classification):
    """A classification that remembers the targets it was asked about."""

    def __init__(self) -> None:
        self.asked: list[Tensor] = []

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.asked.append(targets)
        return super().losses(outputs, targets)


def numbered(n: int) -> Tensor:
    """Images of ten shades, in turn."""
    return (torch.arange(n) % 10).float().view(n, 1, 1, 1).expand(n, 1, 8, 8).clone()


def test_labels_go_with_their_images_and_states_with_their_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, states, task = [], [], Listening()
    error, judge = adversarial.squared_error, adversarial.state_losses

    def see(images: Tensor, decoded: Tensor) -> Tensor:
        shown.append(images)
        return error(images, decoded)

    def hear(logits: Tensor, state: Tensor) -> Tensor:
        states.append(state)
        return judge(logits, state)

    monkeypatch.setattr(adversarial, "squared_error", see)
    monkeypatch.setattr(adversarial, "state_losses", hear)
    model, pool = models.build("digits-cnn", seed=0), torch.rand(30, 1, 8, 8)
    labeled = TensorDataset(numbered(20), torch.arange(20) % 10)
    SRAAL(steps=3, batch=8).select(model, pool, n=1, labeled=labeled, seed=0, task=task)
    assert len(shown) == len(task.asked) == 6
    for images, targets in zip(shown, task.asked, strict=True):
        shades = images[:8].mean((1, 2, 3))  # standardized: still in the order of the targets
        slope = (shades[0] - shades).abs().sum() / (targets[0] - targets).abs().sum()
        torch.testing.assert_close(shades - shades[0], slope * (targets - targets[0]).float())
    uncertain = uncertainty(model.eval()(pool).softmax(1)).float()
    for step in range(3):
        first, second, relabeled = states[3 * step : 3 * step + 3]
        assert not first.any(), "the generator makes both sets look labeled"
        assert not second.any()
        assert not relabeled[:8].any()
        assert (relabeled[8:, None] - uncertain).abs().amin(1).max() < 1e-6
        assert relabeled[8:].min() > 0


def test_learning_rate_falls_thirty_times(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = []
    descend = adversarial.descend

    def note(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        rates.append(optimizer.param_groups[0]["lr"])
        descend(optimizer, loss)

    monkeypatch.setattr(adversarial, "descend", note)
    labeled = TensorDataset(torch.rand(4, 1, 8, 8), torch.arange(4))
    model = models.build("digits-cnn", seed=0)
    SRAAL(steps=6, batch=4, latent=4).select(model, torch.rand(6, 1, 8, 8), n=1, labeled=labeled, seed=0)
    assert rates == pytest.approx([5e-4 * 0.85 ** (5 * step) for step in range(6) for _ in range(3)])


def test_published_shapes() -> None:
    with torch.device("meta"):
        frame = Frame(3, 32, light=False)
        net = Generator(frame, 200, (2, 10))
        assert [tuple(p.shape) for p in net.learner.parameters()][::2] == [
            (1024, 100),
            (256, 1024),
            (10, 256),
        ]
        assert net.encoder.mean.out_features == 200
        assert net.decoder[0].in_features == 100
        assert target_learner(frame, 100, (2, 19, 64, 64))(torch.empty(2, 100)).shape == (2, 19, 32, 32)
    assert SRAAL().number_of_steps(50_000) == 20_000
