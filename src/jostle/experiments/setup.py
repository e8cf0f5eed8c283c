"""Setup of an experiment: data, task, network, strategies, models trained on labeled examples, and a description."""

from __future__ import annotations

import inspect
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import nn

from jostle import datasets, models, strategies
from jostle.core import Joined, Strategy
from jostle.datasets import Data, Texts
from jostle.datasets.data import as_dataset, split_columns
from jostle.experiments.protocol import Amount, Named, Protocol
from jostle.experiments.store import RunBusyError
from jostle.inference.context import Fit
from jostle.inference.isolation import device_named
from jostle.rng import derive, generator, seeded_globals
from jostle.tasks import TASKS, Classification, Task
from jostle.training.train import Indexed, evaluate, on, train
from jostle.utils.registry import check_settings
from jostle.utils.user_files import Sources, checksums, from_file, is_own, line_in_own_file

OWN_SPEC = re.compile(r"[^(),=]+\.py:\w+")  # in the words of a setting, such as features(head=mine.py:head)
PACKAGES = ("jostle", "torch", "numpy", "scipy", "scikit-learn", "transformers")


@dataclass(frozen=True)
class ExperimentSetup:
    """All that the runs of one protocol share."""

    protocol: Protocol
    data: Data
    device: torch.device

    @classmethod
    def load(cls, protocol: Protocol, root: str | Path | None = None, device: str = "cpu") -> ExperimentSetup:
        """Load the data, and refuse a budget that it cannot pay."""
        data = datasets.named(protocol.dataset.use, root, protocol.dataset.settings)
        if isinstance(data.train.inputs, Texts):
            data = datasets.tokenize(data, protocol.text.encoder, protocol.text.length)
        if data.task is None or not len(data.test):
            lacks = "labels" if data.task is None else "test set"
            raise ValueError(f"an experiment needs labels and a test set; {data.name} has no {lacks}")
        if protocol.test != "all" and (count := example_count(protocol.test, len(data.test))) < len(
            data.test
        ):
            order = torch.randperm(len(data.test), generator=generator(0, "test"))
            data = replace(data, test=data.test.take(order[:count].sort().values))
        setup = cls(protocol, data, device_named(device))
        setup.check_budget()
        return setup

    def check_budget(self) -> None:
        """There are examples for every round, or an error with the sums."""
        pool, rounds = len(self.data.train), self.protocol.rounds
        budget = self.initial + rounds * self.pick
        if budget > pool:
            raise ValueError(
                f"{self.data.name} has {pool} training examples, but the budget is {budget}: "
                f"initial {self.initial} + {rounds} rounds of pick {self.pick}"
            )
        if self.protocol.every_class and not self.data.classes:
            raise ValueError(
                f"every_class wants classes, and {self.data.name} has none: set every_class=false"
            )
        if self.candidates is not None and self.candidates < self.pick:
            raise ValueError(f"cannot pick {self.pick} of {self.candidates} candidates: raise candidates")

    @property
    def initial(self) -> int:
        """Labeled examples to begin with."""
        return example_count(self.protocol.initial, len(self.data.train))

    @property
    def pick(self) -> int:
        """Examples labeled in each round."""
        return example_count(self.protocol.pick, len(self.data.train))

    @property
    def candidates(self) -> int | None:
        """Examples among which a strategy chooses; None for all."""
        given = self.protocol.candidates
        return None if given == "all" else example_count(given, len(self.data.train))

    @cached_property
    def task(self) -> Task:
        """Return the task."""
        positive = self.data.positive_class
        return TASKS[self.data.task or "classification"] if positive is None else Classification(positive)

    def model(self, seed: int) -> nn.Module:
        """A network with fresh weights; settings that follow from the data, and the protocol's own over them."""
        named, outputs = self.protocol.model, self.data.outputs
        known = {"classes": outputs, "outputs": outputs, "encoder": self.protocol.text.encoder}
        if shape := self.data.shape:
            known |= {"channels": shape[0], "inputs": shape[0]}
        takes = models.settings(named.use)
        fitting = {key: value for key, value in known.items() if key in takes}
        return models.build(named.use, seed=seed, **{**fitting, **named.settings})

    def metrics(self, model: nn.Module, inputs: Indexed, targets: Indexed) -> dict[str, float]:
        """How good a model is on these examples, by the task's metrics."""
        return evaluate(model, inputs, targets, self.task, device=self.device)


def build_strategy(named: Named) -> Strategy:
    """The strategy that an entry of a protocol names."""
    return strategies.build(named.use, **named.settings)


def example_count(amount: Amount, whole: int) -> int:
    """A number of examples; a share is rounded up."""
    return ceil(amount * whole) if isinstance(amount, float) else amount


def describe_setup(setup: ExperimentSetup, command: list[str]) -> dict[str, Any]:
    """All that is needed to repeat the runs."""
    versions = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    files = user_file_checksums(setup.protocol)
    return {
        "protocol": setup.protocol.written(),
        "data": dict(setup.data.checksums),
        **({"files": files} if files else {}),
        "versions": {"python": platform.python_version(), **versions},
        "hardware": hardware(setup.device),
        "command": command,
    }


def user_file_checksums(protocol: Protocol) -> dict[str, str]:
    """The sha256 of each file of the user's own that decides numbers, and of what these import from beside them."""
    named = {"dataset": protocol.dataset, "model": protocol.model, "fit": protocol.fit}
    named |= {f"strategies.{label}": entry for label, entry in protocol.strategies.items()}
    found = {}
    for field, entry in named.items():
        specs = {field: entry.use} if entry and is_own(entry.use) else {}
        for setting, value in entry.settings.items() if entry else ():
            for spec in OWN_SPEC.findall(value) if isinstance(value, str) else ():
                specs[f"{field}: {setting}"] = spec.strip()
        for name, spec in specs.items():
            for beside, checksum in checksums(spec).items():
                found[f"{name} ({beside})" if beside else name] = checksum
    return found


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine, as far as it matters for time and for the last digits."""
    return {
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def processor() -> str:
    """The processor's name, as Linux or Python tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# what a fit of the user's own may take besides its settings, with values that its type hints allow
GIVEN = {"dataset": None, "seed": 0, "model": None}


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
        if strategy is not None and type(strategy).join is not Strategy.join:
            raise ValueError("it takes part in training, which a fit of your own leaves no room for")
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
    """Return a function that trains further models on a dataset of (x, y), each with a seed of its own."""

    def fit(dataset: Any, member: int) -> nn.Module:
        inputs, targets = split_columns(dataset)
        return fit_model(setup, None, inputs, targets, derive(seed, "fit", cycle, member), cycle == 1)

    return fit


def call_user_fit(
    setup: ExperimentSetup, named: Named, inputs: Indexed, targets: Indexed, seed: int
) -> nn.Module:
    """Train with the user's function `fit(dataset, seed)`; one that takes `model` gets a fresh network.

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
    given = {name: value for name, value in GIVEN.items() if name in takes}
    check_settings(named.use, fit, {**named.settings, **given}, takes.keys() - given.keys())
    return fit


@dataclass(frozen=True)
class WorkerConfig:
    """Everything that a worker needs to compute any of the runs."""

    protocol: Protocol
    root: str | Path | None  # folder with local copies of data sets
    device: str
    data: Mapping[str, str]  # checksums in the manifest
    sources: Sources  # the user's own files as the manifest records them


def check_unchanged(data: Data, recorded: Mapping[str, str]) -> None:
    """Refuse data whose checksums are not those that were recorded, and name what differs."""
    found = replace(data).checksums  # of a record that remembers none; unchanged files are not read again
    names = dict.fromkeys([*recorded, *found])
    changed = [name for name in names if recorded.get(name) != found.get(name)]
    if changed:
        raise ValueError(
            f"{data.name} is not what it was when the command began ({', '.join(changed)} changed): "
            "restore it and run the same command to resume, or start again in a different folder"
        )


def explain_error(error: BaseException) -> str:
    """Message of an error with its type unless it is jostle's own, and with the line of the user's file behind it."""
    if isinstance(error, OSError) and error.strerror:
        message = error.strerror + (f" ({error.filename})" if error.filename else "")
    elif isinstance(error, ValueError | RunBusyError | ImportError):
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error}"
    place = line_in_own_file(error)
    return f"{message} ({place})" if place else message


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with a single thread for a while: sums in a different order are different numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
