"""Runs read back from disk: learning curves, and the area under them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Metric(NamedTuple):
    """How a metric is written and read; a share between 0 and 1 is shown as a percentage."""

    title: str
    percent: bool = False
    higher: bool = True  # is better

    @property
    def scale(self) -> float:
        """From the stored value to the shown one."""
        return 100.0 if self.percent else 1.0

    @property
    def sign(self) -> float:
        """Multiplied by this, larger is better."""
        return 1.0 if self.higher else -1.0


# In the order in which a report prefers them as its main metric.
METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", percent=True),
    "miou": Metric("mean IoU", percent=True),
    "token_accuracy": Metric("token accuracy", percent=True),
    "mae": Metric("MAE", higher=False),
    "rmse": Metric("RMSE", higher=False),
    "published": Metric("published figure", higher=False),
    "macro_f1": Metric("macro-F1", percent=True),
    "micro_f1": Metric("micro-F1", percent=True),
    "f1": Metric("F1", percent=True),
    "exact_match": Metric("exact match", percent=True),
    "pixel_accuracy": Metric("pixel accuracy", percent=True),
    "nll": Metric("negative log-likelihood", higher=False),
    "loss": Metric("loss", higher=False),
}


def describe(metric: str) -> Metric:
    """What is known of a metric; an unknown one is taken as it is, larger being better."""
    return METRICS.get(metric, Metric(metric.replace("_", " ")))


@dataclass(frozen=True)
class Run:
    """One strategy with one seed, from its initial labels on."""

    label: str
    seed: int
    counts: tuple[int, ...]  # labelled examples at each point
    metrics: Mapping[str, Floats]  # name -> (points,), as stored
    picked: tuple[tuple[int, ...], ...]  # ids newly labelled before each point, in pick order
    train_seconds: Floats  # (points,)
    select_seconds: Floats  # (points,), 0 at the first
    peak_memory: Floats  # (points,) bytes, nan where it was not recorded


@dataclass(frozen=True)
class Results:
    """A folder of runs; only finished runs take part in any figure or table."""

    name: str
    manifest: Mapping[str, Any]
    labels: tuple[str, ...]  # that have a finished run, in the protocol's order
    counts: tuple[int, ...]  # labelled examples at each point
    runs: tuple[Run, ...]
    incomplete: tuple[Run, ...]

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that every finished run has, the main one first."""
        shared = [name for name in self.runs[0].metrics if all(name in run.metrics for run in self.runs)]
        known = [name for name in METRICS if name in shared]
        return (*known, *(name for name in shared if name not in METRICS))

    def of(self, label: str) -> list[Run]:
        """The finished runs of a label, by seed."""
        return [run for run in self.runs if run.label == label]

    def seeds(self, label: str) -> list[int]:
        """The seeds that a label has finished."""
        return [run.seed for run in self.of(label)]

    def curves(self, label: str, metric: str, seeds: Iterable[int] | None = None) -> Floats:
        """Learning curves of a label, (seeds, points), percentages where the metric is a share."""
        wanted = None if seeds is None else set(seeds)
        rows = [run.metrics[metric] for run in self.of(label) if wanted is None or run.seed in wanted]
        return np.stack(rows) * describe(metric).scale

    def mean_curve(self, label: str, metric: str) -> Floats:
        """The mean over a label's seeds, (points,)."""
        return np.asarray(self.curves(label, metric).mean(axis=0))

    def aubc(self, label: str, metric: str, seeds: Iterable[int] | None = None) -> Floats:
        """The area under the budget curve of each seed, (seeds,)."""
        return np.array([aubc(self.counts, curve) for curve in self.curves(label, metric, seeds)])


def aubc(counts: ArrayLike, values: ArrayLike) -> float:
    """Area under the budget curve: the trapezoid rule over labelled counts, divided by their range.

    A constant curve gives its constant; a single point gives its value.
    """
    n, a = np.asarray(counts, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if n.shape != a.shape or n.ndim != 1 or not n.size:
        raise ValueError(f"a curve needs as many counts as values; {n.shape} and {a.shape} arrived")
    if np.any(np.diff(n) <= 0):
        raise ValueError(f"labelled counts must grow; {n.tolist()} arrived")
    return float(a[0]) if n.size == 1 else float((a[1:] + a[:-1]) / 2 @ np.diff(n) / (n[-1] - n[0]))


def load(folder: str | Path) -> Results:
    """Read a folder of runs; a torn last line is ignored, and runs still under way are set apart."""
    folder = Path(folder)
    manifest = _manifest(folder)
    protocol = manifest.get("protocol", {})
    runs = [_run(path) for path in sorted(folder.glob("*/*.jsonl"))]
    counts = max((run.counts for run in runs), key=len, default=())
    for run in runs:
        if run.counts != counts[: len(run.counts)]:
            raise ValueError(f"{folder}: {run.label}, seed {run.seed} labelled {run.counts}, others {counts}")
    points = max(len(counts), _points(protocol))
    runs.sort(key=lambda run: (_place(run.label, protocol), run.label, run.seed))
    finished = tuple(run for run in runs if len(run.counts) == points)
    if not finished:
        raise ValueError(f"{folder} has no finished run yet: {len(runs)} started, {points} points to reach")
    return Results(
        name=folder.resolve().name,
        manifest=manifest,
        labels=tuple(dict.fromkeys(run.label for run in finished)),
        counts=counts,
        runs=finished,
        incomplete=tuple(run for run in runs if len(run.counts) < points),
    )


def _manifest(folder: Path) -> Mapping[str, Any]:
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give one that `jostle run` wrote, such as runs/mnist")
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{folder / 'manifest.json'} is not JSON: {error}") from None
    if not isinstance(manifest, dict):
        raise ValueError(f"{folder / 'manifest.json'} holds {type(manifest).__name__}, expected an object")
    return manifest


def _points(protocol: Mapping[str, Any]) -> int:
    """How many points a finished run has, as far as the protocol says."""
    return int(protocol.get("rounds", 0)) + 1


def _place(label: str, protocol: Mapping[str, Any]) -> int:
    order = list(protocol.get("strategies", ()))
    return order.index(label) if label in order else len(order)


def _run(path: Path) -> Run:
    if not path.stem.isdecimal():
        raise ValueError(f"{path} is not a run: its name should be a seed, such as 0.jsonl")
    lines = _lines(path)
    names = list(lines[0]["metrics"]) if lines else []
    return Run(
        label=path.parent.name,
        seed=int(path.stem),
        counts=tuple(int(line["labelled"]) for line in lines),
        metrics={name: _column(lines, "metrics", name) for name in names},
        picked=tuple(tuple(line.get("picked", ())) for line in lines),
        train_seconds=_column(lines, "train_seconds"),
        select_seconds=_column(lines, "select_seconds"),
        peak_memory=_column(lines, "peak_memory_bytes"),
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    texts = path.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n")
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
            complete = isinstance(line, dict) and {"labelled", "metrics"} <= line.keys()
        except ValueError:
            complete = False
        if not complete and number < len(texts):  # a torn last line is what a killed run leaves
            raise ValueError(f"{path}, line {number} is not a cycle of a run: {text[:60]!r}")
        if complete:
            lines.append(line)
    return lines


def _column(lines: Sequence[Mapping[str, Any]], *keys: str) -> Floats:
    """One value of every line, nan where it is missing or null."""
    values: list[float] = []
    for line in lines:
        value: Any = line
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        values.append(np.nan if value is None else float(value))
    return np.array(values, dtype=np.float64)
