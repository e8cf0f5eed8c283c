"""ResNet-18, for small images and as it was first published."""

from torch import nn

from jostle.models.blocks import chain, conv_bn_relu, he_normal, scaled, two_blocks


def resnet18_cifar(classes: int = 10, channels: int = 3, width: float = 1.0) -> nn.Sequential:
    """ResNet-18 for 32×32 images: a 3×3 stem at stride 1, no pooling before the stages.

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
        width: A factor for the widths of all layers; 0.25 is a sixteenth of the weights.
    """
    return _resnet18(conv_bn_relu(channels, scaled(64, width), 3), classes, width)


def resnet18(classes: int = 1000, channels: int = 3, width: float = 1.0) -> nn.Sequential:
    """The original ResNet-18 for 224×224 images: a 7×7 stem at stride 2, then a pooling.

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
        width: A factor for the widths of all layers; 0.25 is a sixteenth of the weights.
    """
    stem = nn.Sequential(
        *conv_bn_relu(channels, scaled(64, width), 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)
    )
    model = _resnet18(stem, classes, width)
    he_normal(model)  # as published; the small-image version keeps PyTorch's own initial weights
    return model


def _resnet18(stem: nn.Sequential, classes: int, width: float) -> nn.Sequential:
    d1, d2, d3, d4 = (scaled(published, width) for published in (64, 128, 256, 512))
    return chain(
        stem=stem,
        layer1=two_blocks(d1, d1),  # 32 × 32 maps from 32 × 32 images; 56 × 56 from 224 × 224
        layer2=two_blocks(d1, d2, stride=2),
        layer3=two_blocks(d2, d3, stride=2),
        layer4=two_blocks(d3, d4, stride=2),  # 4 × 4; 7 × 7
        pool=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),  # (n, 512)
        head=nn.Linear(d4, classes),
    )
