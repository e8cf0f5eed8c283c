from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from jostle import models
from jostle.models.networks import bilinear_upsampling


def count(model: nn.Module, trainable: bool = True) -> int:
    return sum(each.numel() for each in model.parameters() if each.requires_grad == trainable)


def test_parameter_counts() -> None:
    model = models.build("drn-d-22", seed=0)
    assert count(model.get_submodule("trunk")) == 15_880_752
    assert count(model) == 15_890_499
    assert count(model, trainable=False) == 4_864


def test_layers_as_published(shapes: Callable[..., dict[str, tuple[int, ...]]]) -> None:
    seen = shapes(models.build("drn-d-22", seed=0), torch.randn(1, 3, 64, 64))
    channels = (16, 16, 32, 64, 128, 256, 512, 512, 512)
    sizes = (64, 64, 32, 16, 8, 8, 8, 8, 8)
    for layer, (channel, size) in enumerate(zip(channels, sizes, strict=True)):
        assert seen[f"trunk.layer{layer}"] == (channel, size, size)
    assert seen["seg"] == (19, 8, 8)
    assert seen["up"] == (19, 64, 64)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (180, 240), (45, 61), (9, 8), (1, 1)])
def test_every_pixel_gets_its_logits_whatever_the_size(height: int, width: int) -> None:
    model = models.build("drn-d-22", width=0.125, classes=11, seed=0).eval()
    with torch.no_grad():
        assert model(torch.randn(2, 3, height, width)).shape == (2, 11, height, width)


def test_upsampling_is_bilinear() -> None:
    maps = torch.randn(2, 3, 6, 7, generator=torch.Generator().manual_seed(0))
    large = bilinear_upsampling(3, factor=8)(maps)
    expected = F.interpolate(maps, scale_factor=8, mode="bilinear", align_corners=False)
    assert large.shape == expected.shape == (2, 3, 48, 56)
    inner = (
        ...,
        slice(4, -4),
        slice(4, -4),
    )  # outside, the kernel sees zeros where interpolate repeats the edge
    torch.testing.assert_close(large[inner], expected[inner])
