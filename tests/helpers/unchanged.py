"""All that a call may not change, remembered and compared bit for bit."""

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from jostle.inference.isolation import switches


def state_of(model: nn.Module) -> dict[str, Any]:
    """All that must not change: weights, buffers, modes, gradients and global random states."""
    return {
        "weights": [(name, p.detach().clone(), p.requires_grad) for name, p in model.named_parameters()],
        "buffers": [(name, b.clone()) for name, b in model.named_buffers()],
        "modes": [(name, m.training) for name, m in model.named_modules()],
        "gradients": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "torch": torch.get_rng_state().clone(),
        "numpy": copy.deepcopy(np.random.get_state()),  # noqa: NPY002
        "python": random.getstate(),
        "grad mode": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "tf32": (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32),
        "rounding": [switch.read() for switch in switches()],
        "fast attention": torch.backends.mha.get_fastpath_enabled(),
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def remembered(model: nn.Module) -> Callable[[], None]:
    """`check = remembered(model)`, then `check()` after the call: all is bit for bit as before."""
    before = state_of(model)

    def check() -> None:
        after = state_of(model)
        changed = [key for key in before if not same(before[key], after[key])]
        assert not changed, f"changed: {changed}"

    return check
