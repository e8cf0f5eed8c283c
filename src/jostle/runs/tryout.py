"""Network and strategies tried on a handful of examples: a mismatch shows in seconds and not after hours."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from jostle.core import Strategy
from jostle.datasets.views import labelled_part, part_of, pool_of
from jostle.runs.bench import Bench, strategy_of
from jostle.runs.fitting import committee, fit_model
from jostle.runs.workers import explained

HANDFUL = 12


def try_out(bench: Bench) -> None:
    """Train for one epoch on a few examples; then, with every strategy, pick two of a few others."""
    quick = replace(
        bench,
        protocol=bench.protocol.model_copy(
            update={"training": bench.protocol.training.model_copy(update={"epochs": 1})}
        ),
    )
    protocol = bench.protocol
    try:
        try_training(quick)
    except Exception as error:
        what = (
            f"the network {protocol.model.use}"
            if protocol.fit is None
            else f"a model by fit {protocol.fit.use}"
        )
        raise ValueError(f"{what} cannot be trained on {bench.data.name}: {explained(error)}") from error
    for label, named in protocol.strategies.items():
        try:
            try_strategy(quick, shortened(strategy_of(named)))
        except Exception as error:
            raise ValueError(f"{label} does not work in {protocol.name}: {explained(error)}") from error


def handfuls(bench: Bench) -> tuple[Tensor, Tensor]:
    """Ids of a few examples to learn from, and of a few others to choose from."""
    split = bench.data.train
    few = min(HANDFUL, len(split) // 2)
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))
    return order[:few], order[few : 2 * few]


def try_training(bench: Bench) -> None:
    """Train the network alone, and test it on a few examples."""
    known, _ = handfuls(bench)
    train, test = bench.data.train, bench.data.test
    inputs, targets = part_of(train.inputs, known), part_of(train.targets, known)
    model = fit_model(bench, None, inputs, targets, seed=0, first_cycle=True)
    few = torch.arange(min(HANDFUL, len(test)))
    inputs, targets = part_of(test.inputs, few), part_of(test.targets, few)
    bench.metrics(model, inputs, targets)


def try_strategy(bench: Bench, strategy: Strategy) -> None:
    """One cycle in small."""
    split = bench.data.train
    known, others = handfuls(bench)
    inputs, targets = part_of(split.inputs, known), part_of(split.targets, known)
    model = fit_model(bench, strategy, inputs, targets, seed=0, first_cycle=True)
    strategy.select(
        model,
        pool_of(split.inputs, others),
        min(2, len(others)),
        labeled=labelled_part(split, known),
        fit=committee(bench, 0, 1),
        task=bench.task,
        seed=0,
        device=bench.device,
        progress=False,
    )


def shortened(strategy: Strategy) -> Strategy:
    """The same strategy with two steps of whatever training of its own it has."""
    own: dict[str, Any] = {field.name: 2 for field in fields(strategy) if field.name in ("steps", "epochs")}
    return replace(strategy, **own)
