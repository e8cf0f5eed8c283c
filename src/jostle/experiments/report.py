"""The page of one experiment."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jostle.experiments import figures
from jostle.experiments.page import Drawing, Page, Section, line_styles, toml, write
from jostle.experiments.results import FIRST_PICKS, Results, decimals, metric_named
from jostle.experiments.statistics import (
    FEWEST_SEEDS,
    MANY_SEEDS,
    Gain,
    best_first,
    gain_over,
    gains,
    need_for_last,
    shared_seeds,
    targets,
    times,
    win_matrix,
)
from jostle.experiments.store import experiment_name, flat_fields
from jostle.experiments.tables import (
    Cell,
    aubc_table,
    gain_table,
    mean_cells,
    needs_table,
    ratio_table,
    time_table,
    win_table,
)
from jostle.utils.names import unknown


def write_report(
    results: Results,
    out: str | Path | None = None,
    baseline: str = "random",
    *,
    metric: str | None = None,
    goals: Sequence[float] | None = None,
    gallery: bool = True,
) -> Path:
    """Write `report.html` with its tables and figures, and return the page's path.

    Args:
        results: The runs.
        out: Folder to write into, where only an earlier report is overwritten; None: `report_folder`.
        baseline: Gains and saved labels are counted against this strategy; gains against the best if it was not run.
        metric: Metric to judge by; None: the main one.
        goals: Values of the metric to reach, in percent where it is a share.
        gallery: Whether to show what each strategy picked first, as the runs keep it.
    """
    metric = results.metric(metric)
    if baseline not in (*results.labels, "random"):  # only the usual one may be missing without a word
        raise unknown("baseline", baseline, results.labels)
    known = baseline if baseline in results.labels else None
    sections = (
        curves_section(results, metric, known),
        setting_section(results, metric),
        areas_section(results, metric),
        gains_section(results, metric, known or best_first(results, metric)[0]),
        wins_section(results, metric),
        needs_section(results, metric, goals, known),
        times_section(results),
        gallery_section(results) if gallery else None,
        repeat_section(results),
    )
    points = len(results.counts)
    unfinished = [
        f"{run.label} seed {run.seed} ({len(run.counts)} of {points} points)" for run in results.incomplete
    ]
    page = Page(
        title=results.name,
        subtitle=str(results.protocol.get("title", "")),
        kind="report",
        headline=headline(results, metric, known),
        details=details(results, metric, known),
        facts=_facts(results, metric, known),
        warnings=[f"Unfinished runs are left out: {', '.join(unfinished)}."] if unfinished else [],
        sections=[section for section in sections if section],
        colors={label: style.color for label, style in line_styles(results.labels).items()},
    )
    return write(page, Path(out) if out else report_folder(results.path), "report.html", own=out is None)


def report_folder(path: Path) -> Path:
    """Folder of an experiment's report: inside its folder, or beside its packed file as NAME-report."""
    return path / "report" if path.is_dir() else path.with_name(f"{experiment_name(path)}-report")


def _facts(results: Results, metric: str, baseline: str | None) -> list[tuple[str, str]]:
    best = best_first(results, metric)[0]
    area = float(results.aubc(best, metric).mean())
    percent = " %" if metric_named(metric).percent else ""
    facts = [(f"{area:.{min(1, decimals(results, metric))}f}{percent}", f"best AUBC, {best}")]
    if baseline and best != baseline and gain_over(results, metric, best, baseline).clear:
        need = need_for_last(results, metric, best, baseline)
        if need < results.counts[-1]:
            facts.append((f"−{100 * (1 - need / results.counts[-1]):.0f} %", f"labels to match {baseline}"))
    facts.append((str(len(results.labels)), "strategies" if len(results.labels) > 1 else "strategy"))
    seeds = seed_counts(results)
    facts.append(("–".join(map(str, {seeds[0]: 0, seeds[-1]: 0})), "seed" if seeds == [1] else "seeds each"))
    facts.append((f"{results.counts[0]} → {results.counts[-1]}", "labeled examples"))
    return facts


YARDSTICK = "coreset"  # the strategy whose selection time others are compared with, as in the paper's table


def curves_section(results: Results, metric: str, baseline: str | None) -> Section:
    """Learning curves, and what each strategy gains along them."""
    title, seeds = metric_named(metric).title, seed_counts(results)
    shaded = [
        *(["the 95 % confidence band of each mean"] if seeds[-1] > 2 else []),
        *(["the range of two seeds"] if 2 in seeds else []),
    ]
    averaged = f", averaged over seeds. Shaded: {', or '.join(shaded)}." if shaded else " of a single seed."
    caption = title[0].upper() + title[1:] + averaged
    drawings = [Drawing("learning-curves", figures.learning_curves(results, metric), caption)]
    others = [label for label in results.labels if label != baseline]
    if baseline and others:
        counts = {len(shared_seeds(results, label, baseline)) for label in others}
        few = figures.DRAWN_ONE_BY_ONE
        drawn = [
            *(["thin lines: single seeds"] if any(1 < n < few for n in counts) else []),
            *(["shaded: 95 % confidence band"] if max(counts) >= few else []),
            *(["gray: the others"] if len(others) > 1 else []),
        ]
        caption = f"What each strategy gains over {baseline} on the same seeds; {'; '.join(drawn)}."
        drawings.append(Drawing("gain-curves", figures.gain_curves(results, metric, baseline), caption))
    text = (
        "How good the model is after each round of labeling. All strategies of one seed start from the same "
        "labeled examples and the same initial weights."
    )
    return Section("curves", "Learning curves", text, tuple(drawings))


def seed_counts(results: Results) -> list[int]:
    """The numbers of seeds that strategies have, in order, each once."""
    return sorted({len(results.of(label)) for label in results.labels})


def setting_section(results: Results, metric: str) -> Section | None:
    """The figure of a hyper-parameter, where the runs are one strategy with one setting varied."""
    setting, values = varied_setting(results.protocol.get("strategies", {}), results.labels)
    varied = [label for label, value in values.items() if value != label]  # and in nothing else
    if len(varied) < 3 or len(results.counts) < 2:
        return None
    figure = figures.setting_dots(results, metric, setting, values)
    caption = f"Mean {metric_named(metric).title} after each selection, for each value of {setting}."
    return Section("setting", f"The setting {setting}", drawings=(Drawing("setting", figure, caption),))


def areas_section(results: Results, metric: str) -> Section:
    """One number for each curve."""
    text = "One number for a whole curve: its mean height over the labeling budget."
    interval = "the 95 % confidence interval of the mean"
    caption = _dots_caption("AUBC of each seed", interval, seed_counts(results))
    drawing = Drawing("aubc", figures.aubc_dots(results, metric), caption)
    return Section(
        "aubc", "Area under the budget curve", text, (drawing,), {"aubc": aubc_table(results, metric)}
    )


def _dots_caption(dots: str, interval: str, seeds: Sequence[int]) -> str:
    """Return the caption of a figure of dots: it has bars only where there are enough seeds for an interval."""
    if seeds[-1] == 1:
        return f"{dots} (diamond)."
    if seeds[-1] < figures.INTERVAL_SEEDS:
        return f"{dots} (dots) and their mean (diamond); {seeds[-1]} seeds have no interval worth drawing."
    partly = seeds[0] < figures.INTERVAL_SEEDS
    some = f" where there are {figures.INTERVAL_SEEDS} seeds or more" if partly else ""
    return f"{dots} (dots), their mean (diamond), and {interval} (bar){some}."


def gains_section(results: Results, metric: str, reference: str) -> Section | None:
    """Differences to a reference, seed by seed."""
    found = gains(results, metric, reference)
    seeds = sorted({gain.seeds for gain in found} - {0})
    if not seeds:
        return None
    text = f"Seed by seed, so that a lucky start helps no one: AUBC minus that of {reference}."
    caption = _dots_caption("Difference of each seed", "the bootstrap interval of the mean", seeds)
    drawing = Drawing("gains", figures.gain_dots(found, reference, metric, results.labels), caption)
    table = gain_table(results, metric, reference, found)
    return Section("gains", f"Gain over {reference}", text, (drawing,), {"gains": table})


def wins_section(results: Results, metric: str) -> Section | None:
    """Who beats whom, as a figure; as a table in files only."""
    wins = win_matrix(results, metric)
    few = seed_counts(results)[-1] < MANY_SEEDS
    if np.isnan(wins).all() or (few and not np.nansum(wins)):  # nothing that the seeds decide
        return None
    table, caption = win_table(results, wins), "Row beats column; the least beaten first."
    drawing = Drawing("wins", figures.win_map(results.labels, wins), caption)
    return Section("wins", "Wins and losses", table.note, (drawing,), filed={"wins": table})


def needs_section(
    results: Results, metric: str, levels: Sequence[float] | None, baseline: str | None
) -> Section | None:
    """Labels needed for given values of the metric."""
    wanted = list(levels) if levels is not None else targets(results, metric)
    text = (
        f"What labeling costs: how many labels each strategy needs for a given {metric_named(metric).title}."
    )
    tables = {"labels": needs_table(results, metric, wanted, baseline)}
    return Section("labels", "Labels needed", text, tables=tables) if wanted else None


def times_section(results: Results) -> Section:
    """Seconds of selecting and training."""
    found = times(results)
    drawing = Drawing("times", figures.time_bars(found), "Mean time of one selection and one training.")
    tables = {"times": time_table(results, found)}
    if YARDSTICK in results.labels:
        tables["ratios"] = ratio_table(results, found, YARDSTICK)
    return Section("times", "Time", "What a strategy costs in computing.", (drawing,), tables)


def gallery_seed(results: Results) -> int:
    """The seed whose picks are shown: the first that all strategies have."""
    return min(shared_seeds(results, *results.labels) or [results.runs[0].seed])


def first_picks(results: Results) -> dict[str, list[int]]:
    """The ids that each strategy asked for first, in one seed, if possible the same for all."""
    found, seed = {}, gallery_seed(results)
    for label in results.labels if len(results.counts) > 1 else ():
        run = next((run for run in results.of(label) if run.seed == seed), results.of(label)[0])
        found[label] = run.cycles[1].picked[:FIRST_PICKS]
    return found


def gallery_section(results: Results) -> Section | None:
    """Show the first picks of each strategy, as far as there are previews."""
    strips = {
        label: [(f"example {i}", results.previews[i]) for i in ids if i in results.previews]
        for label, ids in first_picks(results).items()
    }
    if not any(strips.values()):
        return None
    text = (
        f"The first {FIRST_PICKS} examples that each strategy asked for in seed {gallery_seed(results)}, in the order "
        "of its picks. All had seen the same initial labels."
    )
    return Section("gallery", "What each picked first", text, strips=strips)


def repeat_section(results: Results) -> Section:
    """Commands, seeds, versions, hardware, checksums and the protocol, to be copied."""
    manifest = results.manifest
    commands = [*manifest.get("earlier_commands", ()), manifest.get("command", ())]
    lines = "\n".join(shlex.join(map(str, command)) for command in commands)
    seeds = {label: " ".join(map(str, results.seeds(label))) for label in results.labels}
    same = len(set(seeds.values())) == 1
    titles = {"versions": "Versions", "hardware": "Hardware", "data": "Data", "files": "Own files"}
    protocol = toml(spelled_out(manifest["protocol"])) if manifest.get("protocol") else ""
    listings = [
        ("Commands" if len(commands) > 1 else "Command", lines if any(commands) else ""),
        ("Seeds", next(iter(seeds.values())) if same else toml(seeds)),
        *((title, toml(manifest.get(key, {}))) for key, title in titles.items()),
        ("Protocol", protocol),
    ]
    text = "Everything needed to run this again; the same seeds give the same picks and the same numbers."
    return Section("repeat", "Repeat it", text, listings=tuple(each for each in listings if each[1]))


def spelled_out(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol whose settings that are None say "none", as TOML has no word for it."""

    def spelled(named: Any) -> Any:
        return {key: "none" if each is None else each for key, each in dict(named).items()}

    tables = {key: spelled(protocol[key]) for key in ("dataset", "model", "fit") if protocol.get(key)}
    strategies = {label: spelled(named) for label, named in protocol.get("strategies", {}).items()}
    return {**protocol, **tables, "strategies": strategies}


def varied_setting(strategies: Any, labels: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The setting in which the strategies of the most common kind differ most, and each label's value of it.

    A label that differs in something else as well is shown under its own name.
    """
    if not isinstance(strategies, Mapping):
        return "", {}
    entries = {label: flat_fields(strategies.get(label) or {}) for label in labels}
    uses = Counter(entry.get("use", label) for label, entry in entries.items())
    kind = uses.most_common(1)[0][0]
    same = {label: entry for label, entry in entries.items() if entry.get("use", label) == kind}
    keys = sorted({key for entry in same.values() for key in entry if key != "use"})
    values_of = {key: len({repr(entry.get(key)) for entry in same.values()}) for key in keys}
    setting = max(keys, key=lambda key: values_of[key], default="")
    if not setting or values_of[setting] < 2:
        return "", {}
    rests = {label: repr({**entry, setting: None}) for label, entry in same.items()}
    usual = Counter(rests.values()).most_common(1)[0][0]
    plain = [label for label in same if rests[label] == usual and setting in same[label]]
    numbers = all(isinstance(same[label][setting], int | float) for label in plain)
    plain.sort(key=lambda label: same[label][setting] if numbers else 0)
    shown = {label: shown_value(same[label][setting]) for label in plain}
    return setting, {**shown, **{label: label for label in same if label not in shown}}


def shown_value(value: Any) -> str:
    """A value of a setting, as people write it."""
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def headline(results: Results, metric: str, baseline: str | None) -> str:
    """The result in one sentence."""
    best, *others = best_first(results, metric)
    (cell,) = mean_cells([results.aubc(best, metric)], decimals(results, metric))
    percent = " %" * metric_named(metric).percent
    area = f"an area under the {metric_named(metric).title} curve of {cell.text}{percent}"
    if not others:
        said = f"{best} has {area}"
    elif best == baseline:
        said = f"No strategy beats {best}, with {area}"
    else:
        said = _lead(results, metric, baseline if baseline in others else None, best, others[0], area)
    return (said + ".").replace(" ±", "\u00a0±").replace("± ", "±\u00a0").replace(" %", "\u00a0%")


def _lead(results: Results, metric: str, baseline: str | None, best: str, second: str, area: str) -> str:
    """The first words of a headline, as strong as the lead is clear."""
    over_second = gain_over(results, metric, best, second)
    over_baseline = gain_over(results, metric, best, baseline) if baseline else Gain(best, np.empty(0))
    better = f"{_amount(results, metric, over_baseline)} better than {baseline}"
    over = f": {better}" if over_baseline.seeds else ""
    seeds = max(over_second.seeds, over_baseline.seeds)
    if seeds < FEWEST_SEEDS:
        many = ("No shared seed decides", "One seed decides nothing", "Two seeds decide nothing")[seeds]
        return f"{many} yet; {best} has the best result, {area}{over}"
    if over and not over_baseline.clear:
        return f"No strategy is clearly better than {baseline}; {best} has the best result, {area}{over}"
    if over_second.clear:
        return f"{best} comes out ahead, with {area}{over}"
    return f"{best} has the best result, but no clear lead: {area}{over.replace(':', ',')}"


def _amount(results: Results, metric: str, gain: Gain) -> str:
    text = Cell(gain.mean, digits=decimals(results, metric)).text
    return text + " points" * metric_named(metric).percent


def _support(results: Results, metric: str, gain: Gain) -> str:
    low, high = (f"{side:.{decimals(results, metric)}f}".replace("-", "−") for side in gain.interval)
    interval = f", 95 % interval {low} to {high}" if gain.seeds >= MANY_SEEDS else ""
    return f"ahead in {gain.wins} of {gain.seeds} seeds{interval}"


def details(results: Results, metric: str, baseline: str | None) -> str:
    """Return the sentences below the headline: how sure the lead is, what it saves, and who comes second."""
    best, *others = best_first(results, metric)
    seeds, last, said = len(results.of(best)), results.counts[-1], []
    if baseline in others:
        over_baseline = gain_over(results, metric, best, baseline)
        doubt = "" if over_baseline.clear else ", which may be chance"
        if over_baseline.seeds > 1:
            said.append(f"Against {baseline} it is {_support(results, metric, over_baseline)}{doubt}.")
        need = need_for_last(results, metric, best, baseline)
        if over_baseline.clear and np.isfinite(need) and round(need) < last:
            share = f"{need:.0f} labels instead of {last}, {100 * (1 - need / last):.0f} % fewer"
            said.append(f"It reaches {baseline}’s last {metric_named(metric).title} with {share}.")
    if others and others[0] != baseline:
        lead = gain_over(results, metric, best, others[0])
        support = (
            f"({best} is {_support(results, metric, lead)}){'' if lead.clear else ': too close to call'}"
        )
        behind = f", {_amount(results, metric, lead)} behind {support}" if lead.seeds > 1 else ""
        said.append(f"{others[0]} comes second{behind}.")
    if FEWEST_SEEDS <= seeds < MANY_SEEDS:
        said.append(f"{seeds} seeds are few: take the order with care.")
    return " ".join(said)
