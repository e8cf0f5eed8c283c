"""Which dimension holds the channels of what a layer is given: convolutions have them first, linear layers last."""

from __future__ import annotations

from torch import Tensor, nn

CONVOLUTIONS = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)


def by_convention(values: Tensor, layer: nn.Module) -> Tensor:
    """What a `layer` is given, as (n, d), (n, tokens, d) or (n, d, height, width, ...), whichever way round it lies."""
    if values.ndim < 3:
        return values
    last = channels_are_last(values, layer)
    if values.ndim == 3:
        return values if last else values.transpose(1, 2)
    return values.movedim(-1, 1) if last else values


def channels_are_last(values: Tensor, layer: nn.Module) -> bool:
    """Whether the last dimension holds the channels, as the first weights inside the `layer` tell by their width."""
    first = next((part for part in layer.modules() if isinstance(part, (nn.Linear, *CONVOLUTIONS))), None)
    linear = isinstance(first, nn.Linear)
    if first is layer:
        return linear
    wide = getattr(first, "in_features", None) if linear else getattr(first, "in_channels", None)
    ahead, behind = (values.shape[place] == wide for place in (1, -1))
    if ahead != behind:
        return behind
    tokens = values.ndim == 3  # where nothing tells, sequences have them last and maps first
    return tokens and (linear or first is None)


def is_of_linear_layers(layer: nn.Module) -> bool:
    """Whether a `layer` multiplies with weights and never convolves: the maps that it makes have channels last."""
    parts = list(layer.modules())
    return any(isinstance(part, nn.Linear) for part in parts) and not any(
        isinstance(part, CONVOLUTIONS) for part in parts
    )
