"""The exact directional derivative of outputs along a direction in parameter space, by forward mode."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from jostle.inputs import Inputs
from jostle.scoring.attention import plain_attention
from jostle.scoring.network import Network


@contextmanager
def directional_derivative(
    network: Network, watch: Callable[[Inputs], Tensor], direction: dict[str, Tensor]
) -> Iterator[Callable[[Inputs], Tensor]]:
    """A function inputs -> J(x) u; an operator without forward mode is an error that names it."""
    if isinstance(network.module, torch.jit.ScriptModule):
        raise ValueError("a TorchScript model has no exact derivative here: use estimator='finite'")
    theta = dict(network.module.named_parameters())
    point = {name: theta[name] for name in direction}

    def derivative(inputs: Inputs) -> Tensor:
        def at(weights: dict[str, Tensor]) -> Tensor:
            with network.at(weights):
                return watch(inputs)

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
            "of this model does not have: use estimator='finite' with a small scale"
        ) from error
