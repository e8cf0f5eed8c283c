"""An experiment from a protocol to finished runs: stored runs are kept, missing ones are computed."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from jostle.core import Strategy
from jostle.datasets import Data
from jostle.engines import Ray
from jostle.experiments import manifest as manifests
from jostle.experiments.loop import fit_from_scratch, initial_set, select_examples
from jostle.experiments.manifest import rename_run_folders
from jostle.experiments.protocol import Protocol
from jostle.experiments.results import FIRST_PICKS, add_previews
from jostle.experiments.runners import InlineRunner, ProcessRunner, run_on_ray
from jostle.experiments.setup import ExperimentSetup, build_strategy, describe_setup, user_fit
from jostle.experiments.store import RunFile
from jostle.experiments.workers import Event, Job, RunIntegrity, WorkerConfig, explain_error, one_thread
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
        if not jobs:
            return
        with closing(self._events(jobs, processes, engine)) as events:  # workers end with it, also on Ctrl-C
            for event in events:
                self.plan.update(event)
                if event.kind == "cycle" and event.job.seed == first_seed:
                    keep_previews(self.folder, self.setup.data, event)
                yield event

    def _events(self, jobs: Sequence[Job], processes: int, engine: Ray | None) -> Generator[Event]:
        if engine is not None:
            return run_on_ray(engine, self.setup, self.config, self.folder, jobs)
        kind = ProcessRunner if processes > 1 and len(jobs) > 1 else InlineRunner
        return kind(self.setup, self.config, self.folder).run(jobs, processes)


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
        setup = load_setup(protocol, folder, root, device)
        described = describe_setup(setup, list(command))
        manifests.agreed_manifest(folder, described)
        rename_run_folders(folder)
        plan = plan_runs(setup, folder, seeds)
        smoke_test_missing(setup, plan)
        manifests.write_manifest(folder, described)
        yield Experiment(
            setup, WorkerConfig(protocol, root, device, described["data"], sources), folder, plan
        )


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


def load_setup(protocol: Protocol, folder: Path, root: str | Path | None, device: str) -> ExperimentSetup:
    """Load the data of a protocol, after names and the folder are checked."""
    for named in protocol.strategies.values():
        build_strategy(named)
    if protocol.fit is not None:
        user_fit(protocol.fit)
    if is_own(protocol.model.use):
        from_file(protocol.model.use)
    manifests.check_folder(folder)
    return ExperimentSetup.load(protocol, root, device)


def keep_previews(folder: Path, data: Data, event: Event) -> None:
    """Store small pictures of a strategy's first picks for reports; one that cannot be made stops no run."""
    if event.cycle is not None and event.cycle.cycle == 1:
        with suppress(Exception):
            add_previews(folder, event.cycle.picked[:FIRST_PICKS], data.preview)


def smoke_test_missing(setup: ExperimentSetup, plan: Plan) -> None:
    """Try the strategies of unfinished runs on a few examples."""
    labels = {job.label for job in plan.missing}
    if labels:
        wanted = {label: named for label, named in setup.protocol.strategies.items() if label in labels}
        with one_thread():
            smoke_test(replace(setup, protocol=setup.protocol.model_copy(update={"strategies": wanted})))


SAMPLE_SIZE = 12  # examples of a smoke test


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
