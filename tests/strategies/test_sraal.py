from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from jostle import models
from jostle.strategies import SRAAL, adversarial
from jostle.strategies.adversarial import uncertainty
from jostle.strategies.autoencoders import Frame, Generator, target_learner
from jostle.tasks import Classification


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
