"""Full float32 while scoring, whatever the process has switched on for training."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

Switch = tuple[Any, str, Any]  # an object, its attribute, the value that turns TF32 off

LEGACY: list[Switch] = [
    (torch.backends.cudnn, "allow_tf32", False),
    (torch.backends.cuda.matmul, "allow_tf32", False),
]


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """No TF32 and no autocast for a while: their rounding drowns the movements that a jolt of 1e-3 makes."""
    before = tf32()
    try:
        for place, name, off in before:
            setattr(place, name, off[1])
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for place, name, values in before:
            setattr(place, name, values[0])


def tf32() -> list[Switch]:
    """The switches of TF32 with (their values, off): PyTorch refuses the old ones where a user has set the new."""
    try:
        return [(place, name, (getattr(place, name), off)) for place, name, off in LEGACY]
    except RuntimeError:
        cudnn = torch.backends.cudnn
        places = (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)  # type: ignore[attr-defined]
        return [(place, "fp32_precision", (place.fp32_precision, "ieee")) for place in places]
