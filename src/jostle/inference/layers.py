"""Layers of any network: which ones to read, where their channels are, and their outputs as vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from jostle.inference.reader import fitted_mask, mean_over
from jostle.inputs import arrays
from jostle.utils.names import look_up, unknown

if TYPE_CHECKING:
    from jostle.inference.runner import ModelRunner


CONVOLUTIONS = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)


def by_convention(values: Tensor, layer: nn.Module) -> Tensor:
    """Arrange the input of a `layer` as (n, d), (n, tokens, d) or (n, d, height, width, ...)."""
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


@contextmanager
def plain_attention() -> Iterator[None]:
    """PyTorch's transformer layers compute in their plain form for a while.

    Their fast path skips layers and lets nested tensors, without padding, through those that somebody watches.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


T = TypeVar("T")
MOST = 4  # layers that are chosen automatically


def first_token(sequence: Tensor, mask: Tensor | None) -> Tensor:
    """The first token that counts, such as BERT's [CLS]."""
    if mask is None:
        return sequence[:, 0].clone()
    return sequence[torch.arange(len(sequence), device=sequence.device), mask.byte().argmax(1)]


TOKENS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {"first": first_token, "mean": mean_over}


@contextmanager
def watching_layers(
    model: nn.Module, layers: Sequence[str], read: Callable[[nn.Module, Tensor], T]
) -> Iterator[dict[str, T]]:
    """Collect `read(module, output)` of each layer during a forward pass inside."""
    seen: dict[str, T] = {}

    def watch(layer: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            seen[layer] = read(module, next(arrays(output)))

        return keep

    hooks = [model.get_submodule(layer).register_forward_hook(watch(layer)) for layer in layers]
    try:
        with plain_attention():
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


def vector_reader(tokens: str, mask: Tensor | None = None) -> Callable[[nn.Module, Tensor], Tensor]:
    """Reads a layer's output as (n, d): maps are averaged over space, of a sequence "first" or "mean" is read.

    A mask (n, tokens) says which tokens count, where it fits a layer.
    """
    of_sequence = look_up("reading of tokens", tokens, TOKENS)

    def read(module: nn.Module, output: Tensor) -> Tensor:
        signal = any(isinstance(part, nn.Conv1d) for part in module.modules())  # (n, d, length), not tokens
        if output.ndim == 3 and not signal:
            return of_sequence(output, None if mask is None else fitted_mask(mask, output.shape[1]))
        if output.ndim > 3 and is_of_linear_layers(module):
            return output.flatten(1, -2).mean(1)
        if output.ndim > 2:
            return output.flatten(2).mean(2)
        return output.reshape(len(output), -1).clone()  # the next layer may write into the output

    return read


def layers_named(runner: ModelRunner, layers: Sequence[str]) -> list[str]:
    """The layers as given, each of which exists and is called."""
    if not layers or isinstance(layers, str):
        raise ValueError(
            f"layers is a list of at least one name, or None to have them chosen; got {layers!r}"
        )
    names = dict(runner.module.named_modules())
    for layer in layers:
        if layer not in names:
            raise unknown("layer", layer, (name for name in names if name))
        if layer not in runner.order:
            raise ValueError(f"the layer {layer!r} is never called in the model's forward pass")
    return list(layers)


def layers_over_depth(runner: ModelRunner) -> list[str]:
    """Up to four layers in front of the head, each at the end of a quarter of the depth.

    Where two or more give maps or sequences, those that give vectors are left out.
    """
    in_front = (block for block in trunk(runner) if ends_before_head(runner, block))
    blocks = sorted(in_front, key=runner.order.__getitem__)
    with watching_layers(runner.module, blocks, lambda _, output: output.ndim) as dimensions:
        runner.call(runner.example)
    maps = [block for block in blocks if dimensions[block] > 2]
    blocks = maps if len(maps) > 1 else blocks
    if not blocks:
        raise ValueError(
            f"no layer of {type(runner.original).__name__} stands between its input and its head: "
            "name the layers to read with layers=[...]"
        )
    number = min(MOST, len(blocks))
    ends = [-(-(quarter * len(blocks)) // number) - 1 for quarter in range(1, number + 1)]
    return [blocks[end] for end in ends]


def trunk(runner: ModelRunner) -> list[str]:
    """The blocks that the network is made of: it is entered as long as one block is two thirds of the depth."""
    blocks = called_children(runner, "")
    while blocks:
        depths = {block: depth(runner.module.get_submodule(block)) for block in blocks}
        deepest = max(blocks, key=depths.__getitem__)
        within = called_children(runner, deepest)
        if 3 * depths[deepest] <= 2 * sum(depths.values()) or not within:
            break
        blocks = within
    return blocks


def called_children(runner: ModelRunner, parent: str) -> list[str]:
    """Modules with parameters right inside another; a list of modules is looked through."""
    found: list[str] = []
    for name, child in runner.module.get_submodule(parent).named_children():
        path = f"{parent}.{name}" if parent else name
        if path in runner.order:
            found += [path] if depth(child) else []
        else:
            found += called_children(runner, path)
    return found


def depth(module: nn.Module) -> int:
    """How many layers with parameters of their own a module holds."""
    return sum(next(part.parameters(recurse=False), None) is not None for part in module.modules())


def ends_before_head(runner: ModelRunner, block: str) -> bool:
    """Whether a block ends before the head starts."""
    order, head = runner.order, runner.likely_head
    return head is None or (order[block] < order[head] and not f"{head}.".startswith(f"{block}."))
