"""Which tokens of a batch are padding: found in its inputs, or as the call says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from jostle.inputs import Inputs, count

Mask = (
    str | Callable[[Inputs], Tensor] | bool | None
)  # a key of the inputs, a function of them, False for none

KEY = "attention_mask"
REMEDY = "pass mask= a function of the inputs that gives (n, tokens), or mask=False if there is no padding"


def mask_of(inputs: Inputs, given: Mask) -> Tensor | None:
    """Which tokens of each example count, (n, tokens) bool; None where nothing says so."""
    found = mask_in(inputs, given)
    if found is None:
        return None
    if found.ndim != 2 or len(found) != count(inputs):
        raise ValueError(
            f"a mask says of every token whether it counts, (n, tokens); got {tuple(found.shape)} for "
            f"{count(inputs)} examples: {REMEDY}"
        )
    if not ((found == 0) | (found == 1)).all():
        low, high = found.min().item(), found.max().item()
        raise ValueError(
            f"a mask holds 1 where a token counts and 0 where it is padding; got values from {low} to {high}: {REMEDY}"
        )
    return found.bool()


def mask_in(inputs: Inputs, given: Mask) -> Tensor | None:
    """The mask as it is found in the inputs; one that nobody asked for must look like one."""
    if callable(given):
        return torch.as_tensor(given(inputs))
    named = inputs if isinstance(inputs, Mapping) else {}
    if isinstance(given, str):
        if given not in named:
            there = ", ".join(map(repr, named)) or "none by name"
            raise ValueError(f"mask={given!r} is not among the inputs, which are {there}: {REMEDY}")
        return torch.as_tensor(named[given])
    found = named.get(KEY) if given is None else None
    return found if isinstance(found, Tensor) and found.ndim == 2 else None


def fitted_mask(mask: Tensor, tokens: int) -> Tensor | None:
    """The mask for this many tokens: what a model cuts off may only be padding; None where it does not fit."""
    if mask.shape[1] < tokens or mask[:, tokens:].any():
        return None
    return mask[:, :tokens]
