"""DRN-D-22, a dilated residual network for segmentation: maps stay at an eighth of the image."""

import torch
from torch import Tensor, nn

from jostle.models.blocks import chain, conv_bn_relu, he_normal, scaled, two_blocks


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
        self.trunk = _trunk(channels, width)
        self.seg = nn.Conv2d(scaled(512, width), classes, 1)
        he_normal(self)
        self.up = bilinear_upsampling(classes, factor=8)

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, h, w) -> logits (n, classes, h, w)."""
        logits: Tensor = self.up(self.seg(self.trunk(images)))
        height, width = images.shape[-2:]
        return logits[..., :height, :width]  # maps round up where 8 does not divide the size


def _trunk(channels: int, width: float) -> nn.Sequential:
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
