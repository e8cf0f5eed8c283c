"""Every draw has a purpose: `generator(seed, "query", cycle)` repeats alone, whatever else was drawn."""

import hashlib
import operator
import os
import random
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

GOLDEN = -0x61C8864680B583EB  # 2^64 over the golden ratio, as a signed number


def derive(seed: int, *purpose: str | int) -> int:
    """A seed of its own for a purpose; the same on every machine and in every process."""
    words = "\x1f".join([str(int(seed)), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "little") >> 1  # torch takes 63 bits


def generator(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator for one purpose on one device."""
    return torch.Generator(device=device).manual_seed(derive(seed, *purpose))


def uniform_by_place(shape: Sequence[int], key: int, device: torch.device | str = "cpu") -> Tensor:
    """Uniform numbers in [0, 1), each decided by a key and its own place: a larger shape begins with a smaller one."""
    bits = torch.full([1] * len(shape), key, dtype=torch.int64, device=device)
    for axis, size in enumerate(shape):
        steps = torch.arange(1, size + 1, device=device).view(-1, *[1] * (len(shape) - axis - 1))
        bits = scrambled(bits + steps * GOLDEN)
    return as_uniform(bits)


def bits_at(key: int, places: Tensor) -> Tensor:
    """64 bits for each place, (n,) int64, decided by a key and the place alone, and different for different places."""
    return scrambled(key + (places + 1) * GOLDEN)


def as_uniform(bits: Tensor) -> Tensor:
    """Random bits as numbers in [0, 1)."""
    return ((bits >> 11) & (2**53 - 1)).double() / 2**53


def scrambled(bits: Tensor) -> Tensor:
    """Every bit mixed into every other, as by the finaliser of SplitMix64; sums and products wrap around."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        bits = (bits ^ ((bits >> shift) & (2 ** (64 - shift) - 1))) * factor
    return bits ^ ((bits >> 31) & (2**33 - 1))


def fresh_seed() -> int:
    """A seed nobody chose, short enough to be written down."""
    return random.SystemRandom().randrange(2**31)


def as_seed(given: int | None) -> int:
    """The seed as given, or a fresh one for None; fractions are refused, since they would be cut off."""
    try:
        return fresh_seed() if given is None else operator.index(given)
    except TypeError:
        raise TypeError(f"seed is a whole number; got {given!r}") from None


GLOBALS = threading.RLock()  # the global generators are one for all threads
PATIENCE = 60.0  # seconds of waiting for another thread before it is said
WAITING = (
    "another thread's call holds the global random state, and this thread waits for it: if that call in turn waits "
    "for this thread, as with a fit= that trains in a thread of its own, both wait for ever; train in the thread "
    "that fit= was called in"
)


@contextmanager
def alone() -> Iterator[None]:
    """One thread at a time, a thread as often as it likes; a long wait may be for ever, and is warned of."""
    lock = GLOBALS  # a fork in here puts another in its place
    if not lock.acquire(timeout=PATIENCE):
        warnings.warn(WAITING, stacklevel=5)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


FORKING = threading.local()  # .held: the lock that a thread took before it forks
MOMENT = 1.0  # seconds that a fork waits for the call of another thread


def fork_between_calls() -> None:
    """Wait a moment for the call of another thread, so that a fork finds it at no work.

    PyTorch and its BLAS have locks of their own, and one that is held at the fork stays held in the child for ever.
    Most calls end within the moment; beside a longer one the fork goes ahead.
    """
    lock = GLOBALS
    FORKING.held = lock if lock.acquire(timeout=MOMENT) else None


def go_on() -> None:
    """In the parent, calls go on."""
    if FORKING.held is not None:
        FORKING.held.release()


def renew_lock() -> None:
    """A lock that nobody holds: in a forked process the thread that held the old one does not exist."""
    global GLOBALS
    GLOBALS = threading.RLock()


if hasattr(os, "register_at_fork"):  # not where there are no forks
    os.register_at_fork(before=fork_between_calls, after_in_parent=go_on, after_in_child=renew_lock)


@contextmanager
def seeded_globals(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed the global generators for a while, one thread at a time, and put their states back whatever happens.

    Models and datasets may draw from them (dropout does), so a call is repeatable and leaves no trace.
    Only the generators of the CPU and of `device` are seeded: seeding all would start every GPU.
    What is called inside must not wait for another thread that comes here too: that one waits for this to end.
    Another thread that draws from them meanwhile gets numbers that repeat: they are one for the whole process.
    """
    on, value = torch.device(device), derive(seed, "globals")
    accelerators = [on] if on.type in ("cuda", "xpu") else []  # the others have no state by device
    with alone(), torch.random.fork_rng(accelerators, device_type=on.type if accelerators else "cuda"):
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
