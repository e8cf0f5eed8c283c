"""Reports: one page for a folder of runs, and one that sets several folders side by side."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jostle.report import figures
from jostle.report.page import Drawing, Page, Section, Show, Strip, strip, toml, write
from jostle.report.styles import looks
from jostle.results import summary
from jostle.results.curves import Results, Run, describe, load
from jostle.results.statistics import gains, shared_seeds, targets, times, win_matrix
from jostle.results.store import flat
from jostle.results.tables import MISSING, Cell, Table

YARDSTICK = "coreset"  # the strategy whose selection time others are compared with, as in the paper's table
PICKS = 12  # examples that the gallery shows of each strategy


def write_report(
    folder: str | Path,
    out: str | Path | None = None,
    baseline: str = "random",
    reference: str | None = None,
    gallery: Show | None = None,
    *,
    metric: str | None = None,
    levels: Sequence[float] | None = None,
) -> Path:
    """Write `report.html` with its tables and figures into `<folder>/report`, and return the page's path.

    Labels saved are counted against `baseline`, paired differences taken to `reference` (unless named, the
    baseline; the best strategy if there is no baseline). `levels` are values of the metric to reach, in
    percent where it is a share. `gallery(id)` gives an example's picture or text.
    """
    results = load(folder)
    metric = _metric(results, metric)
    known = _baseline(results, baseline)
    page = Page(
        title=results.name,
        subtitle=str(results.manifest.get("protocol", {}).get("title", "")),
        kind="report",
        headline=summary.headline(results, metric, known),
        details=summary.details(results, metric, known),
        facts=_facts(results, metric, known),
        warnings=_warnings(results),
        sections=[
            section
            for section in (
                _curves(results, metric, known),
                _setting(results, metric),
                _areas(results, metric),
                _gains(results, metric, reference or known),
                _wins(results, metric),
                _needs(results, metric, levels, known),
                _times(results),
                _gallery(results, gallery),
                _repeat(results),
            )
            if section
        ],
        colours={label: look.colour for label, look in looks(results.labels).items()},
    )
    return write(page, Path(out) if out else Path(folder) / "report", "report.html")


def _metric(results: Results, metric: str | None) -> str:
    if not results.metrics:
        raise ValueError(f"{results.name}: the finished runs share no metric")
    if metric is not None and metric not in results.metrics:
        raise ValueError(f"no metric {metric!r} in {results.name}; there are {', '.join(results.metrics)}")
    return metric or results.metrics[0]


def _baseline(results: Results, baseline: str) -> str | None:
    """The baseline if it was run; only the usual one may be missing without a word."""
    if baseline in results.labels or baseline == "random":
        return baseline if baseline in results.labels else None
    raise ValueError(f"no finished run of {baseline!r}; there are {', '.join(results.labels)}")


def _facts(results: Results, metric: str, baseline: str | None) -> list[tuple[str, str]]:
    best = summary.best_first(results, metric)[0]
    area = float(results.aubc(best, metric).mean())
    percent = " %" if describe(metric).percent else ""
    facts = [(f"{area:.{min(1, summary.digits(results, metric))}f}{percent}", f"best AUBC, {best}")]
    if baseline and best != baseline:
        need = summary.need_for_last(results, metric, best, baseline)
        if need < results.counts[-1]:
            facts.append((f"−{100 * (1 - need / results.counts[-1]):.0f} %", f"labels to match {baseline}"))
    facts.append((str(len(results.labels)), "strategies" if len(results.labels) > 1 else "strategy"))
    seeds = sorted({len(results.of(label)) for label in results.labels})
    facts.append(("–".join(map(str, {seeds[0]: 0, seeds[-1]: 0})), "seed" if seeds == [1] else "seeds each"))
    facts.append((f"{results.counts[0]} → {results.counts[-1]}", "labelled examples"))
    return facts


def _warnings(results: Results) -> list[str]:
    runs = ", ".join(_progress(run, len(results.counts)) for run in results.incomplete)
    return [f"Unfinished runs are left out: {runs}."] if runs else []


def _progress(run: Run, points: int) -> str:
    return f"{run.label} seed {run.seed} ({len(run.counts)} of {points} points)"


def _curves(results: Results, metric: str, baseline: str | None) -> Section:
    title = describe(metric).title
    seeds = max(len(results.of(label)) for label in results.labels)
    caption = {1: f"{title} of a single seed.", 2: f"Mean {title} of two seeds. Shaded: their range."}.get(
        seeds, f"Mean {title} over seeds. Shaded: the 95 % confidence band of each mean."
    )
    drawings = [Drawing("learning-curves", figures.learning_curves(results, metric), caption)]
    if baseline and len(results.labels) > 1:
        lines = "thin lines: single seeds" if seeds < figures.FEW else "shaded: 95 % confidence band"
        caption = f"What each strategy gains over {baseline} on the same seeds; {lines}; grey: the others."
        drawings.append(Drawing("gain-curves", figures.gain_curves(results, metric, baseline), caption))
    text = (
        "How good the model is after each round of labelling. All strategies of one seed start from the same "
        "labelled examples and the same initial weights."
    )
    return Section("curves", "Learning curves", text, tuple(drawings))


def _setting(results: Results, metric: str) -> Section | None:
    """The figure of a hyper-parameter, where the runs are one strategy with one setting varied."""
    setting, values = varied(results.manifest.get("protocol", {}).get("strategies", {}), results.labels)
    if len(values) < 3 or len(results.counts) < 2:
        return None
    figure = figures.setting_dots(results, metric, setting, values)
    caption = f"Mean {describe(metric).title} after each selection, for each value of {setting}."
    return Section("setting", f"The setting {setting}", drawings=(Drawing("setting", figure, caption),))


def varied(strategies: Any, labels: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The setting in which the strategies of the most common kind differ most, and each label's value of it.

    A label that differs in something else as well is shown under its own name.
    """
    if not isinstance(strategies, Mapping):
        return "", {}
    entries = {label: flat(strategies.get(label) or {}) for label in labels}
    kinds = Counter(entry.get("use", label) for label, entry in entries.items())
    kind = kinds.most_common(1)[0][0]
    same = {label: entry for label, entry in entries.items() if entry.get("use", label) == kind}
    keys = sorted({key for entry in same.values() for key in entry if key != "use"})
    spread = {key: len({repr(entry.get(key)) for entry in same.values()}) for key in keys}
    setting = max(keys, key=lambda key: spread[key], default="")
    if not setting or spread[setting] < 2:
        return "", {}
    rests = {label: repr({**entry, setting: None}) for label, entry in same.items()}
    usual = Counter(rests.values()).most_common(1)[0][0]
    plain = [label for label in same if rests[label] == usual and setting in same[label]]
    numbers = all(isinstance(same[label][setting], int | float) for label in plain)
    plain.sort(key=lambda label: same[label][setting] if numbers else 0)
    shown = {label: _value(same[label][setting]) for label in plain}
    return setting, {**shown, **{label: label for label in same if label not in shown}}


def _value(value: Any) -> str:
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def _areas(results: Results, metric: str) -> Section:
    text = "One number for a whole curve: its mean height over the labelling budget."
    caption = (
        "AUBC of every seed (dots), its mean (diamond) and the 95 % confidence interval of the mean (bar)."
    )
    drawing = Drawing("aubc", figures.aubc_dots(results, metric), caption)
    table = summary.aubc_table(results, metric)
    return Section("aubc", "Area under the budget curve", text, (drawing,), {"aubc": table})


def _gains(results: Results, metric: str, reference: str | None) -> Section | None:
    reference = reference or summary.best_first(results, metric)[0]
    found = gains(results, metric, reference)
    if not any(gain.differences.size for gain in found):
        return None
    text = f"Seed by seed, so that a lucky start helps no one: AUBC minus that of {reference}."
    caption = "Differences of single seeds (dots), their mean (diamond) and its bootstrap interval (bar)."
    figure = figures.gain_dots(found, reference, metric, results.labels)
    table = {"gains": summary.gain_table(results, metric, reference)}
    return Section("gains", f"Gain over {reference}", text, (Drawing("gains", figure, caption),), table)


def _wins(results: Results, metric: str) -> Section | None:
    wins = win_matrix(results, metric)
    if np.isnan(wins).all():
        return None
    table = {"wins": summary.win_table(results, metric)}
    drawing = Drawing(
        "wins", figures.win_map(results.labels, wins), "Row beats column; the least beaten first."
    )
    return Section("wins", "Wins and losses", summary.WIN_NOTE, (drawing,), filed=table)


def _needs(
    results: Results, metric: str, levels: Sequence[float] | None, baseline: str | None
) -> Section | None:
    wanted = list(levels) if levels is not None else targets(results, metric)
    if not wanted:
        return None
    text = f"What labelling costs: how many labels each strategy needs for a given {describe(metric).title}."
    table = summary.needs_table(results, metric, wanted, baseline)
    return Section("labels", "Labels needed", text, tables={"labels": table})


def _times(results: Results) -> Section:
    drawing = Drawing(
        "times", figures.time_bars(times(results)), "Mean time of one selection and one training."
    )
    text = "What a strategy costs in computing."
    tables = {"times": summary.time_table(results)}
    if YARDSTICK in results.labels:
        tables["ratios"] = summary.ratio_table(results, YARDSTICK)
    return Section("times", "Time", text, (drawing,), tables)


def _gallery(results: Results, show: Show | None) -> Section | None:
    if show is None or len(results.counts) < 2:
        return None
    seed = min(shared_seeds(results, *results.labels) or [results.runs[0].seed])
    strips: list[Strip] = []
    for label in results.labels:
        run = next((run for run in results.of(label) if run.seed == seed), results.of(label)[0])
        strips.append(strip(label, run.picked[1][:PICKS], show))
    text = (
        f"The first {PICKS} examples that each strategy asked for in seed {seed}, in the order of its "
        "picks. All had seen the same initial labels."
    )
    return Section("gallery", "What each picked first", text, strips=tuple(strips))


def _repeat(results: Results) -> Section:
    manifest = results.manifest
    listings: list[tuple[str, str]] = []
    commands = [*manifest.get("earlier_commands", ()), manifest.get("command", ())]
    if any(commands):
        said = "\n".join(shlex.join(map(str, command)) for command in commands)
        listings.append(("Commands" if len(commands) > 1 else "Command", said))
    seeds = {label: " ".join(map(str, results.seeds(label))) for label in results.labels}
    same = len(set(seeds.values())) == 1
    listings.append(("Seeds", next(iter(seeds.values())) if same else toml(seeds)))
    for title, key in (
        ("Versions", "versions"),
        ("Hardware", "hardware"),
        ("Data", "data"),
        ("Own files", "files"),
    ):
        if manifest.get(key):
            listings.append((title, toml(manifest[key])))
    if manifest.get("protocol"):
        listings.append(("Protocol", toml(_spelt(manifest["protocol"]))))
    text = "Everything needed to run this again; the same seeds give the same picks and the same numbers."
    return Section("repeat", "Repeat it", text, listings=tuple(listings))


def _spelt(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol whose settings that are None say "none", as TOML has no word for it."""

    def spelt(named: Any) -> Any:
        return {key: "none" if each is None else each for key, each in dict(named).items()}

    tables = {key: spelt(protocol[key]) for key in ("dataset", "model") if key in protocol}
    strategies = {label: spelt(named) for label, named in protocol.get("strategies", {}).items()}
    return {**protocol, **tables, "strategies": strategies}


def compare(folders: Sequence[str | Path], out: str | Path, *, metric: str | None = None) -> Path:
    """Set runs side by side in `compare.html`: curves, AUBC of each, and in what their protocols differ."""
    if len(folders) < 2:
        raise ValueError(f"comparing needs at least two folders of runs; {len(folders)} arrived")
    runs = dict(zip(_names(folders), map(load, folders), strict=True))
    shared = [
        name for name in next(iter(runs.values())).metrics if all(name in r.metrics for r in runs.values())
    ]
    if not shared or (metric and metric not in shared):
        raise ValueError(
            f"{', '.join(runs)} share {'no metric' if not shared else 'only ' + ', '.join(shared)}"
        )
    metric = metric or shared[0]
    labels = list(dict.fromkeys(label for results in runs.values() for label in results.labels))
    caption = f"Mean {describe(metric).title} of each strategy, in the same colours."
    curves = Drawing("compare-curves", figures.side_by_side(runs, metric), caption)
    sections = [Section("curves", "Learning curves", drawings=(curves,))]
    tables = {"compare-aubc": summary.compare_table(runs, metric)}
    if change := summary.change_table(runs, metric):
        tables["compare-change"] = change
    sections.append(Section("aubc", "Area under the budget curve", tables=tables))
    if differences := _differences(runs):
        text = "Settings in which the protocols differ, strategies apart that not all have run."
        sections.append(Section("protocols", "What differs", text, tables={"compare-protocols": differences}))
    page = Page(
        title=" · ".join(runs),
        subtitle="",
        kind="comparison",
        headline=f"{len(runs)} sets of runs, {len(labels)} strategies, judged by {describe(metric).title}.",
        details="",
        facts=[],
        warnings=[],
        sections=sections,
        colours={label: look.colour for label, look in looks(labels).items()},
    )
    return write(page, Path(out), "compare.html")


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
        columns[name] = [Cell(_value(settings[key]) if key in settings else MISSING) for key in differing]
    return Table.of("Settings that differ", columns)


def _shared_protocol(results: Results, runs: Mapping[str, Results]) -> dict[str, Any]:
    """The protocol, with only the strategies that all runs have."""
    protocol = dict(results.manifest.get("protocol", {}))
    strategies = protocol.pop("strategies", {})
    if isinstance(strategies, Mapping):
        shared = set.intersection(*(set(each.labels) for each in runs.values()))
        protocol["strategies"] = {label: strategies[label] for label in strategies if label in shared}
    return protocol
