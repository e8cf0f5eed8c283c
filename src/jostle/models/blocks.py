"""The parts that several networks share."""

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn


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
