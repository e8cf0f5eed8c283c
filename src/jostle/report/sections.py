"""The chapters of a report; what several of them show is computed once and given to all."""

from collections.abc import Mapping, Sequence

import numpy as np

from jostle.report import figures
from jostle.report.page import Drawing, Section, strip
from jostle.report.settings import varied_setting
from jostle.results import summary
from jostle.results.curves import Results
from jostle.results.metrics import metric_named
from jostle.results.needs import targets
from jostle.results.pairs import gains, shared_seeds
from jostle.results.previews import FIRST_PICKS, Preview, first_picks, gallery_seed
from jostle.results.ranks import win_matrix
from jostle.results.times import times

YARDSTICK = "coreset"  # the strategy whose selection time others are compared with, as in the paper's table


def curves_section(results: Results, metric: str, baseline: str | None) -> Section:
    """Learning curves, and what each strategy gains along them."""
    caption = _curves_caption(metric_named(metric).title, seed_counts(results))
    drawings = [Drawing("learning-curves", figures.learning_curves(results, metric), caption)]
    if baseline and len(results.labels) > 1:
        caption = (
            f"What each strategy gains over {baseline} on the same seeds; {_gain_lines(results, baseline)}"
        )
        drawings.append(Drawing("gain-curves", figures.gain_curves(results, metric, baseline), caption))
    text = (
        "How good the model is after each round of labelling. All strategies of one seed start from the same "
        "labelled examples and the same initial weights."
    )
    return Section("curves", "Learning curves", text, tuple(drawings))


def seed_counts(results: Results) -> list[int]:
    """The numbers of seeds that strategies have, in order, each once."""
    return sorted({len(results.of(label)) for label in results.labels})


def _curves_caption(title: str, seeds: Sequence[int]) -> str:
    first = title[0].upper() + title[1:]
    if seeds[-1] == 1:
        return f"{first} of a single seed."
    shaded = [
        *(["the 95 % confidence band of each mean"] if seeds[-1] > 2 else []),
        *(["the range of two seeds"] if 2 in seeds else []),
    ]
    return f"{first}, averaged over seeds. Shaded: {', or '.join(shaded)}."


def _gain_lines(results: Results, baseline: str) -> str:
    """What is drawn around the mean gains; a single seed is its own mean."""
    others = [label for label in results.labels if label != baseline]
    seeds = {len(shared_seeds(results, label, baseline)) for label in others}
    drawn = [
        *(["thin lines: single seeds"] if any(1 < n < figures.DRAWN_ONE_BY_ONE for n in seeds) else []),
        *(["shaded: 95 % confidence band"] if max(seeds) >= figures.DRAWN_ONE_BY_ONE else []),
        *(["grey: the others"] if len(others) > 1 else []),
    ]
    return "; ".join(drawn) + "."


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
    text = "One number for a whole curve: its mean height over the labelling budget."
    interval = "the 95 % confidence interval of the mean"
    caption = _dots_caption("AUBC of each seed", interval, seed_counts(results))
    drawing = Drawing("aubc", figures.aubc_dots(results, metric), caption)
    table = summary.aubc_table(results, metric)
    return Section("aubc", "Area under the budget curve", text, (drawing,), {"aubc": table})


def _dots_caption(dots: str, interval: str, seeds: Sequence[int]) -> str:
    """What a figure of dots shows: bars only where there are enough seeds for an interval."""
    if seeds[-1] == 1:
        return f"{dots} (diamond)."
    if seeds[-1] < figures.INTERVAL_SEEDS:
        return f"{dots} (dots) and their mean (diamond); {seeds[-1]} seeds have no interval worth drawing."
    some = (
        f" where there are {figures.INTERVAL_SEEDS} seeds or more"
        if seeds[0] < figures.INTERVAL_SEEDS
        else ""
    )
    return f"{dots} (dots), their mean (diamond), and {interval} (bar){some}."


def gains_section(results: Results, metric: str, reference: str) -> Section | None:
    """Differences to a reference, seed by seed."""
    found = gains(results, metric, reference)
    seeds = sorted({gain.differences.size for gain in found} - {0})
    if not seeds:
        return None
    text = f"Seed by seed, so that a lucky start helps no one: AUBC minus that of {reference}."
    caption = _dots_caption("Difference of each seed", "the bootstrap interval of the mean", seeds)
    figure = figures.gain_dots(found, reference, metric, results.labels)
    table = summary.gain_table(results, metric, reference, found)
    drawing = Drawing("gains", figure, caption)
    return Section("gains", f"Gain over {reference}", text, (drawing,), {"gains": table})


def wins_section(results: Results, metric: str) -> Section | None:
    """Who beats whom, as a figure; as a table in files only."""
    wins = win_matrix(results, metric)
    few = seed_counts(results)[-1] < summary.MANY_SEEDS
    if np.isnan(wins).all() or (few and not np.nansum(wins)):  # nothing that the seeds decide
        return None
    caption = "Row beats column; the least beaten first."
    drawing = Drawing("wins", figures.win_map(results.labels, wins), caption)
    table = summary.win_table(results, wins)
    return Section("wins", "Wins and losses", summary.WIN_NOTE, (drawing,), filed={"wins": table})


def needs_section(
    results: Results, metric: str, levels: Sequence[float] | None, baseline: str | None
) -> Section | None:
    """Labels needed for given values of the metric."""
    wanted = list(levels) if levels is not None else targets(results, metric)
    if not wanted:
        return None
    title = metric_named(metric).title
    text = f"What labelling costs: how many labels each strategy needs for a given {title}."
    table = summary.needs_table(results, metric, wanted, baseline)
    return Section("labels", "Labels needed", text, tables={"labels": table})


def times_section(results: Results) -> Section:
    """Seconds of selecting and training."""
    found = times(results)
    drawing = Drawing("times", figures.time_bars(found), "Mean time of one selection and one training.")
    tables = {"times": summary.time_table(results, found)}
    if YARDSTICK in results.labels:
        tables["ratios"] = summary.ratio_table(results, found, YARDSTICK)
    return Section("times", "Time", "What a strategy costs in computing.", (drawing,), tables)


def gallery_section(results: Results, previews: Mapping[int, Preview]) -> Section | None:
    """What each strategy picked first, as far as there are previews."""
    strips = tuple(strip(label, ids, previews) for label, ids in first_picks(results).items())
    if not any(each.pictures or each.texts for each in strips):
        return None
    text = (
        f"The first {FIRST_PICKS} examples that each strategy asked for in seed {gallery_seed(results)}, in the order "
        "of its picks. All had seen the same initial labels."
    )
    return Section("gallery", "What each picked first", text, strips=strips)
