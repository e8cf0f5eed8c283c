"""An experiment from a protocol to finished runs: what is there is kept, what is missing is done."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from jostle.datasets import Data
from jostle.engines import Ray
from jostle.plumbing.user_files import from_file, is_own, kept_sources
from jostle.results import manifest as manifests
from jostle.results import previews
from jostle.results.store import RunFile
from jostle.runs.bench import Bench, manifest, strategy_of
from jostle.runs.fitting import user_fit
from jostle.runs.guard import RunGuard
from jostle.runs.on_ray import carry_out_on
from jostle.runs.protocol import Protocol
from jostle.runs.tryout import try_out
from jostle.runs.workers import Event, Job, Order, Tell, carry_out, one_thread


@dataclass
class Plan:
    """The runs that were asked for, and how many of each run's cycles are on disk."""

    done: dict[Job, int]
    """Run -> how many of its cycles are on disk."""
    points: int
    """How many a finished run has."""
    failures: list[Event] = field(default_factory=list)
    """What runs told when they failed."""

    @property
    def missing(self) -> list[Job]:
        """Runs that are not finished."""
        return [job for job, points in self.done.items() if points < self.points]

    def note(self, event: Event) -> None:
        """Keep account of an `event` that a run tells."""
        if event.cycle is not None:
            self.done[event.job] = event.cycle.cycle + 1
        if event.kind == "failed":
            self.failures.append(event)


def plan(bench: Bench, folder: Path, seeds: Sequence[int]) -> Plan:
    """Every label with every seed; seed by seed, so that all strategies can be compared early."""
    jobs = [Job(label, seed) for seed in seeds for label in bench.protocol.strategies]
    guard = RunGuard(bench)
    return Plan({job: len(guard.read(RunFile.of(folder, *job))) for job in jobs}, bench.protocol.rounds + 1)


def conduct(
    protocol: Protocol,
    folder: str | Path,
    seeds: Sequence[int],
    *,
    root: str | Path | None = None,
    device: str = "cpu",
    processes: int = 1,
    engine: Ray | None = None,
    command: Sequence[str] = (),
    tell: Callable[[Plan], Tell] = lambda plan: lambda event: None,
) -> Plan:
    """Do the runs that a folder lacks.

    Mistakes show before anything is written: a name, the folder, data, budget, another protocol in the folder, a
    network or a strategy that does not fit, a run on disk that is corrupt. Files of the user's own are read once, so
    that an edit while runs are under way changes nothing.

    Args:
        protocol: What is run.
        folder: Where runs are written, and gone on with where they are there.
        seeds: A run of every strategy for each of these.
        root: Where local copies of data sets lie; None: the variable JOSTLE_DATA.
        device: Where networks are trained.
        processes: Runs at the same time.
        engine: A cluster that carries runs out, as many at the same time as it has workers; None: this machine.
        command: The words that asked for it, for the manifest.
        tell: Given the plan, it gives what is told of every event.
    """
    folder = Path(folder)
    with kept_sources() as sources:
        bench = laid_out(protocol, folder, root, device)
        described = manifest(bench, list(command))
        manifests.agreed_manifest(folder, described)
        todo = plan(bench, folder, seeds)
        try_missing(bench, todo)
        manifests.enter(folder, described)
        order = Order(protocol, folder, root, device, described["data"], sources)
        report = tell(todo)

        def hear(event: Event) -> None:
            todo.note(event)
            if event.kind == "cycle" and event.job.seed == min(seeds):
                keep_previews(folder, bench.data, event)
            report(event)

        if engine is None:
            carry_out(bench, order, todo.missing, processes, hear)
        elif todo.missing:
            carry_out_on(engine, bench, order, todo.missing, hear)
    return todo


def laid_out(protocol: Protocol, folder: Path, root: str | Path | None, device: str) -> Bench:
    """The bench of a protocol; a misspelt name or a folder of other things shows before the data is loaded."""
    for named in protocol.strategies.values():
        strategy_of(named)
    if protocol.fit is not None:
        user_fit(protocol.fit)
    if is_own(protocol.model.use):
        from_file(protocol.model.use)
    manifests.check_folder(folder)
    return Bench.of(protocol, root, device)


def keep_previews(folder: Path, data: Data, event: Event) -> None:
    """Keep small pictures of a strategy's first picks, for reports; a picture that cannot be had stops no run."""
    if event.cycle is not None and event.cycle.cycle == 1:
        with suppress(Exception):
            previews.keep(folder, event.cycle.picked[: previews.FIRST_PICKS], data.preview)


def try_missing(bench: Bench, todo: Plan) -> None:
    """Try in small what is still to be done."""
    labels = {job.label for job in todo.missing}
    if labels:
        wanted = {label: named for label, named in bench.protocol.strategies.items() if label in labels}
        with one_thread():
            try_out(replace(bench, protocol=bench.protocol.model_copy(update={"strategies": wanted})))
