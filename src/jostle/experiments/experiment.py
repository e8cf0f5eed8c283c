"""An experiment from a protocol to finished runs: stored runs are kept, missing ones are computed."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from jostle.core import Strategy
from jostle.engines import Ray
from jostle.experiments.loop import fit_from_scratch, initial_set, select_examples
from jostle.experiments.protocol import Protocol, rename_run_folders
from jostle.experiments.results import FIRST_PICKS, add_previews
from jostle.experiments.runners import Event, Job, ProcessRunner, RayRunner, Runner
from jostle.experiments.setup import (
    ExperimentSetup,
    WorkerConfig,
    build_strategy,
    describe_setup,
    explain_error,
    one_thread,
    user_fit,
)
from jostle.experiments.store import (
    CorruptRunError,
    Cycle,
    RunFile,
    agreed_manifest,
    check_folder,
    write_manifest,
)
from jostle.utils.user_files import from_file, is_own, kept_sources


@dataclass
class Plan:
    """Runs of an experiment, and how many cycles of each are stored."""

    done: dict[Job, int]
    """Run -> number of its stored cycles."""
    points: int
    """Cycles of a finished run."""
    failures: list[Event] = field(default_factory=list)
    """Events of runs that failed."""

    @property
    def missing(self) -> list[Job]:
        """Runs that are not finished."""
        return [job for job, points in self.done.items() if points < self.points]

    def update(self, event: Event) -> None:
        """Count the cycle of an event, or keep its failure."""
        if event.cycle is not None:
            self.done[event.job] = event.cycle.cycle + 1
        if event.kind == "failed":
            self.failures.append(event)


@dataclass(frozen=True)
class Experiment:
    """An experiment that passed every check and can be executed."""

    setup: ExperimentSetup
    """Data and protocol."""
    config: WorkerConfig
    """Everything that a worker needs."""
    folder: Path
    """Where runs are stored."""
    plan: Plan
    """Its runs; kept up to date while it executes."""

    def execute(self, processes: int = 1, engine: Ray | None = None) -> Generator[Event]:
        """Compute the missing runs, and yield what happens.

        Args:
            processes: Runs at the same time.
            engine: A cluster that computes runs, as many at the same time as it has workers; None: this machine.
        """
        jobs = self.plan.missing
        first_seed = min((job.seed for job in self.plan.done), default=0)
        made_of = self.setup, self.config, self.folder, RunIntegrity(self.setup).read
        if not jobs:
            return
        if engine is not None:
            found = RayRunner(*made_of).run_on(engine, jobs)
        else:
            kind = ProcessRunner if processes > 1 and len(jobs) > 1 else Runner
            found = kind(*made_of).run(jobs, processes)
        with closing(found) as events:  # workers end with it, also on Ctrl-C
            for event in events:
                self.plan.update(event)
                if event.cycle is not None and event.cycle.cycle == 1 and event.job.seed == first_seed:
                    with suppress(Exception):  # a preview that cannot be made stops no run
                        picked = event.cycle.picked[:FIRST_PICKS]
                        add_previews(self.folder, picked, self.setup.data.preview)
                yield event


@contextmanager
def open_experiment(
    protocol: Protocol,
    folder: str | Path,
    seeds: Sequence[int],
    *,
    root: str | Path | None = None,
    device: str = "cpu",
    command: Sequence[str] = (),
) -> Iterator[Experiment]:
    """Check an experiment and write its manifest; then `execute` computes its missing runs.

    Mistakes show before anything is written: an unknown name, a folder with other contents, a budget larger than the
    data, a different protocol in the folder, a network or a strategy that does not fit, a corrupt run. The user's own
    files are read once, so that an edit while runs are computed changes nothing.

    Args:
        protocol: What is run.
        folder: Where runs are stored; runs in it are resumed.
        seeds: One run of every strategy for each.
        root: Folder with local copies of data sets. Default: the variable JOSTLE_DATA.
        device: Where networks are trained.
        command: The command line, for the manifest.
    """
    folder = Path(folder)
    with kept_sources() as sources:
        for named in protocol.strategies.values():
            build_strategy(named)
        if protocol.fit is not None:
            user_fit(protocol.fit)
        if is_own(protocol.model.use):
            from_file(protocol.model.use)
        check_folder(folder)
        setup = ExperimentSetup.load(protocol, root, device)
        described = describe_setup(setup, list(command))
        agreed_manifest(folder, described)
        rename_run_folders(folder)
        plan = plan_runs(setup, folder, seeds)
        if plan.missing:
            smoke_test(setup, dict.fromkeys(job.label for job in plan.missing))
        write_manifest(folder, described)
        config = WorkerConfig(protocol, root, device, described["data"], sources)
        yield Experiment(setup, config, folder, plan)


def run_experiment(
    protocol: Protocol,
    folder: str | Path,
    seeds: Sequence[int],
    *,
    root: str | Path | None = None,
    device: str = "cpu",
    processes: int = 1,
    engine: Ray | None = None,
) -> Plan:
    """Compute the runs that a folder lacks, and return the plan with its failures.

    Args:
        protocol: What is run.
        folder: Where runs are stored; runs in it are resumed.
        seeds: One run of every strategy for each.
        root: Folder with local copies of data sets. Default: the variable JOSTLE_DATA.
        device: Where networks are trained.
        processes: Runs at the same time.
        engine: A cluster that computes runs; None: this machine.

    Raises:
        ValueError: The protocol, the data and the folder do not fit together; nothing was written then.
    """
    with open_experiment(protocol, folder, seeds, root=root, device=device) as experiment:
        for _ in experiment.execute(processes, engine):
            pass
        return experiment.plan


def plan_runs(setup: ExperimentSetup, folder: Path, seeds: Sequence[int]) -> Plan:
    """Plan every label with every seed; seed by seed, so that all strategies can be compared early."""
    jobs = [Job(label, seed) for seed in seeds for label in setup.protocol.strategies]
    integrity = RunIntegrity(setup)
    done = {job: len(integrity.read(RunFile.of(folder, *job))) for job in jobs}
    return Plan(done, setup.protocol.rounds + 1)


class RunIntegrity:
    """Refuses cycles on disk that this protocol cannot have made with this seed."""

    def __init__(self, setup: ExperimentSetup) -> None:
        self.setup = setup
        self.initial = cache(lambda seed: initial_set(setup, seed).tolist())

    def read(self, file: RunFile) -> list[Cycle]:
        """The cycles of a run, as far as they are written, each as the protocol wants it."""
        done, pool = file.read(), len(self.setup.data.train)
        for place, cycle in enumerate(done):
            wanted, why = self.setup.pick if place else self.setup.initial, ""
            if len(cycle.picked) != wanted:
                why = f"it labels {len(cycle.picked)} examples, where the protocol says {wanted}"
            elif max(cycle.picked) >= pool:
                why = f"it labels example {max(cycle.picked)} of {pool}"
            elif place == 0 and cycle.picked != self.initial(file.seed):
                why = f"its examples are not the initial set that seed {file.seed} draws"
            if why:
                raise CorruptRunError(file.path, place, why)
        return done


SAMPLE_SIZE = 12  # examples of a smoke test


def smoke_test(setup: ExperimentSetup, labels: Collection[str]) -> None:
    """Train for one epoch on a few examples; then, with the strategies of these labels, pick two of a few others."""
    small, protocol = shrink(setup), setup.protocol
    subject = f"a model by fit {protocol.fit.use}" if protocol.fit else f"the network {protocol.model.use}"
    failed = f"{subject} cannot be trained on {setup.data.name}"
    try:
        with one_thread():
            model, _ = fit_from_scratch(small, None, 0, 0, initial_set(small, 0))
            small.metrics(model, small.data.test.inputs, small.data.test.targets)
            for label in labels:
                failed = f"{label} does not work in {protocol.name}"
                strategy = shorten_training(build_strategy(protocol.strategies[label]))
                labeled = initial_set(small, 0)
                model, _ = fit_from_scratch(small, strategy, 0, 0, labeled)
                select_examples(small, strategy, 0, 1, model, labeled)
    except Exception as error:
        raise ValueError(f"{failed}: {explain_error(error)}") from error


def shrink(setup: ExperimentSetup) -> ExperimentSetup:
    """Return the experiment on a few examples, half of them labeled at the start, with one epoch of training."""
    train, test, recipe = setup.data.train, setup.data.test, setup.protocol.training
    few = min(SAMPLE_SIZE, len(train) // 2)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    changes: dict[str, Any] = {"initial": few, "pick": min(2, few), "candidates": "all", "every_class": False}
    if recipe:
        changes["training"] = recipe.model_copy(update={"epochs": 1})
    test = test.take(torch.arange(min(SAMPLE_SIZE, len(test))))
    data = replace(setup.data, train=train.take(order[: 2 * few]), test=test)
    return replace(setup, data=data, protocol=setup.protocol.model_copy(update=changes))


def shorten_training(strategy: Strategy) -> Strategy:
    """Return a copy of a strategy whose own training takes two steps."""
    own: dict[str, Any] = {field.name: 2 for field in fields(strategy) if field.name in ("steps", "epochs")}
    return replace(strategy, **own)
