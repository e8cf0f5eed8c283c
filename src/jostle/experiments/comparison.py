"""One page over several folders of runs: what they say together, and where they differ."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jostle.experiments import figures
from jostle.experiments.across import Across, areas_table, duel_table, gains_table, overview_table
from jostle.experiments.page import Drawing, Page, Section, line_styles, write
from jostle.experiments.report import shown_value
from jostle.experiments.results import Floats, Results, decimals, load, metric_named
from jostle.experiments.statistics import bootstrap
from jostle.experiments.store import experiment_name, flat_fields
from jostle.experiments.tables import MISSING, Cell, Table, signed_cells

NAMED = 8  # curves that have colors and names, the best by rank, where there are more
VARIANTS = 4  # folders at most whose settings are set side by side


def load_all(folders: Sequence[str | Path]) -> dict[str, Results]:
    """Read several experiments, each under its name, with as much of its path as tells them apart."""
    if len(folders) < 2:
        raise ValueError(f"compare needs at least two folders of runs, got {len(folders)}")
    paths = [Path(folder).resolve().with_name(experiment_name(Path(folder))) for folder in folders]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return dict(zip(names, map(load, folders), strict=True))
    raise ValueError(f"the same folder was given twice: {', '.join(map(str, folders))}")


def write_comparison(across: Across, out: str | Path) -> Path:
    """Write `compare.html` with its tables and figures: ranks over all folders, gains, wins, curves, differences.

    Nothing in the folder is written over but an earlier comparison.
    """
    runs = across.runs
    text = "Every strategy over all sets: how it ranks, what it gains and saves, where it is worst, what it costs."
    unfinished = [f"{name}: {len(each.incomplete)}" for name, each in runs.items() if each.incomplete]
    parts = {"": across, **across.parts()}
    sections = (
        Section("overview", "Over all sets", text, tables={"compare-overview": overview_table(across)}),
        *(_diagram(part, metric) for metric, part in parts.items() if len(part.everywhere) > 1),
        _gains(across),
        _duels(across),
        _curves(across),
        _areas(across),
        _differences(across),
    )
    page = Page(
        title=" · ".join(runs) if len(runs) <= VARIANTS else f"{len(runs)} sets of runs",
        subtitle="" if len(runs) <= VARIANTS else ", ".join(runs),
        kind="comparison",
        headline=_headline(across),
        details="",
        facts=[],
        warnings=[f"Unfinished runs are left out ({', '.join(unfinished)})."] if unfinished else [],
        sections=[section for section in sections if section],
        colors={label: style.color for label, style in line_styles(across.labels).items()},
    )
    return write(page, Path(out), "compare.html")


def _headline(across: Across) -> str:
    titles = dict.fromkeys(metric_named(metric).title for metric in across.metrics.values())
    counts = (
        f"{len(across.runs)} sets of runs, {len(across.labels)} strategies, judged by {', '.join(titles)}"
    )
    if len(across.everywhere) < 2:
        return f"{counts}."
    best = across.labels[0]
    *others, last = next((group[1:] for group in across.cliques if group[0] == best), ("",))
    level = f"{', '.join(others)} or {last}" if others else last
    doubt = f"; Nemenyi's test cannot tell {level} from it" if level else ""
    return f"{counts}: {best} has the best average rank, {across.average_ranks[best]:.2f}{doubt}."


def _diagram(across: Across, metric: str) -> Section:
    """A diagram of ranks over all folders, or over those of one metric."""
    figure = figures.rank_diagram(
        across.average_ranks, across.critical_difference, across.cliques, across.labels
    )
    title = metric_named(metric).title if metric else ""
    sets = f"{len(across.runs)} sets" + (f" that are judged by {title}" if metric else "")
    caption = (
        f"Average rank of the area over {sets}; 1 is best. A bar joins strategies that Nemenyi's test (p < 0.05) "
        "cannot tell apart."
    )
    if not np.isnan(across.friedman):
        caption += f" Friedman's test that all are alike: p = {across.friedman:.2g}."
    name = "compare-ranks" + (f"-{metric}" if metric else "")
    heading = "Average ranks" + (f", {title}" if metric else "")
    return Section(name, heading, drawings=(Drawing(name, figure, caption),))


def _gains(across: Across) -> Section | None:
    labels = [label for label in across.labels if label != across.baseline]
    rows = [across.gains(label) for label in labels]
    found = np.array([[100 * row.get(name, np.nan) for name in across.runs] for row in rows])
    if not np.isfinite(found).any():
        return None
    figure = figures.gain_map(labels, list(across.runs), found)
    caption = f"By how many percent each strategy's area lowers {across.baseline}'s error; blue is better."
    text = "Where a strategy helps and where it harms, in a unit that accuracies and errors share."
    drawing = Drawing("compare-gains", figure, caption)
    title = f"Gain over {across.baseline}"
    return Section("gains", title, text, (drawing,), filed={"compare-gains": gains_table(across)})


def _duels(across: Across) -> Section | None:
    labels = across.labels
    duels = np.array([[across.duel(label, other) for other in labels] for label in labels])  # (n, n, 2)
    if not duels.any():
        return None
    figure = figures.duel_map(labels, duels[..., 0], duels[..., 1])
    caption = (
        "Sets in which the row is clearly ahead of the column : clearly behind it (paired t-test, p < 0.05)."
    )
    drawing = Drawing("compare-wins", figure, caption)
    return Section("wins", "Wins and losses", drawings=(drawing,), filed={"compare-wins": duel_table(across)})


def _curves(across: Across) -> Section:
    """Learning curves; where there are many strategies, those by name that rank best, and the baseline."""
    named, others = across.labels, ""
    if len(named) > NAMED:
        best = [label for label in across.labels if label != across.baseline][: NAMED - 1]
        named, others = [*best, across.baseline], " Gray: the other strategies."
    figure = figures.side_by_side(across.runs, across.metrics, across.labels, named)
    caption = f"Mean of each strategy over seeds, in the same colors.{others}"
    return Section("curves", "Learning curves", drawings=(Drawing("compare-curves", figure, caption),))


def _areas(across: Across) -> Section:
    tables = {"compare-aubc": areas_table(across)}
    metrics = {*across.metrics.values()}
    if len(metrics) == 1 and (change := change_table(across.runs, metrics.pop())):
        tables["compare-change"] = change
    return Section("aubc", "Area under the budget curve", tables=tables)


def _differences(across: Across) -> Section | None:
    """In what protocols differ, where there are few of them; strategies apart that some folder lacks."""
    if len(across.runs) > VARIANTS:
        return None
    found: dict[str, dict[str, Any]] = {}
    for name, results in across.runs.items():
        protocol = dict(results.protocol)
        strategies = protocol.pop("strategies", {})
        if isinstance(strategies, Mapping):
            shared = [label for label in strategies if label in across.everywhere]
            protocol["strategies"] = {label: strategies[label] for label in shared}
        found[name] = flat_fields(protocol)
    keys = dict.fromkeys(key for settings in found.values() for key in settings)
    differing = [key for key in keys if len({repr(each.get(key)) for each in found.values()}) > 1]
    if not differing:
        return None
    columns = {"setting": [Cell(key) for key in differing]}
    for name, settings in found.items():
        columns[name] = [
            Cell(shown_value(settings[key]) if key in settings else MISSING) for key in differing
        ]
    text = "Settings in which the protocols differ, strategies apart that not all have run."
    table = Table.of("Settings that differ", columns)
    return Section("protocols", "What differs", text, tables={"compare-protocols": table})


def change_table(runs: Mapping[str, Results], metric: str) -> Table | None:
    """How each strategy's AUBC changes from the first set of runs to the others, on the seeds that both have.

    None where no other set has the same labeled counts, for then areas do not compare.
    """
    (base, first), *others = runs.items()
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in first.labels]}
    places = decimals(first, metric)
    for name, other in others:
        if other.counts == first.counts:
            moves = [_change(first, other, label, metric) for label in first.labels]
            intervals = [bootstrap(each) for each in moves]
            columns[name] = signed_cells([each.mean() if each.size else None for each in moves], places)
            columns[f"{name}, 95 % from"] = signed_cells([low for low, _ in intervals], places)
            columns[f"{name}, to"] = signed_cells([high for _, high in intervals], places)
    note = (
        "AUBC minus that of the first, seed by seed, turned so that positive is better; bootstrap intervals."
    )
    return Table.of(f"Change of AUBC from {base}", columns, note) if len(columns) > 1 else None


def _change(first: Results, other: Results, label: str, metric: str) -> Floats:
    seeds = {*first.seeds(label)} & {*other.seeds(label)}
    change = other.aubc(label, metric, seeds) - first.aubc(label, metric, seeds)
    return np.asarray(metric_named(metric).sign * change)
