"""Attention step by step, where its fused form would hide or change what is looked at."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
