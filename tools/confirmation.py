"""Tables and sentences of the default: its confirmation from results/confirm-*.tar.xz, its passes by counting them.

README.md, docs/explanation/evidence.md and others have blocks `<!-- five_strategies results/confirm-* -->`, which
`python -m tools.evidence PAGE` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import jostle
from jostle.experiments.results import Floats, Results
from jostle.experiments.statistics import holm, times, wilcoxon
from jostle.experiments.tables import Cell, Table, p_cell, settle
from jostle.inference.runner import tallied

DEFAULT = "default"
FIVE = (DEFAULT, "margin-herding", "alfa-mix", "badge", "margin")
KINDS = {
    "tables": ("banana", "contraceptive", "phoneme", "vehicle"),
    "imbalanced tables": ("abalone9-18", "vehicle3", "vowel0", "winequality-red-4"),
    "images, small network": ("small-mnist",),
    "embeddings, linear probe": ("mnist-probe", "mrpc-probe"),
    "embeddings, hidden layer": ("mnist-hidden", "mrpc-hidden"),
    "regressions": ("airfare", "hotel", "saratoga"),
}
METRICS = {"imbalanced tables": "macro_f1", "regressions": "mae"}
POOLS = (1_000, 10_000, 100_000)


@dataclass(frozen=True)
class Setting:
    """Errors of one confirmation: the area above the curve of accuracy or macro-F1, or below that of the MAE."""

    name: str
    kind: str
    seeds: tuple[int, ...]
    errors: Mapping[str, Floats]  # label -> (seeds,)
    passes: Mapping[str, float]

    def saved(self, label: str, against: str = "random") -> Floats:
        """Return the error that a strategy saves against another, in percent of random's mean error, (seeds,)."""
        less = self.errors[against] - self.errors[label]
        return np.asarray(100 * less / self.errors["random"].mean())


def read(results: Results) -> Setting:
    """Read one confirmation; the finalist that was confirmed is `default`, for a regression that is typiclust."""
    name = results.name.removeprefix("confirm-")
    kind = next(kind for kind, names in KINDS.items() if name in names)
    metric = METRICS.get(kind, "accuracy")
    finalist = "typiclust" if kind == "regressions" else "finalist"
    names = {label: DEFAULT if label == finalist else label for label in results.labels}
    seeds = sorted(set.intersection(*(set(results.seeds(label)) for label in results.labels)))
    areas = {names[label]: results.aubc(label, metric, seeds) for label in results.labels}
    errors = areas if metric == "mae" else {label: 100 - area for label, area in areas.items()}
    passes = {names[each.label]: each.passes for each in times(results)}
    return Setting(name, kind, tuple(seeds), errors, passes)


def ordered(settings: Sequence[Setting]) -> list[Setting]:
    """Return settings in the order of their kinds."""
    return sorted(settings, key=lambda each: (list(KINDS).index(each.kind), each.name))


def with_classes(settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings that are no regressions."""
    return [each for each in settings if each.kind != "regressions"]


def over_seeds(settings: Sequence[Setting], label: str, against: str) -> Floats:
    """Return the mean over settings of the error saved against another strategy, for each seed that all share."""
    shared = sorted(set.intersection(*(set(each.seeds) for each in settings)))
    saved = [each.saved(label, against)[[each.seeds.index(s) for s in shared]] for each in settings]
    return np.asarray(np.mean(saved, axis=0))


def lead_tests(
    settings: Sequence[Setting], labels: Sequence[str], reference: str
) -> dict[str, tuple[float, float]]:
    """Return, for each strategy, p of the signed-rank tests over seeds and over settings, each Holm-corrected."""
    seeds = holm([wilcoxon(over_seeds(settings, reference, label)) for label in labels])
    means = [np.array([each.saved(reference, label).mean() for each in settings]) for label in labels]
    return dict(zip(labels, zip(seeds, holm([wilcoxon(each) for each in means]), strict=True), strict=True))


def share(value: float) -> Cell:
    """Return a cell of percents with a sign."""
    return Cell(value, digits=1, signed=True)


def comparison(settings: Sequence[Setting], labels: Sequence[str]) -> Table:
    """Compare strategies: error saved, the worst setting, tests of the default's lead, passes."""
    rivals = [
        label for label in settings[0].errors if label != DEFAULT and all(label in s.errors for s in settings)
    ]
    p = lead_tests(settings, rivals, DEFAULT)
    saved = {label: np.array([each.saved(label).mean() for each in settings]) for label in labels}
    best_first = sorted(labels, key=lambda label: -settle(saved[label].mean(), 1))
    worst = {label: settings[int(saved[label].argmin())].name for label in labels}
    none = Cell(None)
    return Table.of(
        "",
        {
            "strategy": [Cell(f"`{label}`") for label in best_first],
            "random's error saved, %": [share(saved[label].mean()) for label in best_first],
            "worst setting, %": [
                Cell(None, shown=f"{share(saved[label].min()).text} ({worst[label]})") for label in best_first
            ],
            "settings below random": [Cell(int((saved[label] < 0).sum()), digits=0) for label in best_first],
            "p, seeds": [none if label == DEFAULT else p_cell(p[label][0]) for label in best_first],
            "p, settings": [none if label == DEFAULT else p_cell(p[label][1]) for label in best_first],
            "passes": [
                Cell(float(np.mean([each.passes[label] for each in settings])), digits=1)
                for label in best_first
            ],
        },
    )


def bare(table: Table) -> str:
    """Return a table as Markdown, without a title."""
    return table.markdown().partition("\n\n")[2].strip()


def five_strategies(settings: Sequence[Setting]) -> str:
    """Compare five strategies over all settings with classes."""
    classes = with_classes(settings)
    counts = sorted({len(each.seeds) for each in classes})
    table = bare(comparison(classes, FIVE))
    return (
        f"{len(classes)} untouched settings with classes, {counts[0]} to {counts[-1]} paired seeds each.\n\n{table}\n\n"
        "*p*: signed-rank tests of `default` against the strategy, over seeds and over settings, Holm-corrected.\n"
        f"{verdict(classes)}\n"
    )


def verdict(settings: Sequence[Setting]) -> str:
    """Say over how many of five strategies `default` is significantly ahead, and where it was below random."""
    rivals = [
        label for label in settings[0].errors if label != DEFAULT and all(label in s.errors for s in settings)
    ]
    tests = lead_tests(settings, rivals, DEFAULT)
    shown = [label for label in FIVE if label != DEFAULT]
    ahead = [
        sum(tests[label][kind] < 0.05 and over_seeds(settings, DEFAULT, label).mean() > 0 for label in shown)
        for kind in (0, 1)
    ]
    below = [each.name for each in settings if each.saved(DEFAULT).mean() < 0]
    return (
        f"By the test over seeds `default` is significantly ahead of {ahead[0]} of {len(shown)}, "
        f"by that over settings of {ahead[1]}.\nIt was below random in {len(below)} settings: {', '.join(below)}."
    )


def regressions(settings: Sequence[Setting]) -> str:
    """Compare strategies over the regressions."""
    chosen = [each for each in settings if each.kind == "regressions"]
    labels = [label for label in chosen[0].errors if label != "random"]
    names = ", ".join(f"{each.name} ({len(each.seeds)} seeds)" for each in chosen)
    return f"{len(chosen)} untouched regressions: {names}.\n\n{bare(comparison(chosen, labels))}\n"


def regression_line(settings: Sequence[Setting]) -> str:
    """Say in a line how `default` did on the regressions."""
    chosen = [each for each in settings if each.kind == "regressions"]
    saved = np.mean([each.saved(DEFAULT).mean() for each in chosen])
    labels = [label for label in chosen[0].errors if label != DEFAULT]
    p = lead_tests(chosen, labels, DEFAULT)["random"][0]
    return (
        f"- On {len(chosen)} untouched regressions `default` saved {share(float(saved)).text} % of random's error "
        f"(p = {p_cell(p).text} over seeds).\n"
    )


def kinds(settings: Sequence[Setting]) -> str:
    """Show the error saved for each kind of data with classes."""
    groups = [
        (kind, list(some))
        for kind, some in groupby(ordered(with_classes(settings)), key=lambda each: each.kind)
    ]
    columns: dict[str, Sequence[Cell]] = {
        "kind of data": [Cell(kind) for kind, _ in groups],
        "settings": [Cell(len(some), digits=0) for _, some in groups],
    }
    for label in FIVE:
        columns[f"`{label}`"] = [
            share(np.mean([each.saved(label).mean() for each in some])) for _, some in groups
        ]
    return bare(Table.of("", columns)) + "\n"


@cache
def counted_passes(linear: bool, size: int, labels: int) -> float:
    """Return the passes over a pool that `default` takes to pick 100, counted while it does."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3) if linear else nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    known = TensorDataset(torch.randn(labels, 4), torch.arange(labels) % 3) if labels else None
    with tallied() as tally:
        jostle.select(DEFAULT, model, torch.randn(size, 4), 100, labeled=known, seed=0)
    return tally.examples / size


def cost_table(settings: Sequence[Setting]) -> str:
    """Show the passes of `default` for 100 picks."""
    rows = {
        "linear model, or a regression": [counted_passes(True, size, 0) for size in POOLS],
        "other models": [counted_passes(False, size, 0) for size in POOLS],
        "other models, 100 labels": [counted_passes(False, size, 100) for size in POOLS],
    }
    columns: dict[str, Sequence[Cell]] = {"passes for 100 picks": [Cell(name) for name in rows]}
    for place, size in enumerate(POOLS):
        columns[f"of {size:,}"] = [Cell(found[place], digits=1) for found in rows.values()]
    return bare(Table.of("", columns)) + "\n"


def cost_lines(settings: Sequence[Setting]) -> str:
    """Say the passes of `default` in two lines."""
    found = [f"{settle(counted_passes(False, size, 0), 1):.1f}".removesuffix(".0") for size in POOLS]
    return (
        "- `default` costs one pass over the pool for a linear model and for a regression.\n"
        "- For other models it adds 21 passes over 20 candidates for each pick and over the labeled set. To pick 100, "
        f"that is\n  {found[0]} passes over a pool of 1,000, {found[1]} over 10,000 and {found[2]} over 100,000.\n"
    )


BLOCKS: dict[str, Callable[[Sequence[Setting]], str]] = {
    "five_strategies": five_strategies,
    "confirmed_kinds": kinds,
    "confirmed_regressions": regressions,
    "confirmed_regression_line": regression_line,
    "default_cost": cost_table,
    "default_cost_lines": cost_lines,
}
