"""An experiment from a protocol to finished runs: what is there is kept, what is missing is done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jostle.results import manifest as manifests
from jostle.results.store import RunFile
from jostle.runs.bench import Bench, manifest, strategy_of
from jostle.runs.protocol import Protocol
from jostle.runs.tryout import try_out
from jostle.runs.workers import Event, Job, Order, Tell, carry_out, one_thread


@dataclass
class Plan:
    """The runs that were asked for, and how many of each run's cycles are on disk."""

    done: dict[Job, int]
    points: int
    failures: list[Event] = field(default_factory=list)

    @property
    def missing(self) -> list[Job]:
        """Runs that are not finished."""
        return [job for job, points in self.done.items() if points < self.points]

    def note(self, event: Event) -> None:
        """Keep account of what a run tells."""
        if event.cycle is not None:
            self.done[event.job] = event.cycle.cycle + 1
        if event.kind == "failed":
            self.failures.append(event)


def plan(protocol: Protocol, folder: Path, seeds: Sequence[int]) -> Plan:
    """Every label with every seed; seed by seed, so that all strategies can be compared early."""
    jobs = [Job(label, seed) for seed in seeds for label in protocol.strategies]
    return Plan({job: len(RunFile.of(folder, *job).read()) for job in jobs}, protocol.rounds + 1)


def conduct(
    protocol: Protocol,
    folder: str | Path,
    seeds: Sequence[int],
    *,
    root: str | Path | None = None,
    device: str = "cpu",
    processes: int = 1,
    command: Sequence[str] = (),
    tell: Callable[[Plan], Tell] = lambda plan: lambda event: None,
) -> Plan:
    """Do the runs that the folder lacks; `tell(plan)` gives what is told of every event.

    Mistakes show before anything is written: a name, the folder, data, budget, another protocol in the
    folder, a network or a strategy that does not fit.
    """
    folder = Path(folder)
    for named in protocol.strategies.values():
        strategy_of(named)  # a misspelt name shows before the data is loaded
    manifests.check_folder(folder)
    bench = Bench.of(protocol, root, device)
    described = manifest(bench, list(command))
    manifests.agreed(folder, described)
    todo = plan(protocol, folder, seeds)
    if todo.missing:
        labels = {job.label for job in todo.missing}
        wanted = {label: named for label, named in protocol.strategies.items() if label in labels}
        with one_thread():
            try_out(replace(bench, protocol=protocol.model_copy(update={"strategies": wanted})))
    manifests.enter(folder, described)
    order = Order(protocol, folder, None if root is None else str(root), device)
    report = tell(todo)

    def heard(event: Event) -> None:
        todo.note(event)
        report(event)

    carry_out(bench, order, todo.missing, processes, heard)
    return todo
