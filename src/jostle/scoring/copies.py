"""Private copies of models: nothing that is done to them reaches the user's own."""

import copy
from typing import Any

import torch
from torch import Tensor, nn


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside torch.compile and the parallel wrappers, whose copies would be slow or refuse."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def device_of(module: nn.Module) -> torch.device:
    """Where a model's weights lie."""
    if not isinstance(module, nn.Module):
        raise TypeError(f"a model is a torch.nn.Module; got {type(module).__name__}")
    return next((t.device for t in [*module.parameters(), *module.buffers()]), torch.device("cpu"))


def private_copy(model: nn.Module) -> nn.Module:
    """A deep copy; what cannot be copied (locks, open files) is shared with the original."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor) and not value.is_leaf:  # cached, or old weight_norm's weight
                memo[id(value)] = value.detach().clone()
    for parameter in model.parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ValueError(
                "the model has lazy layers that have not seen an input: run it once before selecting"
            )
    keep = dict(memo)
    try:
        return copy.deepcopy(model, memo)
    except (TypeError, RuntimeError, ValueError):
        return copy.deepcopy(model, keep | shared_leaves(model))


def retie(module: nn.Module, original: nn.Module) -> None:
    """Let parameters share memory where the original's do: copying separates those that are not one object."""
    first: dict[Any, Tensor] = {}
    for parameter, own in zip(module.parameters(), original.parameters(), strict=True):
        parameter.data = first.setdefault(memory(own), parameter.data)


def memory(tensor: Tensor) -> tuple[Any, ...]:
    """Where a tensor lies; equal for tied ones."""
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride()


def shared_leaves(model: nn.Module) -> dict[int, Any]:
    """Attributes that refuse to be copied, as a memo that shares them."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for key, value in vars(module).items():
            if key in ("_parameters", "_buffers", "_modules") or isinstance(value, nn.Module):
                continue
            try:
                copy.deepcopy(value, {id(m): m for m in model.modules()})
            except Exception:
                memo[id(value)] = value
    return memo


def device_named(name: str) -> torch.device:
    """A device that can be computed on, or an error that says what there is."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as wrong:
        raise ValueError(f"cannot compute on the device {name!r}: {str(wrong).splitlines()[0]}") from None
    return device
