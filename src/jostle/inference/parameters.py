"""The parameters of a model, the user's own beside the private copy's: which reach an output, their lengths, noise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from jostle.inference.context import QueryContext
from jostle.inference.isolation import memory
from jostle.inference.layers import plain_attention
from jostle.inference.runner import InputMutatedError, ModelRunner
from jostle.inputs import Inputs

Readout = Callable[[Inputs], Tensor]  # inputs -> f(x; theta), (n, d)


@dataclass(frozen=True)
class Parameter:
    """A tensor of the private copy beside the user's own parameter, which holds the clean values."""

    names: list[str]  # several where distinct parameters share memory
    aliases: list[str]  # these, and all other names of the same parameters
    copy: Tensor
    own: Tensor

    @property
    def clean(self) -> Tensor:
        """The user's own values."""
        return self.own.detach()

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    def restore(self) -> None:
        """Put the very bytes of the user's own values back into the copy."""
        self.copy.copy_(self.clean)


def parameters(runner: ModelRunner) -> list[Parameter]:
    """Floating parameters, each tensor once however often it is tied."""
    own = dict(runner.original.named_parameters(remove_duplicate=False))
    objects = dict(runner.module.named_parameters())
    found: dict[Any, Parameter] = {}
    for name, parameter in runner.module.named_parameters(remove_duplicate=False):
        if parameter.is_floating_point() or parameter.is_complex():
            tied = found.setdefault(memory(own[name]), Parameter([], [], parameter.detach(), own[name]))
            tied.aliases.append(name)
            if name in objects:
                tied.names.append(name)
    return list(found.values())


def before_head(runner: ModelRunner, parameter: str) -> bool:
    """Whether a parameter can move the features: the head's and those of layers after it cannot."""
    if callable(runner.given_head):
        return True
    order, owner = runner.order, parameter.rpartition(".")[0]
    in_head = owner == runner.head or owner.startswith(runner.head + ".")
    return not in_head and order.get(owner, -1) < order[runner.head]


def reaching(context: QueryContext, readout: Readout, some: Sequence[Parameter]) -> list[Parameter]:
    """Return the parameters that an output depends on; a head that nothing reads is not among them.

    Those in the autograd graph of a couple of outputs are. A model may hide others from that graph, so the rest are
    set to NaN: those that change an output of the first few examples are, too.
    """
    with context.untracked():
        seen = graph_leaves(context.runner, readout)
        rest = [p for p in some if memory(p.copy) not in seen]
        if not rest:
            return list(some)
        clean = [(inputs, readout(inputs)) for inputs in context.probe]
        hidden = {p.name for p in changing(readout, clean, rest)}
    return [p for p in some if memory(p.copy) in seen or p.name in hidden]


def graph_leaves(runner: ModelRunner, readout: Readout) -> set[Any]:
    """Return where the tensors lie that the autograd graph of a couple of outputs begins with; no gradient is made."""
    own = [p for p in runner.module.parameters() if p.is_floating_point() or p.is_complex()]
    frozen = [p for p in own if not p.requires_grad]
    try:
        for p in frozen:
            p.requires_grad_(True)
        with torch.enable_grad():
            output = readout(runner.example)
    except InputMutatedError:
        raise
    except (RuntimeError, TypeError, ValueError):
        return set()  # a model that cannot be differentiated
    finally:
        for p in frozen:
            p.requires_grad_(False)
    found, seen, nodes = set(), set(), [output.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [before for before, _ in node.next_functions]
            if isinstance(leaf := getattr(node, "variable", None), Tensor):
                found.add(memory(leaf))
    return found


def changing(
    readout: Readout, clean: Sequence[tuple[Inputs, Tensor]], some: Sequence[Parameter]
) -> Sequence[Parameter]:
    """Return those of some parameters that change an output, searched in halves."""
    try:
        for p in some:
            p.copy.fill_(torch.nan)
        same = all(torch.equal(readout(inputs), outputs) for inputs, outputs in clean)
    except InputMutatedError:
        raise
    except Exception:
        same = False  # the model looked at NaN, and raised
    finally:
        for p in some:
            p.restore()
    if same or len(some) == 1:
        return [] if same else some
    half = len(some) // 2
    return [*changing(readout, clean, some[:half]), *changing(readout, clean, some[half:])]


def fill_gaussian(tensors: Sequence[Tensor], rng: Callable[[torch.device], torch.Generator]) -> None:
    """Write standard normal numbers into tensors, from one generator for each device."""
    generators = {tensor.device: rng(tensor.device) for tensor in tensors}
    for tensor in tensors:
        as_real(contiguous_view(tensor)).normal_(generator=generators[tensor.device])


def squared_length(tensor: Tensor) -> float:
    """Sum of squares, accumulated so that millions of float32 entries do not round it away."""
    flat = as_real(contiguous_view(tensor.detach())).flatten()
    squares = [part.float().dot(part.float()) for part in flat.split(2**16)] or [flat.new_zeros(())]
    return float(torch.stack(squares).to("cpu", torch.float64).sum())


def contiguous_view(tensor: Tensor) -> Tensor:
    """Return a contiguous view of the memory: normal_ is several times slower on a channels_last tensor."""
    if tensor.is_contiguous() or not tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor
    return tensor.permute(0, 2, 3, 1)


def as_real(tensor: Tensor) -> Tensor:
    """Complex parameters as pairs of reals."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


@contextmanager
def directional_derivative(
    runner: ModelRunner, readout: Readout, direction: Mapping[str, Tensor]
) -> Iterator[Readout]:
    """A function inputs -> J(x) u; an operator without forward mode is an error that names it."""
    if isinstance(runner.module, torch.jit.ScriptModule):
        raise ValueError("a TorchScript model has no exact derivative here: use estimator='finite'")
    theta = dict(runner.module.named_parameters())
    point = {name: theta[name] for name in direction}

    def derivative(inputs: Inputs) -> Tensor:
        def at(weights: dict[str, Tensor]) -> Tensor:
            with runner.at(weights):
                return readout(inputs)

        along: Tensor = jvp(at, (point,), (dict(direction),))[1]
        return along.detach()

    try:  # fused attention has no forward mode: its plain form computes
        with plain_attention(), sdpa_kernel(SDPBackend.MATH):
            yield derivative
    except (NotImplementedError, RuntimeError) as error:
        if "forward AD" not in str(error) and "forward-mode" not in str(error):
            raise
        operator = re.search(r"forward AD with (\S+)", str(error))
        raise ValueError(
            f"the exact derivative needs forward mode, which {operator[1] if operator else 'an operator'} "
            "of this model does not have: use estimator='finite' with a small noise_scale"
        ) from error
