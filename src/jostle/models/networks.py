"""Networks that train from scratch: small ones for a CPU, VGG and ResNet for images, DRN for segmentation.

The parts that several of them share come first.
"""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VGG_WIDTHS = (64, 128, 256, 512, 512)


def chain(**parts: nn.Module) -> nn.Sequential:
    """Modules in order, each with a name."""
    return nn.Sequential(OrderedDict(parts))


def scaled(channels: int, width: float) -> int:
    """So many channels at a fraction of the published width, at least one."""
    if not width > 0:
        raise ValueError(f"width must be positive, a multiple of the published widths; got {width}")
    return max(1, round(width * channels))


def he_normal(model: nn.Module) -> None:
    """Draw convolution weights from N(0, 2 / (k² · out channels)) and set their biases to zero."""
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A convolution without bias, padded so that stride 1 keeps the map's size."""
    padding = dilation * (kernel // 2)
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=False)


def conv_bn_relu(inputs: int, outputs: int, kernel: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """Convolution, BatchNorm, ReLU."""
    return nn.Sequential(conv(inputs, outputs, kernel, stride, dilation), nn.BatchNorm2d(outputs), nn.ReLU())


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride, dilation)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3, 1, dilation)
        self.bn2 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        )

    def forward(self, maps: Tensor) -> Tensor:
        """(n, inputs, h, w) -> (n, outputs, h / stride, w / stride)."""
        hidden = F.relu(self.bn1(self.conv1(maps)))
        return F.relu(self.bn2(self.conv2(hidden)) + self.shortcut(maps))


def two_blocks(inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """A stage: the first block changes the shape, the second keeps it."""
    return nn.Sequential(
        BasicBlock(inputs, outputs, stride, dilation), BasicBlock(outputs, outputs, 1, dilation)
    )


def mnist_cnn(classes: int = 10, channels: int = 1) -> nn.Sequential:
    """The paper's small CNN for 28×28 images (MNIST, Fashion-MNIST).

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
    """
    return chain(
        layer1=nn.Sequential(nn.Conv2d(channels, 32, 5), nn.MaxPool2d(2), nn.ReLU()),  # (n, 32, 12, 12)
        layer2=nn.Sequential(nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU()),  # (n, 64, 4, 4)
        flatten=nn.Flatten(),
        feature=nn.Linear(1024, 128),  # no ReLU follows: the paper's table has none
        head=nn.Linear(128, classes),
    )


def digits_cnn(classes: int = 10, channels: int = 1) -> nn.Sequential:
    """A CNN for the 8×8 images of scikit-learn's digits; trains in a second.

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
    """
    return chain(
        layer1=nn.Sequential(nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),  # 4 × 4
        layer2=nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),  # 2 × 2
        flatten=nn.Flatten(),
        feature=nn.Sequential(nn.Linear(128, 48), nn.ReLU()),
        head=nn.Linear(48, classes),
    )


def mlp(inputs: int = 215, outputs: int = 1) -> nn.Sequential:
    """The paper's housing MLP, 215-128-64-32-1; its 32 features are linear.

    Args:
        inputs: Numbers of an example.
        outputs: Numbers that are predicted.
    """
    return chain(
        layer1=nn.Sequential(nn.Linear(inputs, 128), nn.ReLU()),
        layer2=nn.Sequential(nn.Linear(128, 64), nn.ReLU()),
        feature=nn.Linear(64, 32),  # no ReLU follows, as in the published code
        head=nn.Linear(32, outputs),  # (n, outputs)
    )


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


def vgg16(classes: int = 10, channels: int = 3, width: float = 1.0) -> nn.Sequential:
    """VGG16 for 32×32 images, without BatchNorm.

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
        width: A factor for the widths of all layers; 0.25 is a sixteenth of the weights.
    """
    return _vgg((2, 2, 3, 3, 3), classes, channels, width, batch_norm=False)


def vgg16_bn(classes: int = 10, channels: int = 3, width: float = 1.0) -> nn.Sequential:
    """VGG16 for 32×32 images, with BatchNorm.

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
        width: A factor for the widths of all layers; 0.25 is a sixteenth of the weights.
    """
    return _vgg((2, 2, 3, 3, 3), classes, channels, width, batch_norm=True)


def vgg19(classes: int = 10, channels: int = 3, width: float = 1.0) -> nn.Sequential:
    """VGG19 for 32×32 images, without BatchNorm.

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
        width: A factor for the widths of all layers; 0.25 is a sixteenth of the weights.
    """
    return _vgg((2, 2, 4, 4, 4), classes, channels, width, batch_norm=False)


def vgg19_bn(classes: int = 10, channels: int = 3, width: float = 1.0) -> nn.Sequential:
    """VGG19 for 32×32 images, with BatchNorm.

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
        width: A factor for the widths of all layers; 0.25 is a sixteenth of the weights.
    """
    return _vgg((2, 2, 4, 4, 4), classes, channels, width, batch_norm=True)


def _vgg(
    depths: tuple[int, ...], classes: int, channels: int, width: float, batch_norm: bool
) -> nn.Sequential:
    parts: dict[str, nn.Module] = {}
    for stage, (depth, published) in enumerate(zip(depths, VGG_WIDTHS, strict=True), start=1):
        outputs = scaled(published, width)
        parts[f"layer{stage}"] = _vgg_convolutions(depth, channels, outputs, batch_norm)
        parts[f"pool{stage}"] = nn.MaxPool2d(2)  # apart from its layer, whose map is tapped at full size
        channels = outputs
    model = chain(**parts, flatten=nn.Flatten(), classifier=_vgg_classifier(channels, classes))
    he_normal(model)
    return model


def _vgg_convolutions(depth: int, inputs: int, outputs: int, batch_norm: bool) -> nn.Sequential:
    parts: list[nn.Module] = []
    for _ in range(depth):
        parts.append(nn.Conv2d(inputs, outputs, 3, padding=1))
        parts.extend([nn.BatchNorm2d(outputs), nn.ReLU()] if batch_norm else [nn.ReLU()])
        inputs = outputs
    return nn.Sequential(*parts)


def _vgg_classifier(d: int, classes: int) -> nn.Sequential:
    hidden = [part for _ in range(2) for part in (nn.Dropout(0.5), nn.Linear(d, d), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(d, classes))


class DRN22(nn.Module):
    """DRN-D-22 with a 1×1 classifier and fixed bilinear upsampling: one row of logits for every pixel.

    Images of any size; `width=0.25` is a sixteenth of the weights, for small images on a CPU.

    Args:
        classes: How many classes a pixel may have.
        channels: Of the images.
        width: A factor for the widths of all layers; 0.25 is a sixteenth of the weights.
    """

    def __init__(self, classes: int = 19, channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        self.trunk = _drn_trunk(channels, width)
        self.seg = nn.Conv2d(scaled(512, width), classes, 1)
        he_normal(self)
        self.up = bilinear_upsampling(classes, factor=8)

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, h, w) -> logits (n, classes, h, w)."""
        logits: Tensor = self.up(self.seg(self.trunk(images)))
        height, width = images.shape[-2:]
        return logits[..., :height, :width]  # maps round up where 8 does not divide the size


def _drn_trunk(channels: int, width: float) -> nn.Sequential:
    d0, d2, d3, d4, d5, d6 = (scaled(published, width) for published in (16, 32, 64, 128, 256, 512))
    return chain(
        layer0=conv_bn_relu(channels, d0, 7),
        layer1=conv_bn_relu(d0, d0, 3),
        layer2=conv_bn_relu(d0, d2, 3, stride=2),
        layer3=two_blocks(d2, d3, stride=2),
        layer4=two_blocks(d3, d4, stride=2),  # (n, 128, h / 8, w / 8), the size from here on
        layer5=two_blocks(d4, d5, dilation=2),
        layer6=two_blocks(d5, d6, dilation=4),
        layer7=conv_bn_relu(d6, d6, 3, dilation=2),
        layer8=conv_bn_relu(d6, d6, 3),
    )


def bilinear_upsampling(channels: int, factor: int) -> nn.ConvTranspose2d:
    """Enlarge each map by an even factor with frozen weights.

    The published kernel sees zeros outside the map, so values fall off along the border.
    """
    up = nn.ConvTranspose2d(
        channels, channels, 2 * factor, factor, padding=factor // 2, groups=channels, bias=False
    )
    offsets = torch.arange(2 * factor) - (factor - 0.5)  # from the kernel's center, in output pixels
    tent = 1 - offsets.abs() / factor  # (2 * factor,)
    with torch.no_grad():
        up.weight.copy_(torch.outer(tent, tent))  # (channels, 1, 2 * factor, 2 * factor)
    return up.requires_grad_(False)
