"""Random nudges of a private copy's parameters, drawn one at a time: K copies never exist."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from jostle.plumbing.names import look_up
from jostle.scoring.network import Parameter
from jostle.scoring.request import Request

Which = str | list[str] | Callable[[str, Tensor], bool] | None  # parameters by pattern or predicate


@dataclass(frozen=True)
class Jolts:
    """Directions for the parameters; `applied(k)` holds the copy at the k-th, `direction(k)` returns it.

    A direction has unit length over all that moves; the jolt is that times `reach` = scale * ||theta||.
    """

    moving: list[Parameter]
    request: Request
    reach: float  # length of a jolt
    layerwise: bool

    @classmethod
    def of(cls, request: Request, scale: float, noise: str, which: Which, in_front: bool) -> Jolts:
        """Jolts of what `which` allows; `in_front` leaves the head and what follows it at rest."""
        layerwise = look_up("noise", noise, {"global": False, "layerwise": True})
        allowed = allowance(which)
        moving = [
            p
            for p in request.network.parameters()
            if any(allowed(name, p.own) for name in p.aliases)
            and (not in_front or any(map(request.network.before_head, p.aliases)))
            and not (layerwise and "bias" in p.name.rpartition(".")[2])
        ]
        length = math.sqrt(sum(squared_length(p.own) for p in moving))
        if not length:
            raise ValueError(nothing_to_jolt(request, bool(moving), which, noise, in_front))
        return cls(moving, request, scale * length, layerwise)

    @property
    def entries(self) -> int:
        """P, the number of entries that move."""
        return sum(as_real(p.clean).numel() for p in self.moving)

    def draw(self, k: int, into: list[Tensor]) -> None:
        """The k-th direction, written into tensors like the moving parameters."""
        generators = {t.device: self.request.rng("jolt", k, device=t.device) for t in into}
        for tensor in into:
            as_real(contiguous_view(tensor)).normal_(generator=generators[tensor.device])
        if self.layerwise:  # each tensor's share is its own length, not its number of entries
            shares = [math.sqrt(squared_length(p.own)) for p in self.moving]
            total = math.sqrt(sum(share**2 for share in shares))
            lengths = [math.sqrt(squared_length(t)) or 1.0 for t in into]
            steps = [share / total / length for share, length in zip(shares, lengths, strict=True)]
        else:
            steps = [1 / math.sqrt(sum(squared_length(t) for t in into))] * len(into)
        for tensor, step in zip(into, steps, strict=True):
            tensor.mul_(step)

    @contextmanager
    def applied(self, k: int) -> Iterator[None]:
        """The private copy's parameters at theta + the k-th jolt, and back at theta afterwards."""
        copies = [p.copy for p in self.moving]
        try:
            self.draw(k, copies)  # drawn in place: the user's own weights are the clean ones
            for parameter in self.moving:
                parameter.copy.mul_(self.reach).add_(parameter.clean.to(parameter.copy))
            yield
        finally:
            for parameter in self.moving:
                parameter.copy.copy_(parameter.clean)

    def direction(self, k: int) -> dict[str, Tensor]:
        """The k-th direction by parameter name, tied names sharing one tensor."""
        tensors = [torch.empty_like(p.copy) for p in self.moving]
        self.draw(k, tensors)
        return {name: t for p, t in zip(self.moving, tensors, strict=True) for name in p.names}


def nothing_to_jolt(request: Request, zero: bool, which: Which, noise: str, in_front: bool) -> str:
    """Why there is nothing to jolt, and what to do."""
    names = [p.name for p in request.network.parameters()]
    what = "are all zero" if zero else "do not exist"
    hint = (
        "; nothing comes before the head: space='logits' lets it move" if in_front and which is None else ""
    )
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    found = f"the parameters to jolt {what} (parameters={which!r}, noise={noise!r}){hint}"
    return f"{found}; the model has: {shown or 'none'}"


def allowance(which: Which) -> Callable[[str, Tensor], bool]:
    """A test on name and tensor; patterns are as in a shell, `layer4.*`."""
    if which is None:
        return lambda name, tensor: True
    if callable(which):
        return which
    patterns = [which] if isinstance(which, str) else list(which)
    return lambda name, tensor: any(fnmatchcase(name, pattern) for pattern in patterns)


def squared_length(tensor: Tensor) -> float:
    """Sum of squares, accumulated so that millions of float32 entries do not round it away."""
    flat = as_real(contiguous_view(tensor.detach())).flatten()
    squares = [part.float().dot(part.float()) for part in flat.split(2**16)] or [flat.new_zeros(())]
    return float(torch.stack(squares).to("cpu", torch.float64).sum())


def contiguous_view(tensor: Tensor) -> Tensor:
    """The same memory as a contiguous view: normal_ is several times slower on a channels_last tensor."""
    if tensor.is_contiguous() or not tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor
    return tensor.permute(0, 2, 3, 1)


def as_real(tensor: Tensor) -> Tensor:
    """Complex parameters as pairs of reals."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
