"""A race over shards: who is jolted further is decided by what all shards together know, and no example leaves its own.

One machine is the case of one shard. A team is a shard whose rows are those of its examples that have met all jolts;
selectors pick among these as among any others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from jostle.embeddings.odds import Facts, Forecast, forecasts
from jostle.engines.scorer import Resume
from jostle.rows import Rows
from jostle.scoring.passes import Passes
from jostle.selectors import Picks, Selector
from jostle.selectors.shards import Largest, Shard, Shards

if TYPE_CHECKING:
    from jostle.embeddings.race import Race

FIRST = 3  # examples measured in full to begin with, for each pick
LEAST = 24  # and at least
LIKELY = 0.8  # examples that are expected to come so near to the squared reach meet all jolts at once
GROWTH = 3  # times as many as are measured may join them before the picks are looked at again
RUNGS = 4096  # values that a shard names at once


class Promising(NamedTuple):
    """The most promising examples of a shard."""

    promise: Tensor
    places: Tensor


class Measured(NamedTuple):
    """The examples of a shard that have met all jolts."""

    facts: Facts
    places: Tensor


class Rungs(NamedTuple):
    """Distinct values that examples of a shard have, ascending."""

    values: Tensor
    whole: bool
    """Whether these are all that it was asked for."""


class Weights(NamedTuple):
    """What examples up to some values weigh together, and how many they are."""

    sums: Tensor
    counts: Tensor


class Ranked(NamedTuple):
    """Values of examples in order, and what so many of the first weigh together."""

    values: Tensor
    weights: Tensor

    @classmethod
    def of(cls, values: Tensor, weights: Tensor) -> Ranked:
        """Put in order."""
        ordered, order = values.sort()
        return cls(ordered, torch.cat([weights.new_zeros(1), weights[order].cumsum(0)]))


class View(NamedTuple):
    """What all shards together know of what is to come, round by round."""

    round: int
    forecasts: Sequence[Forecast]
    """One after each number of heats."""
    reach: float
    """The length that a row must have to be picked."""


class Racer(NamedTuple):
    """A race among the examples of one portion of a pool."""

    race: Race
    start: int
    """The place of its first example."""
    resume: Resume

    @property
    def places(self) -> Tensor:
        """Those of all its examples."""
        return torch.arange(self.start, self.start + len(self.race.hint))


class Team(Shard):
    """Examples that race, of one portion of a pool or of several."""

    def __init__(self, racers: Sequence[Racer]) -> None:
        self.racers = list(racers)
        for racer in self.racers:
            racer.race.jolts = self.racers[0].race.jolts  # remembered once
        self.everyone = torch.cat([racer.places for racer in self.racers])
        self.expected = self.chances = torch.empty(0)
        self.ranked: dict[float | None, Ranked] = {}
        self.judged = 0  # the last round whose view was taken
        self.todo: list[Callable[[], None]] = []
        self.gather()

    def with_others(self, others: Sequence[Any]) -> Team:
        """One team of several."""
        return Team([racer for team in (self, *others) for racer in team.racers])

    def __len__(self) -> int:
        return len(self.everyone)

    def gather(self) -> None:
        """Make rows of the shard of what is measured by now."""
        rows = [racer.race.measured() for racer in self.racers]
        places = torch.cat([racer.places[racer.race.finished] for racer in self.racers])
        super().__init__(rows[0] if len(rows) == 1 else torch.cat(rows), places, checked=not len(places))

    def promising(self, count: int) -> Promising:
        """So many examples of which the clean pass promises most; of equal ones the first."""
        promise = torch.cat([racer.race.promise for racer in self.racers])
        best = promise.sort(descending=True, stable=True).indices[:count]
        return Promising(promise[best], self.everyone[best])

    def measured(self) -> Measured:
        """What is known of the examples that have met all jolts."""
        parts = [racer.race.facts(racer.race.finished) for racer in self.racers]
        return Measured(Facts(*map(torch.cat, zip(*parts, strict=True))), self.places.cpu())

    def set_out(self, places: Tensor) -> None:
        """Let these examples meet all jolts, as far as they are here."""
        for race, start, resume in self.racers:
            here = (places[(places >= start) & (places < start + len(race.hint))] - start).sort().values
            if len(here):
                self.todo.append(partial(resume, partial(race.run, here, 0, race.settings.jolts)))

    def step(self) -> bool:
        """Do the next part of what there is to run, not longer than a portion takes; whether more is left."""
        if self.todo:
            self.todo.pop(0)()
            if not self.todo:
                self.gather()
        return bool(self.todo)

    def catch_up(self) -> None:
        """Run all that there is: whoever came late was told of several rounds at once."""
        while self.step():
            pass

    def judge(self, view: View) -> None:
        """Find every example's outlook, once in a round."""
        if self.judged == view.round:
            return
        self.catch_up()
        found = [racer.race.outlook(view.forecasts, view.reach) for racer in self.racers]
        self.expected, self.chances = (torch.cat(part) for part in zip(*found, strict=True))
        self.ranked, self.judged = {}, view.round

    def order(self, cut: float | None) -> Ranked:
        """By chance, which is the weight; with a cut by what is expected, the largest first, of those beyond it."""
        if cut not in self.ranked:
            if cut is None:
                self.ranked[cut] = Ranked.of(self.chances, self.chances)
            else:
                promise = -self.expected[self.chances > cut]
                self.ranked[cut] = Ranked.of(promise, torch.ones_like(promise))
        return self.ranked[cut]

    def rungs(self, cut: float | None, low: float, high: float, most: int) -> Rungs:
        """Values above `low` and up to `high`, not more than so many."""
        values = self.order(cut).values
        values = values[(values > low) & (values <= high)].unique_consecutive()
        if len(values) <= most:
            return Rungs(values, True)
        return Rungs(values[torch.linspace(0, len(values) - 1, most).long()], False)

    def weights(self, cut: float | None, values: Tensor) -> Weights:
        """What examples up to each of these values weigh."""
        ranked = self.order(cut)
        counts = torch.searchsorted(ranked.values, values, right=True)
        return Weights(ranked.weights[counts], counts)

    def standing(self, cut: float, bar: float) -> Tensor:
        """How many of those beyond the cut are within the bar, and how many have been in each number of heats."""
        some = self.chances > cut
        levels = torch.cat([racer.race.level for racer in self.racers])[some]
        heats = len(self.racers[0].race.stops)
        return torch.cat([(-self.expected[some] <= bar).sum()[None], levels.bincount(minlength=heats)])

    def run(self, view: View, cut: float, bar: float, levels: Sequence[int]) -> None:
        """Let those beyond the cut and within the bar meet all jolts, and others at these levels one heat more.

        Whoever came late has heard of no view but those of rounds in which somebody ran.
        """
        self.judge(view)
        done = 0
        for race, _, resume in self.racers:
            mine = slice(done, done := done + len(race.hint))
            whole, waiting = -self.expected[mine] <= bar, self.chances[mine] > cut
            race.show_waiting(waiting)
            runs = waiting & (whole | torch.isin(race.level, torch.tensor(levels)))
            if runs.any():
                who = runs.nonzero()[:, 0]
                self.todo.append(partial(resume, partial(race.further, who, whole[who])))

    def begin(self, centers: Rows | None, unit: bool, gone: Sequence[int]) -> None:
        """Measure gaps of what is measured by now."""
        self.catch_up()
        super().begin(centers, unit, gone)

    def made(self) -> int:
        """Jolts that were met, over all examples."""
        return sum(int(racer.race.made.sum()) for racer in self.racers)

    def largest(self, n: int, key: int, lengths: bool) -> Largest:
        """The n longest rows of what is measured."""
        self.catch_up()
        if len(self.rows):
            return super().largest(n, key, lengths)
        nothing = torch.empty(0, dtype=torch.int64)
        return Largest(torch.empty(0, dtype=torch.float64), nothing, nothing)


class Finish(NamedTuple):
    """How a race ended."""

    picks: Picks
    passes: Passes


def race_over(
    shards: Shards, chooser: Selector, n: int, jolts: int, risk: float, seed: int, heats: int
) -> Finish:
    """Jolt in full only what may be picked, wherever it is; the picks among these are those among all.

    The chances that are borne, that an example left out would have been picked, add up to the risk at most.
    """
    size, measured = len(shards), 0
    first = first_runners(size, n)
    shards.tell("set_out", first_places(shards.ask("promising", first), first))
    for round_ in itertools.count(1):
        run_all(shards)
        finished = everything(shards.ask("measured"))
        if len(finished.hint) > measured:  # otherwise no more is known of the picks
            measured, picks = len(finished.hint), chooser.pick_over(shards, n, seed=seed)
            ahead, reach = forecasts(finished, heats), float(picks.scores[-1])
        view = View(round_, ahead, reach)
        shards.tell("judge", view)
        cut, borne, left = boundary(shards, None, risk)
        if not left:
            break
        shards.tell("run", view, cut, *next_heat(shards, view, cut, left, measured))
    made = size + sum(shards.ask("made"))
    return Finish(picks, Passes(made, size * (jolts + 1), borne))


def next_heat(shards: Shards, view: View, cut: float, left: int, measured: int) -> tuple[float, list[int]]:
    """Up to which bar examples beyond a cut meet all jolts, and from which levels the others run one heat more.

    A few examples cost as much as a batch of them: they wait for others, or are the last and run to the end. So do all
    where most are likely to, after a second look.
    """
    if left <= LEAST:
        return torch.inf, []
    bar = -LIKELY * view.reach**2
    likely, *standing = torch.stack(shards.ask("standing", cut, bar)).sum(0).tolist()
    if view.round > 1 and likely > len(shards) / 2:
        return torch.inf, []
    if likely > GROWTH * measured:  # then the picks are looked at again
        return boundary(shards, cut, GROWTH * measured, reached=True)[0], []
    many = [level for level, count in enumerate(standing) if count >= LEAST]
    return bar if likely >= LEAST else -torch.inf, many or list(range(len(standing)))


def run_all(shards: Shards) -> None:
    """Have run what there is to run, part by part, so that news come from time to time."""
    while any(shards.ask("step")):
        pass


def first_runners(size: int, n: int) -> int:
    """How many are jolted in full to begin with."""
    return min(size, max(LEAST, FIRST * n))


def first_places(found: Sequence[Promising], count: int) -> Tensor:
    """Places of the most promising examples of all shards; of equal ones the first."""
    promise, places = (torch.cat(part) for part in zip(*found, strict=True))
    order = places.argsort()
    return places[order[promise[order].sort(descending=True, stable=True).indices[:count]]]


def everything(found: Sequence[Measured]) -> Facts:
    """What all shards have measured, in the order of places."""
    order = torch.cat([each.places for each in found]).argsort()
    return Facts(*(torch.cat(part)[order] for part in zip(*(each.facts for each in found), strict=True)))


def boundary(
    shards: Shards, cut: float | None, goal: float, reached: bool = False
) -> tuple[float, float, int]:
    """The last value up to which examples weigh no more than a goal; what they weigh, and how many lie beyond.

    With `reached`, the first up to which they weigh the goal. Shards name values between two that are known to lie on
    either side, until no others are left.
    """
    low, high, whole = -torch.inf, torch.inf, False
    while not whole:
        found: list[Rungs] = shards.ask("rungs", cut, low, high, RUNGS)
        whole = all(each.whole for each in found)
        values = torch.cat(
            [torch.tensor([low, high, torch.inf], dtype=torch.float64), *(each.values for each in found)]
        ).unique()
        weighed: list[Weights] = shards.ask("weights", cut, values)
        sums, counts = (sum(part) for part in zip(*weighed, strict=True))
        last = int((sums <= goal).sum()) - 1
        low, high = float(values[last]), float(values[min(last + 1, len(values) - 1)])
    if reached and float(sums[last]) < goal:
        last += 1
    return float(values[last]), float(sums[last]), int(counts[-1] - counts[last])
