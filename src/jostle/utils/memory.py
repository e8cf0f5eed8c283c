"""How much memory there is, and a refusal before the work that would need more."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import torch

UNITS = ("B", "kB", "MB", "GB", "TB")
UNKNOWN = 8 * 2**30  # bytes, where a system does not tell
SMALLER = "pass a smaller random part of the pool"


def check_memory(
    method: str, needed: int, allowed: int | None, what: str, device: torch.device, instead: str = SMALLER
) -> None:
    """An error where a method would need more memory than `memory_bytes` allows; None: than half of what is free."""
    if allowed is not None and needed > allowed:
        raise ValueError(
            f"{method} would need {needed:,} bytes for {what}, more than memory_bytes={allowed:,}: "
            f"raise memory_bytes, or {instead}"
        )
    if allowed is None and needed > (free := free_bytes(device)) // 2:
        raise ValueError(
            f"{method} would need {needed:,} bytes for {what}, more than half of the {free:,} that are free: "
            f"{instead}, or set memory_bytes={needed} to try all the same"
        )


def in_words(size: float) -> str:
    """Bytes as people say them: 38.6 GB."""
    power = 0
    while size >= 999.5 and power < len(UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {UNITS[power]}"


def free_bytes(device: torch.device) -> int:
    """Bytes that are free where a model computes; a guess where nothing tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    found = [free for read in (_available, _left_in_group, _pages, _windows) if (free := _guarded(read))]
    return min(found, default=UNKNOWN)


def _guarded(read: Callable[[], int]) -> int:
    """What a reading says; 0 where there is no such thing."""
    try:
        return read()
    except (OSError, ValueError, AttributeError, KeyError):
        return 0


def _available() -> int:
    """Linux: what can be had without swapping."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _left_in_group() -> int:
    """Linux: what a container is allowed beyond what it holds."""
    group = Path("/sys/fs/cgroup")
    most, now = (int((group / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
    return most - now


def _pages() -> int:
    """Other Unix systems."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _windows() -> int:
    """Windows: MEMORYSTATUSEX has the free physical bytes at its second 64-bit number."""
    status = (ctypes.c_uint64 * 8)()
    status[0] = ctypes.sizeof(status)  # its first half is the length of the structure
    ctypes.windll.kernel32.GlobalMemoryStatusEx(status)  # type: ignore[attr-defined]
    return int(status[2])
