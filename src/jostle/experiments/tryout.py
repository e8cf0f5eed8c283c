"""Every strategy tried on a handful of examples, so that a mismatch shows in seconds and not after hours."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch

from jostle.core import Strategy
from jostle.experiments.loop import fresh
from jostle.experiments.prepare import Bench, columns_of, labelled_part, part_of, pool_of, strategy_of
from jostle.rng import derive

HANDFUL = 12


def try_out(bench: Bench) -> None:
    """Train for one epoch on a few examples and pick two of a few others, with every strategy."""
    quick = replace(
        bench,
        protocol=bench.protocol.model_copy(
            update={"training": bench.protocol.training.model_copy(update={"epochs": 1})}
        ),
    )
    for label, named in bench.protocol.strategies.items():
        try:
            attempt(quick, shortened(strategy_of(named)))
        except (ValueError, TypeError, NotImplementedError, ImportError, RuntimeError) as error:
            raise ValueError(f"{label} does not work in {bench.protocol.name}: {error}") from error


def attempt(bench: Bench, strategy: Strategy) -> None:
    """One cycle in small."""
    split = bench.data.train
    few = min(HANDFUL, len(split) // 2)
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))
    known, unknown = order[:few], order[few : 2 * few]
    inputs, targets = part_of(split.inputs, known), part_of(split.targets, known)
    model = fresh(bench, strategy, inputs, targets, seed=0, first_cycle=True)
    strategy.select(
        model,
        pool_of(split.inputs, unknown),
        min(2, few),
        labeled=labelled_part(split, known),
        fit=lambda dataset, seed: fresh(bench, None, *columns_of(dataset), derive(0, "fit", seed), True),
        task=bench.task,
        seed=0,
        device=bench.device,
        progress=False,
    )


def shortened(strategy: Strategy) -> Strategy:
    """The same strategy with two steps of whatever training of its own it has."""
    own: dict[str, Any] = {field.name: 2 for field in fields(strategy) if field.name in ("steps", "epochs")}
    return replace(strategy, **own)
