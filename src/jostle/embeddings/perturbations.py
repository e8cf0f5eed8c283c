"""Random perturbations of a private copy's parameters, drawn one at a time: K copies never exist."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from jostle.inference.context import QueryContext
from jostle.inference.layers import plain_attention
from jostle.inference.parameters import Parameter, before_head, parameters
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs
from jostle.utils.names import look_up

Which = str | list[str] | Callable[[str, Tensor], bool] | None  # parameters by pattern or predicate


@dataclass(frozen=True)
class Perturbations:
    """Directions u_1 .. u_K in the space of the parameters.

    Each has unit length; a perturbation is a direction times `size` = noise_scale * ||theta||.
    """

    moving: list[Parameter]
    context: QueryContext
    size: float  # length of a perturbation
    layerwise: bool

    @classmethod
    def of(
        cls, context: QueryContext, noise_scale: float, noise: str, which: Which, features: bool
    ) -> Perturbations:
        """Perturb the parameters that `which` allows; `features` leaves out the head and what follows it."""
        layerwise = look_up("noise", noise, {"global": False, "layerwise": True})
        allowed = allowance(which)
        moving = [
            p
            for p in parameters(context.runner)
            if any(allowed(name, p.own) for name in p.aliases)
            and (not features or any(before_head(context.runner, name) for name in p.aliases))
            and not (layerwise and "bias" in p.name.rpartition(".")[2])
        ]
        length = math.sqrt(sum(squared_length(p.own) for p in moving))
        if not length:
            raise ValueError(nothing_to_perturb(context, bool(moving), which, noise, features))
        return cls(moving, context, noise_scale * length, layerwise)

    @property
    def entries(self) -> int:
        """P, the number of entries that move."""
        return sum(as_real(p.clean).numel() for p in self.moving)

    def draw(self, k: int, into: list[Tensor]) -> None:
        """The k-th direction, written into tensors like the moving parameters."""
        generators = {t.device: self.context.rng("jolt", k, device=t.device) for t in into}
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
        """Hold the private copy at theta + size * u_k; restore the very bytes of theta afterwards."""
        copies = [p.copy for p in self.moving]
        try:
            self.draw(k, copies)  # drawn in place: the user's own weights are the clean ones
            for parameter in self.moving:
                parameter.copy.mul_(self.size).add_(parameter.clean.to(parameter.copy))
            yield
        finally:
            for parameter in self.moving:
                parameter.copy.copy_(parameter.clean)

    def direction(self, k: int) -> dict[str, Tensor]:
        """The k-th direction by parameter name, tied names sharing one tensor."""
        tensors = [torch.empty_like(p.copy) for p in self.moving]
        self.draw(k, tensors)
        return {name: t for p, t in zip(self.moving, tensors, strict=True) for name in p.names}


def nothing_to_perturb(context: QueryContext, zero: bool, which: Which, noise: str, features: bool) -> str:
    """Explain why no parameter can be perturbed, and what to do."""
    names = [p.name for p in parameters(context.runner)]
    what = "are all zero" if zero else "do not exist"
    hint = (
        "; nothing comes before the head: space='logits' lets it move" if features and which is None else ""
    )
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    found = f"the parameters to perturb {what} (parameters={which!r}, noise={noise!r}){hint}"
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


@contextmanager
def directional_derivative(
    runner: ModelRunner, readout: Callable[[Inputs], Tensor], direction: dict[str, Tensor]
) -> Iterator[Callable[[Inputs], Tensor]]:
    """A function inputs -> J(x) u; an operator without forward mode is an error that names it."""
    if isinstance(runner.module, torch.jit.ScriptModule):
        raise ValueError("a TorchScript model has no exact derivative here: use estimator='finite'")
    theta = dict(runner.module.named_parameters())
    point = {name: theta[name] for name in direction}

    def derivative(inputs: Inputs) -> Tensor:
        def at(weights: dict[str, Tensor]) -> Tensor:
            with runner.at(weights):
                return readout(inputs)

        along: Tensor = jvp(at, (point,), (direction,))[1]
        return along.detach()

    with forward_mode():
        yield derivative


@contextmanager
def forward_mode() -> Iterator[None]:
    """Kernels that forward mode knows: fused attention has none, so its plain form computes here."""
    try:
        with plain_attention(), sdpa_kernel(SDPBackend.MATH):
            yield
    except (NotImplementedError, RuntimeError) as error:
        if "forward AD" not in str(error) and "forward-mode" not in str(error):
            raise
        operator = re.search(r"forward AD with (\S+)", str(error))
        raise ValueError(
            f"the exact derivative needs forward mode, which {operator[1] if operator else 'an operator'} "
            "of this model does not have: use estimator='finite' with a small noise_scale"
        ) from error
