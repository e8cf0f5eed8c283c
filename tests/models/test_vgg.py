from collections.abc import Callable

import pytest
import torch
from torch import nn

from jostle import models


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("vgg16", 15_245_130), ("vgg16-bn", 15_253_578), ("vgg19", 20_554_826), ("vgg19-bn", 20_565_834)],
)
def test_parameter_counts(name: str, parameters: int) -> None:
    assert sum(each.numel() for each in models.build(name, seed=0).parameters()) == parameters


@pytest.mark.parametrize(("name", "depths"), [("vgg16", "22333"), ("vgg19-bn", "22444")])
def test_stages_and_maps(name: str, depths: str, shapes: Callable[..., dict[str, tuple[int, ...]]]) -> None:
    model = models.build(name, seed=0)
    convs = [
        str(sum(isinstance(part, nn.Conv2d) for part in model.get_submodule(f"layer{stage}")))
        for stage in range(1, 6)
    ]
    assert "".join(convs) == depths
    seen = shapes(model, torch.randn(1, 3, 32, 32))
    assert [seen[f"layer{stage}"] for stage in range(1, 6)] == [
        (64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4), (512, 2, 2),
    ]  # fmt: skip
    assert seen["pool5"] == (512, 1, 1)
    assert all(isinstance(model.get_submodule(f"pool{stage}"), nn.MaxPool2d) for stage in range(1, 6))


def test_the_classifier_drops_twice_and_its_last_layer_sees_512_features(
    entering: Callable[..., torch.Tensor],
) -> None:
    model = models.build("vgg16", seed=0)
    classifier = model.get_submodule("classifier")
    assert [type(part) for part in classifier] == [nn.Dropout, nn.Linear, nn.ReLU] * 2 + [nn.Linear]
    assert [part.p for part in classifier if isinstance(part, nn.Dropout)] == [0.5, 0.5]
    features = entering(model, torch.randn(4, 3, 32, 32), "classifier.6")
    assert features.shape == (4, 512)
    assert features.min() == 0  # after the ReLU
    assert entering(model, torch.randn(4, 3, 32, 32), "classifier").shape == (4, 512)
