import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from jostle import models
from jostle.models.networks import BasicBlock


@pytest.mark.parametrize(
    ("name", "classes", "parameters"),
    [
        ("resnet18-cifar", 10, 11_173_962),
        ("resnet18-cifar", 100, 11_220_132),
        ("resnet18", 1000, 11_689_512),
    ],
)
def test_parameter_counts(name: str, classes: int, parameters: int) -> None:
    model = models.build(name, classes=classes, seed=0)
    assert sum(each.numel() for each in model.parameters()) == parameters


def test_a_block_is_two_convolutions_beside_a_shortcut() -> None:
    torch.manual_seed(0)
    block, maps = BasicBlock(3, 5, stride=2).double(), torch.randn(2, 3, 9, 9, dtype=torch.float64)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean((0, 2, 3), keepdim=True)) / (
            x.var((0, 2, 3), keepdim=True, unbiased=False) + 1e-5
        ).sqrt()

    hidden = norm(F.conv2d(maps, block.conv1.weight, stride=2, padding=1)).relu()
    beside = norm(F.conv2d(maps[:, :, ::2, ::2], block.shortcut[0].weight))
    expected = (norm(F.conv2d(hidden, block.conv2.weight, padding=1)) + beside).relu()
    torch.testing.assert_close(block(maps), expected)
    assert isinstance(BasicBlock(4, 4).shortcut, nn.Identity)


def test_the_original_agrees_with_another_library() -> None:
    transformers = pytest.importorskip("transformers")
    ours = models.build("resnet18", classes=5, width=0.125, seed=0)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[2, 2, 2, 2], layer_type="basic", num_labels=5
    )
    theirs = transformers.ResNetForImageClassification(config).eval()
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    ours(images)  # moves the running statistics off their start, so that they count
    renamed = {_their_name(key): value for key, value in ours.state_dict().items()}
    theirs.load_state_dict(renamed)
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
