"""Results of stored runs: learning curves, their metrics, the area under them, and previews of the first picks."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from jostle.experiments.protocol import rename_label
from jostle.experiments.store import (
    MANIFEST_FILE,
    Cycle,
    experiment_name,
    parse_cycles,
    parse_manifest,
    read_experiment,
    read_utf8,
    seed_in,
    split_lines,
)
from jostle.utils.files import write_whole
from jostle.utils.names import unknown


class Metric(NamedTuple):
    """How a metric is written and read; a share between 0 and 1 is shown as a percentage."""

    title: str
    percent: bool = False
    higher: bool = True  # is better

    @property
    def unit(self) -> str:
        """The title with its unit, as a column has it."""
        return self.title + (", %" if self.percent else "")

    @property
    def axis(self) -> str:
        """The title with its unit, as an axis has it."""
        return self.title + (" (%)" if self.percent else "")

    @property
    def gain_unit(self) -> str:
        """Return the unit of a difference, for an axis."""
        return " (points)" if self.percent else ""

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


def metric_named(name: str) -> Metric:
    """Return the description of a metric; of an unknown one, larger is better."""
    return METRICS.get(name, Metric(name.replace("_", " ")))


def main_metric(metrics: Mapping[str, float]) -> str:
    """The first of the metrics that people ask for, as they write it: accuracy 81.3 %."""
    name = next((known for known in METRICS if known in metrics), next(iter(metrics)))
    metric = metric_named(name)
    value = metrics[name] * metric.scale
    shown = f"{value:.1f} %" if metric.percent else f"{value:.4g}" if value < 1000 else f"{value:.0f}"
    return f"{metric.title} {shown}"


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
    def parse(cls, text: str, path: PurePath) -> Run:
        """Run in the text of its file LABEL/SEED.jsonl."""
        return cls(
            rename_label(path.parent.name), seed_in(path), tuple(parse_cycles(split_lines(text), path))
        )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Labeled examples at each point."""
        return tuple(cycle.labeled for cycle in self.cycles)

    @cached_property
    def metrics(self) -> Mapping[str, Floats]:
        """Every metric of the first point, (points,), as stored; nan where it is missing."""
        names = self.cycles[0].metrics if self.cycles else ()
        return {
            name: np.array([cycle.metrics.get(name) for cycle in self.cycles], np.float64) for name in names
        }

    def costs(self, field: str) -> Floats:
        """A field of `Cycle` at each point, (points,), such as `select_seconds`; nan where it was not recorded."""
        return np.array([getattr(cycle, field) for cycle in self.cycles], np.float64)


@dataclass(frozen=True)
class Results:
    """Runs of one experiment; only finished runs take part in any figure or table."""

    path: Path
    """Their folder or packed file."""
    manifest: Mapping[str, Any]
    """What the folder says of how they were made; empty where it says nothing."""
    labels: tuple[str, ...]
    """Strategies that have a finished run, in the protocol's order."""
    counts: tuple[int, ...]
    """Labeled examples at each point."""
    runs: tuple[Run, ...]
    """The finished runs."""
    incomplete: tuple[Run, ...]
    """Those that are under way."""
    previews: Mapping[int, Preview] = field(default_factory=dict)
    """Small pictures and texts of the first picks, by example."""

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return experiment_name(self.path)

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
            raise unknown(f"metric of {self.name}", wanted, self.metrics)
        return wanted or self.metrics[0]

    def only(self, labels: Sequence[str]) -> Results:
        """The runs of these `labels`."""
        kept = tuple(label for label in self.labels if label in labels)
        return replace(self, labels=kept, runs=tuple(run for run in self.runs if run.label in kept))

    def of(self, label: str) -> list[Run]:
        """The finished runs of a `label`, by seed."""
        return self._by_label.get(label, [])

    @cached_property
    def _by_label(self) -> dict[str, list[Run]]:
        return {label: [run for run in self.runs if run.label == label] for label in self.labels}

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
        return np.array(rows).reshape(len(rows), len(self.counts)) * metric_named(metric).scale

    def mean_curve(self, label: str, metric: str, seeds: Iterable[int] | None = None) -> Floats:
        """The mean over the seeds of a `label`, or over some `seeds`, in a `metric`, (points,)."""
        return np.asarray(self.curves(label, metric, seeds).mean(axis=0))

    def aubc(self, label: str, metric: str, seeds: Iterable[int] | None = None) -> Floats:
        """The area under the budget curve of each seed of a `label` in a `metric`, (seeds,)."""
        return _areas(self.counts, self.curves(label, metric, seeds))


def aubc(counts: ArrayLike, values: ArrayLike) -> float:
    """Area under the budget curve: the trapezoid rule over labeled `counts`, divided by their range.

    A curve of constant `values` gives its constant; a single point gives its value.
    """
    return float(_areas(counts, np.asarray(values, dtype=np.float64)))


def _areas(counts: ArrayLike, curves: Floats) -> Floats:
    """Area under each of some curves, (..., points) -> (...)."""
    n = np.asarray(counts, dtype=np.float64)
    if n.ndim != 1 or not n.size or curves.shape[-1:] != n.shape:
        raise ValueError(f"a curve needs as many counts as values; {n.shape} and {curves.shape} arrived")
    if np.any(np.diff(n) <= 0):
        raise ValueError(f"labeled counts must grow; {n.tolist()} arrived")
    if n.size == 1:
        return np.asarray(curves[..., 0])
    return np.asarray((curves[..., 1:] + curves[..., :-1]) / 2 @ np.diff(n) / (n[-1] - n[0]))


def decimals(results: Results, metric: str) -> int:
    """Decimals worth showing: 2 up to a thousand, fewer above, more for values below 1."""
    if metric_named(metric).percent:
        return 2
    largest = max(abs(float(results.aubc(label, metric).mean())) for label in results.labels)
    return 0 if largest >= 1e4 else 1 if largest >= 1e3 else 2 if largest >= 1 else 4


def load(path: str | Path) -> Results:
    """Read the runs of an experiment from its folder or its packed file (.tar.xz).

    A torn last line is ignored, and unfinished runs are listed apart.

    Args:
        path: The folder or the file.

    Raises:
        ValueError: It is neither, a run in it is corrupt, or none is finished.
    """
    path = Path(path)
    texts = read_experiment(path)
    stored, kept = texts.pop(MANIFEST_FILE, ""), texts.pop(PREVIEWS_FILE, "")
    manifest = parse_manifest(stored, path / MANIFEST_FILE) if stored else {}
    protocol = manifest.get("protocol", {})
    runs = [Run.parse(text, path / name) for name, text in texts.items()]
    counts = max((run.counts for run in runs), key=len, default=())
    for run in runs:
        if run.counts != counts[: len(run.counts)]:
            raise ValueError(f"{path}: {run.label}, seed {run.seed} labeled {run.counts}, others {counts}")
    points = max(len(counts), int(protocol.get("rounds", 0)) + 1)
    places = {label: place for place, label in enumerate(protocol.get("strategies", ()))}
    runs.sort(key=lambda run: (places.get(run.label, len(places)), run.label, run.seed))
    finished = tuple(run for run in runs if len(run.counts) == points)
    if not finished:
        raise ValueError(f"{path} has no finished run yet: {len(runs)} started, {points} points to reach")
    return Results(
        path=path,
        manifest=manifest,
        labels=tuple(dict.fromkeys(run.label for run in finished)),
        counts=counts,
        runs=finished,
        incomplete=tuple(run for run in runs if len(run.counts) < points),
        previews=parse_previews(kept),
    )


PREVIEWS_FILE = "previews.json"
FIRST_PICKS = 12  # of each strategy that are shown
THUMB = 112  # pixels; larger pictures are made smaller
WORDS = 280  # characters; longer texts are cut
SMALL = 64  # pixels; pictures up to this size are kept as they are, pixel by pixel
PICTURE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*")


@dataclass(frozen=True)
class Preview:
    """An example as people know it: a picture or a text."""

    picture: str = ""  # a data URI
    text: str = ""


def preview_of(shown: Image.Image | str) -> Preview:
    """A small preview of an example."""
    return Preview(text=shorten(shown)) if isinstance(shown, str) else Preview(picture=thumbnail(shown))


def shorten(text: str, most: int = WORDS) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def thumbnail(image: Image.Image, height: int = THUMB) -> str:
    """A small picture as a data URI; tiny ones keep every pixel, larger ones become JPEG."""
    out = io.BytesIO()
    if max(image.size) <= SMALL:
        (image if image.mode in {"1", "L", "RGB", "RGBA", "P"} else image.convert("RGB")).save(out, "PNG")
        kind = "png"
    else:
        small = image.convert("RGB")
        small.thumbnail((height * 2, height))
        small.save(out, "JPEG", quality=82)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode('ascii')}"


def add_previews(folder: Path, ids: Iterable[int], show: Callable[[int], Image.Image | str]) -> None:
    """Add examples to those that are kept in a folder."""
    kept = read_previews(folder)
    fresh = {example: preview_of(show(example)) for example in ids if example not in kept}
    if fresh:
        plain = {str(example): asdict(each) for example, each in sorted((kept | fresh).items())}
        write_whole(folder / PREVIEWS_FILE, json.dumps(plain, indent=0) + "\n")


def read_previews(folder: Path) -> dict[int, Preview]:
    """Read the previews of a folder; entries that are neither a small picture nor a short text are left out."""
    path = folder / PREVIEWS_FILE
    return parse_previews(read_utf8(path)) if path.is_file() else {}


def parse_previews(text: str) -> dict[int, Preview]:
    """Previews in the text of a file; anything but a small picture or a short text is left out."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {int(key): Preview(**each) for key, each in pairs if key.isdecimal() and _is_preview(each)}


def _is_preview(found: Any) -> bool:
    """Whether a page may show this: a folder may come from anyone."""
    if not isinstance(found, Mapping) or found.keys() != {"picture", "text"}:
        return False
    picture, text = found["picture"], found["text"]
    words = isinstance(text, str) and len(text) <= WORDS
    return words and isinstance(picture, str) and (not picture or PICTURE.fullmatch(picture) is not None)
