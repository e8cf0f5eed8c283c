"""Contexts and perturbations as strategies see them, for tests that look inside."""

from typing import Any

from torch import nn

from jostle import NoiseStability
from jostle.embeddings.deviations import Perturbations


def context_of(model: nn.Module, pool: Any, **settings: Any) -> Any:
    return NoiseStability(**settings).context(model, pool, seed=3)


def perturbations_of(model: nn.Module, pool: Any, **settings: Any) -> Perturbations:
    strategy = NoiseStability(**settings)
    with strategy.context(model, pool, seed=3) as context:
        return strategy.perturbations(context, strategy.readout(context, context.pool))
