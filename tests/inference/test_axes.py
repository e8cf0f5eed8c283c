"""Channels lie first or last, as a layer takes them: features are averaged over everything else."""

import pytest
import torch
from torch import Tensor, nn

import jostle
from jostle.strategies import build

N, K, D = 6, 3, 7


class Body(nn.Module):
    """Maps of D channels, seen by a head with channels last if that is how it takes them."""

    def __init__(self, body: nn.Module, head: nn.Module, last: bool) -> None:
        super().__init__()
        self.body, self.head, self.last = body, head, last

    def hidden(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x).relu()
        return found.movedim(1, -1) if self.last else found

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.hidden(x))
        return out.movedim(-1, 1) if self.last else out


class Turned(nn.Module):
    """Channels first that were last, and the other way round."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


IMAGES = N, 3, D, 5  # as high as there are channels: only the head tells which are which
SIGNALS = N, 3, 10
CASES = {
    "linear on maps": (nn.Conv2d(3, D, 3, padding=1), nn.Linear(D, 4), IMAGES, True),
    "linear inside a head": (nn.Conv2d(3, D, 1), nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 4)), (N, 3, 6, 5), True),
    "pooled by the head": (
        *(nn.Conv2d(3, D, 1), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(D, 4))),
        *(IMAGES, False),
    ),
    "convolution of maps": (nn.Conv2d(3, D, 3), nn.Conv2d(D, 4, 1), IMAGES, False),
    "convolution of signals": (nn.Conv1d(3, D, 3), nn.Conv1d(D, 4, 1), SIGNALS, False),
    "convolution inside a head": (
        *(nn.Conv1d(3, D, 3), nn.Sequential(nn.Dropout(0.1), nn.Conv1d(D, 4, 1))),
        *(SIGNALS, False),
    ),
    "turned round by the head": (
        *(nn.Conv1d(3, D, 3), nn.Sequential(Turned(), nn.Conv1d(D, 4, 1), Turned())),
        *(SIGNALS, True),
    ),
    "signals pooled by the head": (
        *(nn.Conv1d(3, D, 3), nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(D, 4))),
        *(SIGNALS, False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_features_are_averaged_over_all_but_their_channels(case: str) -> None:
    body, head, shape, last = CASES[case]
    model, x = Body(body, head, last).eval(), torch.randn(shape)
    task = "classification" if model(x).ndim == 2 else "segmentation"
    features = build("max-herding", head="head").embed(model, x, task=task)
    torch.testing.assert_close(features, body(x).relu().flatten(2).mean(2), rtol=1e-4, atol=1e-5)
    rows = jostle.deviations(model, x, num_perturbations=K, task=task, space="features", head="head")
    assert rows.shape == (N, K * D)


@pytest.mark.parametrize("strategy", ["alfa-mix", "drop-query"])
def test_changed_features_go_through_a_convolution_as_it_takes_them(strategy: str) -> None:
    model = nn.Sequential(
        *(nn.Conv1d(3, D, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Conv1d(D, 4, 1), nn.Flatten())
    )
    linear = nn.Sequential(
        nn.Conv1d(3, D, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(D, 4)
    )
    linear[0], (weight, bias) = model[0], model[3].parameters()
    linear[4].load_state_dict({"weight": weight[:, :, 0].detach(), "bias": bias.detach()})
    pool, labeled = torch.randn(30, *SIGNALS[1:]), (torch.randn(8, *SIGNALS[1:]), torch.arange(8) % 4)
    picked = [
        build(strategy).select(m, pool, 4, labeled=labeled, seed=0).indices.tolist() for m in (model, linear)
    ]
    assert picked[0] == picked[1]


def test_movements_of_tokens_in_two_dimensions_keep_their_classes_apart() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    x = torch.randn(N, 4, 6, 5)
    rows, flat = (
        jostle.deviations(model, pool, num_perturbations=K, task="sequence", seed=0)
        for pool in (x, x.flatten(1, 2))
    )
    torch.testing.assert_close(rows, flat, rtol=1e-3, atol=1e-3 * float(flat.abs().max()))
