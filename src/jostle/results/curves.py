"""Runs read back from disk: learning curves, and the area under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jostle.results import manifest as manifests
from jostle.results.cycles import Cycle
from jostle.results.metrics import METRICS, metric_named
from jostle.results.store import RunFile

__all__ = ["Results", "Run", "aubc", "load"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One strategy with one seed, from its initial labels on."""

    label: str
    """The strategy, as the protocol calls it."""
    seed: int
    """What its draws follow from."""
    cycles: tuple[Cycle, ...]
    """What is on disk of it, in order."""

    @classmethod
    def of(cls, file: RunFile) -> Run:
        """A run read from its `file`."""
        return cls(file.label, file.seed, tuple(file.read()))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Labelled examples at each point."""
        return tuple(cycle.labelled for cycle in self.cycles)

    @cached_property
    def metrics(self) -> Mapping[str, Floats]:
        """Every metric of the first point, (points,), as stored; nan where it is missing."""
        names = self.cycles[0].metrics if self.cycles else ()
        return {name: floats(cycle.metrics.get(name) for cycle in self.cycles) for name in names}

    @cached_property
    def train_seconds(self) -> Floats:
        """Seconds of each training, (points,)."""
        return floats(cycle.train_seconds for cycle in self.cycles)

    @cached_property
    def select_seconds(self) -> Floats:
        """Seconds of each selection, (points,), 0 at the first."""
        return floats(cycle.select_seconds for cycle in self.cycles)

    @cached_property
    def passes(self) -> Floats:
        """Passes of the candidates through networks for each selection, (points,); nan where they were not counted."""
        return floats(cycle.passes for cycle in self.cycles)

    @cached_property
    def peak_memory(self) -> Floats:
        """Bytes at each point's peak, (points,); nan where it was not recorded."""
        return floats(cycle.peak_memory_bytes for cycle in self.cycles)


@dataclass(frozen=True)
class Results:
    """A folder of runs; only finished runs take part in any figure or table."""

    folder: Path
    """Where they are."""
    manifest: Mapping[str, Any]
    """What the folder says of how they were made; empty where it says nothing."""
    labels: tuple[str, ...]
    """Strategies that have a finished run, in the protocol's order."""
    counts: tuple[int, ...]
    """Labelled examples at each point."""
    runs: tuple[Run, ...]
    """The finished runs."""
    incomplete: tuple[Run, ...]
    """Those that are under way."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The protocol as the manifest has it; empty where there is none."""
        return self.manifest.get("protocol", {})  # type: ignore[no-any-return]

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that every finished run has, the main one first."""
        shared = [name for name in self.runs[0].metrics if all(name in run.metrics for run in self.runs)]
        known = [name for name in METRICS if name in shared]
        return (*known, *(name for name in shared if name not in METRICS))

    def metric(self, wanted: str | None = None) -> str:
        """The metric to judge by: the one that is `wanted`, or the main one."""
        if not self.metrics:
            raise ValueError(f"{self.name}: the finished runs share no metric")
        if wanted is not None and wanted not in self.metrics:
            raise ValueError(f"no metric {wanted!r} in {self.name}; there are {', '.join(self.metrics)}")
        return wanted or self.metrics[0]

    def only(self, labels: Sequence[str]) -> Results:
        """The runs of these `labels`."""
        kept = tuple(label for label in self.labels if label in labels)
        return replace(self, labels=kept, runs=tuple(run for run in self.runs if run.label in kept))

    def of(self, label: str) -> list[Run]:
        """The finished runs of a `label`, by seed."""
        return [run for run in self.runs if run.label == label]

    def seeds(self, label: str) -> list[int]:
        """The seeds that a `label` has finished."""
        return [run.seed for run in self.of(label)]

    def curves(self, label: str, metric: str, seeds: Iterable[int] | None = None) -> Floats:
        """Learning curves, (seeds, points), percentages where the metric is a share.

        Args:
            label: Of which strategy.
            metric: In which metric.
            seeds: Of which seeds; None: of all that are finished.
        """
        wanted = None if seeds is None else set(seeds)
        rows = [run.metrics[metric] for run in self.of(label) if wanted is None or run.seed in wanted]
        return np.stack(rows) * metric_named(metric).scale

    def mean_curve(self, label: str, metric: str, seeds: Iterable[int] | None = None) -> Floats:
        """The mean over the seeds of a `label`, or over some `seeds`, in a `metric`, (points,)."""
        return np.asarray(self.curves(label, metric, seeds).mean(axis=0))

    def aubc(self, label: str, metric: str, seeds: Iterable[int] | None = None) -> Floats:
        """The area under the budget curve of each seed of a `label` in a `metric`, (seeds,)."""
        return np.array([aubc(self.counts, curve) for curve in self.curves(label, metric, seeds)])


def aubc(counts: ArrayLike, values: ArrayLike) -> float:
    """Area under the budget curve: the trapezoid rule over labelled `counts`, divided by their range.

    A curve of constant `values` gives its constant; a single point gives its value.
    """
    n, a = np.asarray(counts, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if n.shape != a.shape or n.ndim != 1 or not n.size:
        raise ValueError(f"a curve needs as many counts as values; {n.shape} and {a.shape} arrived")
    if np.any(np.diff(n) <= 0):
        raise ValueError(f"labelled counts must grow; {n.tolist()} arrived")
    return float(a[0]) if n.size == 1 else float((a[1:] + a[:-1]) / 2 @ np.diff(n) / (n[-1] - n[0]))


def load(folder: str | Path) -> Results:
    """Read a `folder` of runs; a torn last line is ignored, and runs still under way are set apart."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give one that `jostle run` wrote, such as runs/mnist")
    manifest = manifests.read(folder) or {}
    protocol = manifest.get("protocol", {})
    runs = [Run.of(file) for file in RunFile.all_in(folder)]
    counts = max((run.counts for run in runs), key=len, default=())
    for run in runs:
        if run.counts != counts[: len(run.counts)]:
            raise ValueError(f"{folder}: {run.label}, seed {run.seed} labelled {run.counts}, others {counts}")
    points = max(len(counts), int(protocol.get("rounds", 0)) + 1)
    order = list(protocol.get("strategies", ()))
    runs.sort(key=lambda run: (_place(run.label, order), run.label, run.seed))
    finished = tuple(run for run in runs if len(run.counts) == points)
    if not finished:
        raise ValueError(f"{folder} has no finished run yet: {len(runs)} started, {points} points to reach")
    return Results(
        folder=folder,
        manifest=manifest,
        labels=tuple(dict.fromkeys(run.label for run in finished)),
        counts=counts,
        runs=finished,
        incomplete=tuple(run for run in runs if len(run.counts) < points),
    )


def _place(label: str, order: Sequence[str]) -> int:
    return order.index(label) if label in order else len(order)


def floats(values: Iterable[float | None]) -> Floats:
    """Numbers as an array, nan for None."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
