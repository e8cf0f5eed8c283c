"""Every draw has a purpose: `generator(seed, "query", cycle)` repeats alone, whatever else was drawn."""

import hashlib
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive(seed: int, *purpose: str | int) -> int:
    """A seed of its own for a purpose; the same on every machine and in every process."""
    words = "\x1f".join([str(int(seed)), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "little") >> 1  # torch takes 63 bits


def generator(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator for one purpose on one device."""
    return torch.Generator(device=device).manual_seed(derive(seed, *purpose))


def fresh_seed() -> int:
    """A seed nobody chose, short enough to be written down."""
    return random.SystemRandom().randrange(2**31)


GLOBALS = threading.RLock()  # the global generators are one for all threads


@contextmanager
def seeded_globals(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed the global generators for a while, one thread at a time, and put their states back whatever happens.

    Models and datasets may draw from them (dropout does), so a call is repeatable and leaves no trace.
    Only the generators of the CPU and of `device` are seeded: seeding all would start every GPU.
    """
    on, value = torch.device(device), derive(seed, "globals")
    accelerators = [on] if on.type in ("cuda", "xpu") else []  # the others have no state by device
    with GLOBALS, torch.random.fork_rng(accelerators, device_type=on.type if accelerators else "cuda"):
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            torch.default_generator.manual_seed(value)
            if accelerators:
                with torch.get_device_module(on).device(on):
                    torch.get_device_module(on).manual_seed(value)
            random.seed(value)
            np.random.seed(value % 2**32)  # noqa: NPY002
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
