"""The networks as published: their sizes, their layers, and what other libraries compute with the same weights."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from jostle import models
from jostle.models.networks import bilinear_upsampling

PARAMETERS = {
    ("mnist-cnn", 10): 184_586,
    ("vgg16", 10): 15_245_130,
    ("vgg16-bn", 10): 15_253_578,
    ("vgg19", 10): 20_554_826,
    ("vgg19-bn", 10): 20_565_834,
    ("resnet18-cifar", 100): 11_220_132,
    ("resnet18", 1000): 11_689_512,
    ("drn-d-22", 19): 15_890_499 + 4_864,  # and the frozen upsampling
}


@pytest.mark.parametrize(("name", "classes"), PARAMETERS)
def test_parameter_counts(name: str, classes: int) -> None:
    with torch.device("meta"):
        model = models.build(name, classes=classes)
    assert sum(each.numel() for each in model.parameters()) == PARAMETERS[name, classes]


def shapes(name: str, *size: int) -> dict[str, tuple[int, ...]]:
    """The output shape, without n, of every module by name."""
    seen: dict[str, tuple[int, ...]] = {}
    with torch.device("meta"):
        model, inputs = models.build(name).eval(), torch.empty(1, *size)
    for part_name, part in model.named_modules():
        part.register_forward_hook(
            lambda _part, _inputs, output, part_name=part_name: seen.update(
                {part_name: tuple(output.shape[1:])}
            )
        )
    model(inputs)
    return seen


def test_maps_of_drn() -> None:
    seen = shapes("drn-d-22", 3, 64, 64)
    channels, sizes = (16, 16, 32, 64, 128, 256, 512, 512, 512), (64, 64, 32, 16, 8, 8, 8, 8, 8)
    expected = [(channel, size, size) for channel, size in zip(channels, sizes, strict=True)]
    assert [seen[f"trunk.layer{layer}"] for layer in range(9)] == expected
    assert (seen["seg"], seen["up"]) == ((19, 8, 8), (19, 64, 64))


@pytest.mark.parametrize(("name", "depths"), [("vgg16", [2, 2, 3, 3, 3]), ("vgg19-bn", [2, 2, 4, 4, 4])])
def test_stages_and_maps_of_vgg(name: str, depths: list[int]) -> None:
    with torch.device("meta"):
        model = models.build(name)
    stages = [model.get_submodule(f"layer{stage}") for stage in range(1, 6)]
    assert [sum(isinstance(part, nn.Conv2d) for part in stage) for stage in stages] == depths
    classifier = model.get_submodule("classifier")
    assert [type(part) for part in classifier] == [nn.Dropout, nn.Linear, nn.ReLU] * 2 + [nn.Linear]
    seen = shapes(name, 3, 32, 32)
    maps = [(64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4), (512, 2, 2)]
    assert [seen[f"layer{stage}"] for stage in range(1, 6)] == maps
    assert (seen["pool5"], seen["classifier.5"]) == ((512, 1, 1), (512,))


def test_mnist_cnn_is_the_table_of_the_paper() -> None:
    seen = shapes("mnist-cnn", 1, 28, 28)
    rows = {
        "layer1.0": (32, 24, 24), "layer1.1": (32, 12, 12), "layer1.2": (32, 12, 12), "layer2.0": (64, 8, 8),
        "layer2.1": (64, 4, 4), "layer2.2": (64, 4, 4), "feature": (128,), "head": (10,),
    }  # fmt: skip
    assert {name: seen[name] for name in rows} == rows
    kinds = [type(part) for part in models.build("mnist-cnn").modules() if not list(part.children())]
    stage = [nn.Conv2d, nn.MaxPool2d, nn.ReLU]
    assert kinds == [*stage, *stage, nn.Flatten, nn.Linear, nn.Linear]  # no BatchNorm, no dropout


def test_housing_mlp_by_hand() -> None:
    model, rows = models.build("mlp", seed=0), torch.randn(5, 215)
    first, second, third, last = [part for part in model.modules() if isinstance(part, nn.Linear)]
    widths = [(each.in_features, each.out_features) for each in (first, second, third, last)]
    assert widths == [(215, 128), (128, 64), (64, 32), (32, 1)]
    expected = last(third(second(first(rows).relu()).relu()))  # ReLU after the first two only
    torch.testing.assert_close(model(rows), expected, rtol=0, atol=0)


@pytest.mark.parametrize(("height", "width"), [(180, 240), (45, 61), (1, 1)])
def test_every_pixel_gets_its_logits_whatever_the_size(height: int, width: int) -> None:
    model = models.build("drn-d-22", width=0.125, classes=11, seed=0).eval()
    with torch.no_grad():
        assert model(torch.randn(2, 3, height, width)).shape == (2, 11, height, width)


def test_upsampling_is_bilinear() -> None:
    maps = torch.randn(2, 3, 6, 7)
    large = bilinear_upsampling(3, factor=8)(maps)
    expected = F.interpolate(maps, scale_factor=8, mode="bilinear", align_corners=False)
    inner = (..., slice(4, -4), slice(4, -4))  # outside, the kernel sees zeros where interpolate repeats
    torch.testing.assert_close(large[inner], expected[inner])


def test_the_original_resnet_agrees_with_another_library() -> None:
    transformers = pytest.importorskip("transformers")
    ours = models.build("resnet18", classes=5, width=0.125, seed=0)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[2, 2, 2, 2], layer_type="basic", num_labels=5
    )
    theirs, images = transformers.ResNetForImageClassification(config).eval(), torch.randn(2, 3, 64, 64)
    ours(images)  # moves the running statistics off their start, so that they count
    theirs.load_state_dict({_their_name(key): value for key, value in ours.state_dict().items()})
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(images), theirs(images).logits)


def _their_name(name: str) -> str:
    name = re.sub(r"^stem\.", "resnet.embedder.embedder.", name)
    name = re.sub(r"^head\.", "classifier.1.", name)
    name = re.sub(
        r"^layer(\d)\.(\d)\.", lambda at: f"resnet.encoder.stages.{int(at[1]) - 1}.layers.{at[2]}.", name
    )
    name = re.sub(r"conv([12])\.", lambda at: f"layer.{int(at[1]) - 1}.convolution.", name)
    name = re.sub(r"bn([12])\.", lambda at: f"layer.{int(at[1]) - 1}.normalization.", name)
    name = re.sub(r"(embedder|shortcut)\.0\.", r"\1.convolution.", name)
    return re.sub(r"(embedder|shortcut)\.1\.", r"\1.normalization.", name)
