"""Contexts and perturbations as strategies see them, for tests that look inside."""

from typing import Any

from torch import nn

from jostle import NoiseStability
from jostle.embeddings.perturbations import Perturbations


def context_of(model: nn.Module, pool: Any, **settings: Any) -> Any:
    return NoiseStability(**settings).context(model, pool, seed=3)


def perturbations_of(
    model: nn.Module, pool: Any, noise: str = "global", which: Any = None, before_head: bool = False
) -> Perturbations:
    with context_of(model, pool) as context:
        return Perturbations.of(context, 1e-3, noise, which, before_head)
