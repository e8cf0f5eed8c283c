"""Requests and jolts as strategies meet them, for tests that look inside."""

from typing import Any

from torch import nn

from jostle import NoiseStability
from jostle.embeddings.jolts import Jolts


def request_of(model: nn.Module, pool: Any, **settings: Any) -> Any:
    return NoiseStability(**settings).request(model, pool, seed=3)


def jolts_of(
    model: nn.Module, pool: Any, noise: str = "global", which: Any = None, in_front: bool = False
) -> Jolts:
    with request_of(model, pool) as request:
        return Jolts.of(request, 1e-3, noise, which, in_front)
