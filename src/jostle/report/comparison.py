"""One page that sets several folders of runs side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jostle.report import figures
from jostle.report.page import Drawing, Page, Section, write
from jostle.report.settings import shown_value
from jostle.report.styles import line_styles
from jostle.results.curves import Results, load
from jostle.results.manifest import flat
from jostle.results.metrics import metric_named
from jostle.results.side_by_side import change_table, compare_table
from jostle.results.tables import MISSING, Cell, Table


def write_comparison(runs: Mapping[str, Results], out: str | Path, *, metric: str | None = None) -> Path:
    """Set runs side by side in `compare.html`: curves, AUBC of each, and in what their protocols differ."""
    metric = shared_metric(runs, metric)
    labels = list(dict.fromkeys(label for results in runs.values() for label in results.labels))
    caption = f"Mean {metric_named(metric).title} of each strategy, in the same colours."
    curves = Drawing("compare-curves", figures.side_by_side(runs, metric), caption)
    sections = [Section("curves", "Learning curves", drawings=(curves,))]
    tables = {"compare-aubc": compare_table(runs, metric)}
    if change := change_table(runs, metric):
        tables["compare-change"] = change
    sections.append(Section("aubc", "Area under the budget curve", tables=tables))
    if differences := _differences(runs):
        text = "Settings in which the protocols differ, strategies apart that not all have run."
        sections.append(Section("protocols", "What differs", text, tables={"compare-protocols": differences}))
    page = Page(
        title=" · ".join(runs),
        subtitle="",
        kind="comparison",
        headline=f"{len(runs)} sets of runs, {len(labels)} strategies, judged by {metric_named(metric).title}.",
        details="",
        facts=[],
        warnings=[],
        sections=sections,
        colours={label: style.colour for label, style in line_styles(labels).items()},
    )
    return write(page, Path(out), "compare.html")


def load_all(folders: Sequence[str | Path]) -> dict[str, Results]:
    """Several folders of runs, each under its name, with as much of its path as tells them apart."""
    if len(folders) < 2:
        raise ValueError(f"comparing needs at least two folders of runs; {len(folders)} arrived")
    return dict(zip(_names(folders), map(load, folders), strict=True))


def shared_metric(runs: Mapping[str, Results], wanted: str | None = None) -> str:
    """The metric to judge by: the one that is wanted, or the first that all have."""
    first, *others = runs.values()
    shared = [name for name in first.metrics if all(name in each.metrics for each in others)]
    if not shared or (wanted and wanted not in shared):
        raise ValueError(
            f"{', '.join(runs)} share {'no metric' if not shared else 'only ' + ', '.join(shared)}"
        )
    return wanted or shared[0]


def _names(folders: Sequence[str | Path]) -> list[str]:
    """The folders' names, with as much of the path as tells them apart."""
    paths = [Path(folder).resolve() for folder in folders]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise ValueError(f"the same folder was given twice: {', '.join(map(str, folders))}")


def _differences(runs: Mapping[str, Results]) -> Table | None:
    settings_of = {name: flat(_shared_protocol(results, runs)) for name, results in runs.items()}
    keys = dict.fromkeys(key for settings in settings_of.values() for key in settings)
    differing = [
        key for key in keys if len({repr(settings.get(key)) for settings in settings_of.values()}) > 1
    ]
    if not differing:
        return None
    columns: dict[str, Sequence[Cell]] = {"setting": [Cell(key) for key in differing]}
    for name, settings in settings_of.items():
        columns[name] = [
            Cell(shown_value(settings[key]) if key in settings else MISSING) for key in differing
        ]
    return Table.of("Settings that differ", columns)


def _shared_protocol(results: Results, runs: Mapping[str, Results]) -> dict[str, Any]:
    """The protocol, with only the strategies that all runs have."""
    protocol = dict(results.manifest.get("protocol", {}))
    strategies = protocol.pop("strategies", {})
    if isinstance(strategies, Mapping):
        shared = set.intersection(*(set(each.labels) for each in runs.values()))
        protocol["strategies"] = {label: strategies[label] for label in strategies if label in shared}
    return protocol
