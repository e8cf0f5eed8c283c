"""Checks before a run: unchanged data, run files that fit the protocol, and a smoke test of every strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from jostle.core import Strategy
from jostle.datasets import Data
from jostle.experiments.results.store import CorruptRunError, Cycle, RunBusyError, RunFile
from jostle.experiments.runs.loop import fit_from_scratch, initial_set, select_examples
from jostle.experiments.runs.setup import ExperimentSetup, build_strategy
from jostle.utils.user_files import line_in_own_file

SAMPLE_SIZE = 12


class DataIntegrity:
    """Refuses data that is not what was recorded."""

    def __init__(self, data: Data, recorded: Mapping[str, str]) -> None:
        self.data, self.recorded = data, recorded

    @property
    def reads_files(self) -> bool:
        """Whether examples are read from files as they are asked for, so that an edit reaches a run under way."""
        splits = (self.data.train, self.data.test)
        return not all(isinstance(part, Tensor) for split in splits for part in (split.inputs, split.targets))

    def verify(self) -> None:
        """Compare checksums, and name what differs."""
        found = replace(
            self.data
        ).checksums  # of a record that remembers none; unchanged files are not read again
        names = dict.fromkeys([*self.recorded, *found])
        changed = [name for name in names if self.recorded.get(name) != found.get(name)]
        if changed:
            raise ValueError(
                f"{self.data.name} is not what it was when the command began ({', '.join(changed)} changed): "
                "restore it and run the same command to resume, or start again in a different folder"
            )


class RunIntegrity:
    """Refuses cycles on disk that this protocol cannot have made with this seed."""

    def __init__(self, setup: ExperimentSetup) -> None:
        self.setup = setup
        self.initial = cache(lambda seed: initial_set(setup, seed).tolist())

    def read(self, file: RunFile) -> list[Cycle]:
        """The cycles of a run, as far as they are written, each as the protocol wants it."""
        done = file.read()
        for place, cycle in enumerate(done):
            if why := self._wrong(cycle, file.seed):
                raise CorruptRunError(file.path, place, why)
        return done

    def _wrong(self, cycle: Cycle, seed: int) -> str:
        pool, wanted = len(self.setup.data.train), self.setup.pick if cycle.cycle else self.setup.initial
        if len(cycle.picked) != wanted:
            return f"it labels {len(cycle.picked)} examples, where the protocol says {wanted}"
        if max(cycle.picked) >= pool:
            return f"it labels example {max(cycle.picked)} of {pool}"
        if cycle.cycle == 0 and cycle.picked != self.initial(seed):
            return f"its examples are not the initial set that seed {seed} draws"
        return ""


def smoke_test(setup: ExperimentSetup) -> None:
    """Train for one epoch on a few examples; then, with every strategy, pick two of a few others."""
    small, protocol = shrink(setup), setup.protocol
    try:
        model, _ = fit_from_scratch(small, None, 0, 0, initial_set(small, 0))
        small.metrics(model, small.data.test.inputs, small.data.test.targets)
    except Exception as error:
        trained = (
            f"a model by fit {protocol.fit.use}" if protocol.fit else f"the network {protocol.model.use}"
        )
        raise ValueError(
            f"{trained} cannot be trained on {setup.data.name}: {explain_error(error)}"
        ) from error
    for label, named in protocol.strategies.items():
        try:
            strategy, labeled = shorten_training(build_strategy(named)), initial_set(small, 0)
            model, _ = fit_from_scratch(small, strategy, 0, 0, labeled)
            select_examples(small, strategy, 0, 1, model, labeled)
        except Exception as error:
            raise ValueError(f"{label} does not work in {protocol.name}: {explain_error(error)}") from error


def shrink(setup: ExperimentSetup) -> ExperimentSetup:
    """Return the experiment on a few examples, half of them labeled at the start, with one epoch of training."""
    train, recipe = setup.data.train, setup.protocol.training
    few = min(SAMPLE_SIZE, len(train) // 2)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    test = setup.data.test.take(torch.arange(min(SAMPLE_SIZE, len(setup.data.test))))
    changes: dict[str, Any] = {"initial": few, "pick": min(2, few), "candidates": "all", "every_class": False}
    if recipe:
        changes["training"] = recipe.model_copy(update={"epochs": 1})
    data = replace(setup.data, train=train.take(order[: 2 * few]), test=test)
    return replace(setup, data=data, protocol=setup.protocol.model_copy(update=changes))


def shorten_training(strategy: Strategy) -> Strategy:
    """Return a copy of a strategy whose own training takes two steps."""
    own: dict[str, Any] = {field.name: 2 for field in fields(strategy) if field.name in ("steps", "epochs")}
    return replace(strategy, **own)


def explain_error(error: BaseException) -> str:
    """Message of an error on one line, with the line of the user's own file that it came from."""
    place = line_in_own_file(error)
    return f"{error_message(error)} ({place})" if place else error_message(error)


def error_message(error: BaseException) -> str:
    """Message of an error, with its type unless the message is jostle's own."""
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}"
    if isinstance(error, ValueError | RunBusyError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}"
