"""Dropout that can be repeated: one mask for each pass and place, the same for every example of the pool.

With one mask for all examples a pass is one network, a draw from the posterior, so outputs of different examples
belong together, and results do not depend on batches. The model stays in eval mode, BatchNorm with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

Luck = Callable[
    [Sequence[int], int, int, torch.device], Tensor
]  # (shape, pass, place, device) -> uniform numbers
Axis = tuple[int, int]  # the dimension that holds the examples, and how many entries belong to each

SATURATED = -1.7580993408473766  # SELU's limit at minus infinity, to which alpha dropout sets what it drops


class Masks(TorchFunctionMode):
    """While active, dropout acts at every place where the model calls it, module or function, in eval mode too.

    Places are numbered in the order of their calls; the mask of a place has no dimension for examples.
    """

    def __init__(self, luck: Luck) -> None:
        super().__init__()
        self.luck = luck
        self.axes: dict[int, Axis] = {}  # place -> where the examples are; places without any are not in it
        self.begin(0)
        self.running: list[nn.Module] = []  # modules being called, while followed
        self.resting: set[nn.Module] = set()  # those that asked for a dropout of rate 0
        self.tensors: set[nn.Module] = set()  # those that returned a tensor

    def begin(self, number: int) -> None:
        """Start a pass."""
        self.number = number
        self.shapes: list[torch.Size] = []  # of what was dropped in this pass, by place

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        action = ACTIONS.get(func)
        return func(*args, **(kwargs or {})) if action is None else action(self, *args, **(kwargs or {}))

    @contextmanager
    def following(self, model: nn.Module) -> Iterator[None]:
        """Know which module is running, to find those whose dropout rests in eval mode and what they return."""
        hooks: list[Any] = []
        for module in model.modules():
            if not isinstance(module, torch.jit.ScriptModule):
                hooks.append(module.register_forward_pre_hook(lambda m, _: self.running.append(m)))
                hooks.append(module.register_forward_hook(self.leave))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            self.running.clear()

    def leave(self, module: nn.Module, args: Any, output: Any) -> None:
        """A module has returned."""
        self.running.pop()
        if isinstance(output, Tensor):
            self.tensors.add(module)

    def mask(self, values: Tensor, p: float, *, channels: bool = False, packed: bool = False) -> Tensor:
        """Ones where values stay and zeros where they go, drawn without the examples' dimension."""
        place = len(self.shapes)
        self.shapes.append(values.shape)
        shape, repeats = list(values.shape), [1] * values.ndim
        if packed:
            shape[0] = 1  # (steps of all examples, d): one mask for every step
        elif place in self.axes:
            axis, each = self.axes[place]
            each = each if shape[axis] % each == 0 else 1
            repeats[axis] = shape[axis] // each if each > 1 else 1  # a dimension of 1 is broadcast
            shape[axis] = each
        if channels:
            shape[2:] = [1] * len(shape[2:])
        kept = self.luck(shape, self.number, place, values.device) >= p
        return kept.to(values.dtype).repeat(repeats)

    def rests(self, p: float) -> bool:
        """Whether a dropout of this rate does nothing; its module may only be waiting for training mode."""
        if p == 0 and self.running:
            self.resting.add(self.running[-1])
        return p == 0

    def dropped(self, values: Tensor, p: float, **how: bool) -> Tensor:
        """Values times their mask, scaled so that the mean stays."""
        return values if self.rests(p) else values * (self.mask(values, p, **how) / max(1 - p, 1e-12))


def dropout(
    masks: Masks,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    channels: bool = False,
) -> Tensor:
    """`F.dropout` and its forms for channels; never in place, since the next pass needs the same inputs."""
    return masks.dropped(input, p, channels=channels)


def alpha_dropout(
    masks: Masks,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    channels: bool = False,
) -> Tensor:
    """`F.alpha_dropout`, which keeps mean and variance of SELU's outputs."""
    if masks.rests(p):
        return input
    kept = masks.mask(input, p, channels=channels)
    scale = 0.0 if p == 1 else ((1 - p) * (1 + p * SATURATED**2)) ** -0.5
    return scale * (input * kept + SATURATED * (1 - kept)) - scale * SATURATED * p


def attention(
    masks: Masks,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`F.scaled_dot_product_attention`, written out so that the weights' mask can be given."""
    if masks.rests(dropout_p):
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)  # (..., queries, keys)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if hidden else scores + attn_mask
    alone = (scores == -math.inf).all(-1, keepdim=True)  # a query that may look nowhere gets zeros
    weights = scores.softmax(-1).masked_fill(alone, 0)
    return masks.dropped(weights, dropout_p) @ value


def multi_head(masks: Masks, *args: Any, **kwargs: Any) -> Any:
    """`F.multi_head_attention_forward` in training mode, which for it means dropout and nothing else."""
    with masks:  # a mode is off while it handles a call
        return MULTI_HEAD(*args, **(kwargs | {"training": True}))


def recurrent(run: Callable[..., Any], masks: Masks, values: Tensor, *rest: Any) -> Any:
    """An LSTM, GRU or plain RNN layer by layer, with dropout between the layers."""
    packed = not isinstance(rest[2], bool)  # a packed sequence's batch sizes come second
    sizes, (state, weights, bias, layers, p, _, both_ways, *batch_first) = rest[:packed], rest[packed:]
    ways, each = 1 + both_ways, len(weights) // layers
    finals = []
    for layer in range(layers):
        if layer:
            values = masks.dropped(values, p, packed=packed)
        mine = slice(layer * ways, (layer + 1) * ways)
        before = state[mine] if isinstance(state, Tensor) else tuple(part[mine] for part in state)
        own = weights[layer * each : (layer + 1) * each]
        values, *after = run(values, *sizes, before, own, bias, 1, 0.0, False, both_ways, *batch_first)
        finals.append(after)
    return values, *(torch.cat(parts) for parts in zip(*finals, strict=True))


def seen_through(function: Any) -> FunctionType:
    """A function of torch without its test for overrides, so that a mode sees the calls inside it."""
    names = function.__globals__ | {"has_torch_function": lambda _: False}
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


MULTI_HEAD = seen_through(F.multi_head_attention_forward)

ACTIONS: dict[Any, Callable[..., Any]] = {
    F.dropout: dropout,
    torch.dropout: dropout,
    F.dropout1d: partial(dropout, channels=True),
    F.dropout2d: partial(dropout, channels=True),
    F.dropout3d: partial(dropout, channels=True),
    F.alpha_dropout: alpha_dropout,
    F.feature_alpha_dropout: partial(alpha_dropout, channels=True),
    F.scaled_dot_product_attention: attention,
    F.multi_head_attention_forward: multi_head,
    torch.lstm: partial(recurrent, torch.lstm),
    torch.gru: partial(recurrent, torch.gru),
    torch.rnn_tanh: partial(recurrent, torch.rnn_tanh),
    torch.rnn_relu: partial(recurrent, torch.rnn_relu),
}
