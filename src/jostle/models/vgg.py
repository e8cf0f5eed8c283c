"""VGG for 32×32 images: five poolings down to 1×1, then a small classifier with dropout."""

from torch import nn

from jostle.models.blocks import chain, he_normal, scaled

WIDTHS = (64, 128, 256, 512, 512)


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
    for stage, (depth, published) in enumerate(zip(depths, WIDTHS, strict=True), start=1):
        outputs = scaled(published, width)
        parts[f"layer{stage}"] = _convolutions(depth, channels, outputs, batch_norm)
        parts[f"pool{stage}"] = nn.MaxPool2d(2)  # apart from its layer, whose map is tapped at full size
        channels = outputs
    model = chain(**parts, flatten=nn.Flatten(), classifier=_classifier(channels, classes))
    he_normal(model)
    return model


def _convolutions(depth: int, inputs: int, outputs: int, batch_norm: bool) -> nn.Sequential:
    parts: list[nn.Module] = []
    for _ in range(depth):
        parts.append(nn.Conv2d(inputs, outputs, 3, padding=1))
        parts.extend([nn.BatchNorm2d(outputs), nn.ReLU()] if batch_norm else [nn.ReLU()])
        inputs = outputs
    return nn.Sequential(*parts)


def _classifier(d: int, classes: int) -> nn.Sequential:
    hidden = [part for _ in range(2) for part in (nn.Dropout(0.5), nn.Linear(d, d), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(d, classes))
