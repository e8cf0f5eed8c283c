"""Checks before a run: unchanged data, run files that fit the protocol, and a smoke test of every strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jostle.core import Strategy
from jostle.datasets import Data
from jostle.datasets.views import as_pool, take_labeled, take_rows
from jostle.experiments.results.store import Cycle, RunBusyError, RunFile
from jostle.experiments.runs.loop import initial_set
from jostle.experiments.runs.setup import ExperimentSetup, build_strategy, committee, fit_model
from jostle.utils.user_files import line_in_own_file

Stamp = tuple[str, int, int]  # a file's path, size, and time of its last change


class DataIntegrity:
    """Refuses data that is not what was recorded; files that nobody touched meanwhile are not read again."""

    def __init__(self, data: Data, recorded: Mapping[str, str]) -> None:
        self.data, self.recorded = data, recorded
        self.seen: list[Stamp] = []  # when the data was last found to be as recorded

    @property
    def reads_files(self) -> bool:
        """Whether examples are read from files as they are asked for, so that an edit reaches a run under way."""
        splits = (self.data.train, self.data.test)
        return not all(isinstance(part, Tensor) for split in splits for part in (split.inputs, split.targets))

    def verify(self) -> None:
        """Compare checksums, and name what differs."""
        stamps = sorted(file_stamps(self.data.sources))
        if stamps and stamps == self.seen:
            return
        found = replace(self.data).checksums  # of a record that remembers none
        names = [*self.recorded, *(name for name in found if name not in self.recorded)]
        changed = [name for name in names if self.recorded.get(name) != found.get(name)]
        if changed:
            raise ValueError(
                f"{self.data.name} is not what it was when the command began ({', '.join(changed)} changed): "
                "restore it and run the same command to resume, or start again in a different folder"
            )
        self.seen = stamps


def file_stamps(sources: Sequence[Path]) -> Iterator[Stamp]:
    """Size and time of every file that was read, those inside of folders too."""
    for source in sources:
        for path in source.rglob("*") if source.is_dir() else [source]:
            if path.is_file():
                found = path.stat()
                yield str(path), found.st_size, found.st_mtime_ns


class RunIntegrity:
    """Refuses cycles on disk that this protocol cannot have made with this seed."""

    def __init__(self, setup: ExperimentSetup) -> None:
        self.bench = setup
        self.initial: dict[int, list[int]] = {}  # seed -> ids

    def read(self, file: RunFile) -> list[Cycle]:
        """The cycles of a run, as far as they are written, each as the protocol wants it."""
        done = file.read()
        for place, cycle in enumerate(done):
            if why := self._wrong(cycle, file.seed):
                raise file.corrupt(place, why)
        return done

    def _wrong(self, cycle: Cycle, seed: int) -> str:
        pool, wanted = len(self.bench.data.train), self.bench.pick if cycle.cycle else self.bench.initial
        if len(cycle.picked) != wanted:
            return f"it labels {len(cycle.picked)} examples, where the protocol says {wanted}"
        if max(cycle.picked) >= pool:
            return f"it labels example {max(cycle.picked)} of {pool}"
        if cycle.cycle == 0 and cycle.picked != self._drawn(seed):
            return f"its examples are not the initial set that seed {seed} draws"
        return ""

    def _drawn(self, seed: int) -> list[int]:
        if seed not in self.initial:
            self.initial[seed] = initial_set(self.bench, seed).tolist()
        return self.initial[seed]


SAMPLE_SIZE = 12


def smoke_test(setup: ExperimentSetup) -> None:
    """Train for one epoch on a few examples; then, with every strategy, pick two of a few others."""
    protocol, recipe = setup.protocol, setup.protocol.training
    short = {"training": recipe.model_copy(update={"epochs": 1})} if recipe else {}
    quick = replace(setup, protocol=protocol.model_copy(update=short))
    try:
        smoke_test_training(quick)
    except Exception as error:
        what = (
            f"the network {protocol.model.use}"
            if protocol.fit is None
            else f"a model by fit {protocol.fit.use}"
        )
        raise ValueError(f"{what} cannot be trained on {setup.data.name}: {explain_error(error)}") from error
    for label, named in protocol.strategies.items():
        try:
            smoke_test_strategy(quick, shorten_training(build_strategy(named)))
        except Exception as error:
            raise ValueError(f"{label} does not work in {protocol.name}: {explain_error(error)}") from error


def sample_examples(setup: ExperimentSetup) -> tuple[Tensor, Tensor]:
    """Ids of a few examples to learn from, and of a few others to choose from."""
    split = setup.data.train
    few = min(SAMPLE_SIZE, len(split) // 2)
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))
    return order[:few], order[few : 2 * few]


def smoke_test_training(setup: ExperimentSetup) -> None:
    """Train the network alone, and test it on a few examples."""
    known, _ = sample_examples(setup)
    train, test = setup.data.train, setup.data.test
    inputs, targets = take_rows(train.inputs, known), take_rows(train.targets, known)
    model = fit_model(setup, None, inputs, targets, seed=0, first_cycle=True)
    few = torch.arange(min(SAMPLE_SIZE, len(test)))
    inputs, targets = take_rows(test.inputs, few), take_rows(test.targets, few)
    setup.metrics(model, inputs, targets)


def smoke_test_strategy(setup: ExperimentSetup, strategy: Strategy) -> None:
    """One cycle in small."""
    split = setup.data.train
    known, others = sample_examples(setup)
    inputs, targets = take_rows(split.inputs, known), take_rows(split.targets, known)
    model = fit_model(setup, strategy, inputs, targets, seed=0, first_cycle=True)
    strategy.select(
        model,
        as_pool(split.inputs, others),
        min(2, len(others)),
        labeled=take_labeled(split, known),
        fit=committee(setup, 0, 1),
        task=setup.task,
        seed=0,
        device=setup.device,
        progress=False,
    )


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
