"""A model for the labeled examples: a network trained by the protocol's recipe, or by a fit of the user's own."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from jostle.core import Joined
from jostle.core.strategy import Strategy
from jostle.datasets.views import as_dataset, split_columns
from jostle.experiments.runs.protocol import Named
from jostle.experiments.runs.setup import ExperimentSetup
from jostle.inference.context import Fit
from jostle.rng import derive, seeded_globals
from jostle.training.train import Indexed, on, train
from jostle.utils.settings import check_settings
from jostle.utils.user_files import from_file, is_own

GIVEN = ("dataset", "seed", "model")  # what a fit of the user's own may take besides its settings


def fit_model(
    setup: ExperimentSetup,
    strategy: Strategy | None,
    inputs: Indexed,
    targets: Indexed,
    seed: int,
    first_cycle: bool,
) -> nn.Module:
    """A model trained from scratch, together with what the strategy joins to it."""
    recipe = setup.protocol.training
    if setup.protocol.fit is not None:
        check_no_joint_training(strategy)
        return call_user_fit(setup, setup.protocol.fit, inputs, targets, seed)
    if recipe is None:
        raise ValueError(f"protocol {setup.protocol.name} has neither training nor fit")
    model = on(setup.device, setup.model(seed))
    example = inputs[torch.arange(min(2, len(inputs)))]
    joined = strategy.join(model, example, derive(seed, "join")) if strategy else Joined(model)
    return train(
        joined,
        inputs,
        targets,
        recipe,
        setup.task,
        seed=derive(seed, "training"),
        first_cycle=first_cycle,
        black=setup.data.black,
        device=setup.device,
    )


def committee(setup: ExperimentSetup, seed: int, cycle: int) -> Fit:
    """What a strategy may call to train further models on a dataset of (x, y), each with a seed of its own."""

    def fit(dataset: Any, member: int) -> nn.Module:
        inputs, targets = split_columns(dataset)
        return fit_model(setup, None, inputs, targets, derive(seed, "fit", cycle, member), cycle == 1)

    return fit


def call_user_fit(
    setup: ExperimentSetup, named: Named, inputs: Indexed, targets: Indexed, seed: int
) -> nn.Module:
    """What the user's function `fit(dataset, seed)` trains; one that takes `model` is given a fresh network.

    The global generators follow the seed, so a fit that ignores it still repeats.
    """
    fit = user_fit(named)
    given: dict[str, Any] = {
        "dataset": as_dataset(inputs, targets),
        "seed": seed % 2**31,
    }  # as numpy likes it
    if "model" in inspect.signature(fit).parameters:
        given["model"] = on(setup.device, setup.model(seed))
    with seeded_globals(derive(seed, "own fit"), setup.device):
        model = fit(**given, **named.settings)
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"fit {named.use} returned {type(model).__name__}; expected a trained torch.nn.Module"
        )
    return on(setup.device, model).eval()


def user_fit(named: Named) -> Any:
    """The function of a protocol's `fit`, with settings that it takes."""
    if not is_own(named.use):
        raise ValueError(f"fit is a function of your own, file.py:function; got {named.use!r}")
    fit = from_file(named.use)
    takes = inspect.signature(fit).parameters
    if not {"dataset", "seed"} <= takes.keys():
        raise TypeError(
            f"fit {named.use} takes ({', '.join(takes)}); expected (dataset, seed), and model if it likes"
        )
    given = {name: None for name in GIVEN if name in takes}
    check_settings(named.use, fit, {**named.settings, **given}, takes.keys() - given.keys())
    return fit


def check_no_joint_training(strategy: Strategy | None) -> None:
    """Refuse a strategy that takes part in training, where that is the user's."""
    if strategy is not None and type(strategy).join is not Strategy.join:
        raise ValueError("it takes part in training, which a fit of your own leaves no room for")
