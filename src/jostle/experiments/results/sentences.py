"""What runs say in words; they claim no more than the seeds carry."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jostle.experiments.results.curves import Floats, Results, metric_named
from jostle.experiments.results.statistics import best_first, bootstrap, need_for_last, paired_areas
from jostle.experiments.results.summary import MANY_SEEDS, decimals, mean_cells
from jostle.experiments.results.tables import Cell

FEWEST_SEEDS = 3  # that can make a difference clear: with two, both agree every other time


@dataclass(frozen=True)
class Lead:
    """How far a strategy is ahead of another, seed by seed."""

    differences: Floats  # of AUBC, (seeds,); positive is better
    digits: int
    points: bool  # the metric is a share, shown in percent

    @classmethod
    def of(cls, results: Results, metric: str, label: str, other: str) -> "Lead":
        """The lead of one label over another, on the seeds that both have."""
        differences = paired_areas(results, metric, label, other)
        return cls(differences, decimals(results, metric), metric_named(metric).percent)

    @property
    def seeds(self) -> int:
        """Seeds that both have."""
        return int(self.differences.size)

    @property
    def amount(self) -> str:
        """The mean difference."""
        text = Cell(float(self.differences.mean()), digits=self.digits).text
        return text + " points" * self.points

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Of the mean difference."""
        return bootstrap(self.differences)

    @property
    def wins(self) -> int:
        """Seeds in which it is ahead."""
        return int((self.differences > 0).sum())

    @property
    def clear(self) -> bool:
        """Whether it is more than chance: by its interval, or in each of few seeds; two seeds decide nothing."""
        if self.seeds < FEWEST_SEEDS:
            return False
        return self.wins == self.seeds if self.seeds < MANY_SEEDS else self.interval[0] > 0

    @property
    def support(self) -> str:
        """Return the sentence that supports the headline."""
        text = f"ahead in {self.wins} of {self.seeds} seeds"
        if self.seeds < MANY_SEEDS:
            return text
        low, high = self.interval
        return f"{text}, 95 % interval {low:.{self.digits}f} to {high:.{self.digits}f}".replace("-", "−")


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
        over_second = Lead.of(results, metric, best, others[0])
        over_baseline = Lead.of(results, metric, best, baseline) if baseline in others else None
        said = _lead(best, area, baseline, over_second, over_baseline)
    return (said + ".").replace(" ±", "\u00a0±").replace("± ", "±\u00a0").replace(" %", "\u00a0%")


def _lead(best: str, area: str, baseline: str | None, over_second: Lead, over_baseline: Lead | None) -> str:
    """The first words of a headline, as strong as the lead is clear."""
    over = f": {over_baseline.amount} better than {baseline}" if over_baseline and over_baseline.seeds else ""
    seeds = max(over_second.seeds, over_baseline.seeds if over_baseline else 0)
    if seeds < FEWEST_SEEDS:
        many = ("No shared seed decides", "One seed decides nothing", "Two seeds decide nothing")[seeds]
        return f"{many} yet; {best} has the best result, {area}{over}"
    if over and over_baseline and not over_baseline.clear:
        return f"No strategy is clearly better than {baseline}; {best} has the best result, {area}{over}"
    if over_second.clear:
        return f"{best} comes out ahead, with {area}{over}"
    return f"{best} has the best result, but no clear lead: {area}{over.replace(':', ',')}"


def details(results: Results, metric: str, baseline: str | None) -> str:
    """Return the sentences below the headline."""
    best, *others = best_first(results, metric)
    seeds, said = len(results.of(best)), [""]
    if baseline in others:
        said.append(_against(results, metric, best, baseline))
        if Lead.of(results, metric, best, baseline).clear:
            said.append(_saving(results, metric, best, baseline))
    if others and others[0] != baseline:
        said.append(_runner_up(results, metric, best, others[0]))
    if FEWEST_SEEDS <= seeds < MANY_SEEDS:
        said.append(f"{seeds} seeds are few: take the order with care.")
    return " ".join(sentence for sentence in said if sentence)


def _against(results: Results, metric: str, best: str, baseline: str) -> str:
    lead = Lead.of(results, metric, best, baseline)
    if lead.seeds < 2:
        return ""
    return f"Against {baseline} it is {lead.support}{'' if lead.clear else ', which may be chance'}."


def _runner_up(results: Results, metric: str, best: str, second: str) -> str:
    lead = Lead.of(results, metric, best, second)
    if lead.seeds < 2:
        return f"{second} comes second."
    behind = f"{lead.amount} behind ({best} is {lead.support})"
    return f"{second} comes second, {behind}{'' if lead.clear else ': too close to call'}."


def _saving(results: Results, metric: str, best: str, baseline: str) -> str:
    """How many labels the best strategy needs for what the baseline reaches at its end."""
    need, last = need_for_last(results, metric, best, baseline), results.counts[-1]
    if np.isnan(need) or round(need) >= last:
        return ""
    share = f"{need:.0f} labels instead of {last}, {100 * (1 - need / last):.0f} % fewer"
    return f"It reaches {baseline}’s last {metric_named(metric).title} with {share}."
