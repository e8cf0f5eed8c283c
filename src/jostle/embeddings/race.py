"""Racing jolts: the same picks, while only examples that could still be picked are jolted in full.

Greedy k-center from the origin never picks a row shorter than its last gap r: the origin is a center, so a row's gap
is at most its length. Hence, if every row that was left out is shorter than the last gap r of the picks among the
measured ones, those picks are the picks among all: step by step, each pick's gap is at least r, and no row left out has
one. The longest rows are found in the same way. What is left to chance is whether a row that was not measured in full
is shorter than r. It is judged by what the jolts so far showed, by the clean output and by how much goes through the
network, through a regression over the examples that were measured in full; the chances that are borne add up to `risk`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jostle.core import Costs
from jostle.embeddings.again import Again, example_bytes, in_arrays
from jostle.embeddings.jolts import Jolts
from jostle.embeddings.odds import Facts, Forecast, logarithm
from jostle.embeddings.row_store import Movements, check_moved
from jostle.embeddings.teams import Racer, Team, first_runners, race_over
from jostle.inputs import Inputs, arrays, count
from jostle.plumbing.progress import Advance
from jostle.rows.mapped import release
from jostle.scoring.activity import activity
from jostle.scoring.request import Request
from jostle.selectors import Picks, Selector, selector
from jostle.selectors.shards import Here

if TYPE_CHECKING:
    from jostle.embeddings.deviations import Deviations

AUTO = "auto"  # race where it saves time
RISK = 0.0005  # that is borne unless told otherwise
SMALL = 10**11  # products of a weight and a number that are made in less time than a race needs to think
READING = 1000  # such products that are made while a byte of a number is decoded
MAY_LOSE = 0.05  # of the time of all jolts, at most
DRAWS = 1000  # such products for each number of a jolt, or drawing them again would show
BOOKS = 12  # numbers that are known of each example, and looked at, beside its lengths heat by heat
WORD = 8  # bytes of each
AT_ONCE = 4096  # examples whose chances are found at once
FEW = 2**24  # numbers of rows that may be held twice
WORTH = 4  # a race is worth its trouble from so many examples for each pick


@dataclass(frozen=True)
class RememberedJolts(Jolts):
    """Jolts whose directions are kept once drawn, for those who come back to them."""

    kept: dict[int, list[Tensor]] = field(default_factory=dict)

    def draw(self, k: int, into: list[Tensor]) -> None:
        """The k-th direction, drawn or remembered."""
        if k in self.kept:
            for tensor, kept in zip(into, self.kept[k], strict=True):
                tensor.copy_(kept)
        else:
            super().draw(k, into)
            self.kept[k] = [tensor.detach().clone() for tensor in into]


class Race:
    """What is known of every example's movements while they race."""

    def __init__(self, settings: Deviations, request: Request, again: Again | None = None) -> None:
        self.settings, self.request, self.again = settings, request, again
        self.advance: Advance = nothing
        self.shown = 0.0  # examples that a bar counts as done
        self.watch = settings.watch(request)
        self.jolts = jolts_of(settings, request)
        self.stops = stops(settings.jolts)
        self.clean, active, hints = request.compute(self.look, what="outputs")  # (n, d), (n, 2), (n,)
        self.activity, self.hint = active.cpu(), hints.cpu()
        n, self.width = self.clean.shape  # d
        self.squares = torch.zeros(
            n, len(self.stops), dtype=torch.float64
        )  # of the movements made, heat by heat
        self.made = torch.zeros(n, dtype=torch.int64)  # jolts that each example has met
        self.place = torch.full((n,), -1)  # where an example's movements lie in `rows`
        self.owner = torch.empty(0, dtype=torch.int64)  # whose movements lie there
        self.movements = Movements.of(settings, request, n, self.width, settings.stretch(self.jolts))

    @property
    def between_classes(self) -> bool:
        """Whether probabilities of classes are watched that exclude each other."""
        moves = self.settings.what_moves(self.request)
        return moves == "probabilities" and self.request.task.name == "classification"

    @property
    def promise(self) -> Tensor:
        """How far examples may move, by what the clean pass showed, (n,)."""
        return promised(self.hint, self.activity)

    @property
    def rows(self) -> Tensor:
        """Movements of those that were jolted at all, those who met all jolts in front."""
        return self.movements.tensor[: len(self.owner)]

    def look(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """What is watched at rest; how much goes through the network, (n, 2); and what the clean output says of the
        squared length to come, (n,).
        """
        with activity(self.request.network.module) as seen:
            watched = self.watch(inputs)
        active, expected = liveliness(seen, inputs).to(watched.device), self.expected(watched)
        if self.again is not None:
            self.again.keep(inputs, promised(expected, active))
        return watched, active, expected

    def expected(self, watched: Tensor) -> Tensor:
        """Logarithm of what the clean output says of the squared length, up to a constant; 0 where it says nothing.

        Probabilities move as their logits do, times the derivative of the softmax or the sigmoid.
        """
        p = watched.double()  # (n, c)
        if self.settings.what_moves(self.request) != "probabilities":
            return p.new_zeros(len(p))
        squares = p.square().sum(1)
        if self.between_classes:  # squared length of diag(p) - p p'
            speeds = squares - 2 * p.pow(3).sum(1) + squares.square()
        else:
            speeds = (p * (1 - p)).square().sum(1)
        return logarithm(speeds) - (logarithm(squares) if self.settings.normalize else 0)

    @torch.no_grad()
    def run(self, who: Tensor, start: int, stop: int) -> None:
        """Let these examples meet the jolts from `start` up to `stop`."""
        who, batches = self.batches(who)
        fresh = who[self.place[who] < 0]
        self.place[fresh] = torch.arange(len(self.owner), len(self.owner) + len(fresh))
        self.owner = torch.cat([self.owner, fresh])
        done = 0
        for chunk in self.settings.chunks(self.request, batches, None, len(who)):
            here = who[done : done + chunk.size]
            clean = self.clean[here].split([count(inputs) for inputs in chunk.inputs])
            for k in range(start, stop):
                with self.settings.jolted(self.jolts, k, self.watch) as movement:
                    moved = torch.cat([movement(*pair) for pair in zip(chunk.inputs, clean, strict=True)])
                self.put(here, k, moved * self.movements.scale)
                self.show(self.shown + len(here) / self.settings.jolts)
            done += len(here)
        self.made[who] = stop
        self.request.check_finite(~self.squares.isfinite().all(1), "jolted outputs", self.request.pool)

    def show(self, done: float) -> None:
        """Let the bar stand at so many examples, and never go back."""
        done = min(max(done, self.shown), float(len(self.hint)))
        self.advance(done - self.shown)
        self.shown = done

    def show_waiting(self, waiting: Tensor) -> None:
        """Let the bar stand where all is done but what examples that are still in the race have to meet."""
        still = self.settings.jolts - self.made[waiting]
        self.show(len(self.hint) - int(still.sum()) / self.settings.jolts)

    def batches(self, who: Tensor) -> tuple[Tensor, Iterator[Inputs]]:
        """Some examples in the order in which they come, and their prepared micro-batches: held, or read again."""
        if self.again is not None:
            return self.again.batches(who)
        return who, self.request.batches(self.request.pool.take(who))

    def put(self, who: Tensor, k: int, moved: Tensor) -> None:
        """The k-th movements of some examples."""
        columns = slice(k * self.width, (k + 1) * self.width)
        self.rows[self.place[who], columns] = moved.to(self.rows.dtype)
        self.squares[who, bisect_right(self.stops, k)] += moved.double().square().sum(1).cpu()
        release(self.movements.tensor)

    @property
    def finished(self) -> Tensor:
        """Positions of the examples that met all jolts, in order."""
        return (self.made == self.settings.jolts).nonzero()[:, 0]

    def measured(self) -> Tensor:
        """Movements of the finished ones, in order; those of others come to lie behind them."""
        late = (self.made[self.owner] < self.settings.jolts).long()
        order = (late * len(self.hint) + self.owner).argsort()
        self.arrange(order)
        return self.rows[: len(order) - int(late.sum())]

    def arrange(self, order: Tensor) -> None:
        """Lay movements out in this order of their places, in place: they may take all memory that there is."""
        permute(self.rows[: len(order)], order)
        self.owner[: len(order)] = self.owner[order]
        self.place[self.owner] = torch.arange(len(self.owner))

    def facts(self, who: Tensor) -> Facts:
        """What is known of some examples."""
        clean = self.clean[who] if self.between_classes else self.clean[who, :0]
        roots = clean.detach().cpu().double().clamp(min=0).sqrt()
        return Facts(self.hint[who], self.activity[who], self.squares[who], roots)

    def outlook(self, forecasts: Sequence[Forecast], reach: float) -> tuple[Tensor, Tensor]:
        """For every example the squared length to be expected, and the chance that it reaches a length, (n,) both.

        An example that has met all jolts has no chance left: it is measured.
        """
        expected, chances = self.squares.sum(1), torch.zeros_like(self.hint)
        for start, forecast in zip([0, *self.stops], forecasts, strict=False):
            at = (self.made == start).nonzero()[:, 0]
            for some in at.split(AT_ONCE) if len(at) else ():
                expected[some], chances[some] = map(rounded, forecast.outlook(self.facts(some), reach))
        return expected, chances

    def further(self, who: Tensor, whole: Tensor) -> None:
        """Let examples meet the jolts of their next heat; with `whole`, (n,), all that they have not met.

        Those who come from behind join the others, so that micro-batches are full. What would have to be read for each
        heat meets all jolts at once.
        """
        near = torch.ones_like(whole) if self.again is None else self.again.has(who)
        if not near.all():
            self.run(who[~near], 0, self.settings.jolts)
        who, whole = who[near], whole[near]
        joins = self.level[who]
        leaves = torch.where(whole, len(self.stops), joins + 1)
        met = [0, *self.stops]
        for start, stop in pairwise(torch.cat([joins, leaves]).unique().tolist()):
            at = who[(joins <= start) & (stop <= leaves)]
            if len(at):
                self.run(at, met[start], met[stop])

    @property
    def level(self) -> Tensor:
        """How many heats each example has been in, (n,)."""
        return torch.searchsorted(torch.tensor([0, *self.stops]), self.made)


def raced(settings: Deviations, request: Request, n: int, chooser: Selector) -> Picks:
    """The n picks among rows of all examples that may be picked; the request is told what that took."""
    race = Race(settings, request, Again(request, request.room.buffer(settings.buffer_bytes)))
    with torch.no_grad(), request.progress(f"racing{race.movements.place}", len(race.hint)) as race.advance:
        team = Team([Racer(race, 0, lambda work: work())])
        finish = race_over(
            Here([team]), chooser, n, settings.jolts, risk_of(settings), request.seed, len(race.stops)
        )
        race.show(len(race.hint))
    request.passes = finish.passes
    check_moved(bool(race.squares.any()))
    return finish.picks


def risk_of(settings: Deviations) -> float:
    """The chance that a pick is another, as far as it is borne."""
    return settings.race if isinstance(settings.race, float) else RISK


def nothing(steps: float) -> None:
    """No bar to advance."""


def stops(jolts: int) -> list[int]:
    """How many jolts have been met after each heat, twice as many each time: 1, 2, 4, 8, ..., all."""
    met = [1]
    while met[-1] < jolts:
        met.append(min(jolts, 2 * met[-1]))
    return met


def jolts_of(settings: Deviations, request: Request) -> Jolts:
    """The jolts, remembered where that takes no more memory than inputs may."""
    drawn = settings.jolts_of(request)
    return RememberedJolts(**vars(drawn)) if remembered(settings, request, drawn) else drawn


def remembered(settings: Deviations, request: Request, jolts: Jolts) -> int:
    """Bytes of all directions where they are kept; 0 where they are drawn each time."""
    needed = sum(parameter.copy.nbytes for parameter in jolts.moving) * settings.jolts
    return needed if needed <= request.room.buffer(settings.buffer_bytes) else 0


def no_race(settings: Deviations, request: Request, n: int) -> str:
    """Why everything is jolted though a race was allowed; nothing where jolts race."""
    if why := no_race_of(settings, request, len(request.pool), n):
        return why
    if settings.race == AUTO and slow_to_read(settings, request):
        return "inputs would be read twice, which may take longer than jolts: raise buffer_bytes to hold them"
    return ""


def no_race_of(settings: Deviations, request: Request, size: int, n: int) -> str:
    """The same for a pool of some size whose inputs are at hand or can be read again."""
    chooser = selector(settings.selector)
    if chooser.reach(torch.ones(1, 1), 1) is None:
        return f"{type(chooser).__name__} may pick any row, however short"
    if settings.start == "labeled":
        return "from start='labeled' any row may be picked, however short"
    if settings.project is not None or settings.rows_file is not None:
        return "project= and rows_file= are for rows of all examples"
    if settings.parameters is not None:
        return "jolts of some of the parameters are cheap"
    if settings.jolts < 2 or WORTH * n > size:
        return f"{n:,} of {size:,} examples after {settings.jolts} jolts leave nothing to save"
    if settings.race == AUTO and small(settings, request, size):
        return "that takes less time here than a race would"
    return ""


def raced_costs(settings: Deviations, request: Request, n: int, plain: Costs) -> Costs:
    """What a race takes, given what all jolts take."""
    size, item = len(request.pool), request.row_type.itemsize
    clean = size * (plain.width // settings.jolts) * item
    books = WORD * size * (len(stops(settings.jolts)) + BOOKS)
    directions = remembered(settings, request, settings.jolts_of(request))
    held = Again.taken(request, request.room.buffer(settings.buffer_bytes))
    return replace(
        plain,
        fewest=size + first_runners(size, n) * settings.jolts,
        working=plain.working + clean + books + directions + held,
        notes=("jolts race: passes, time and rows are at most these, and mostly a fraction of them",),
    )


def small(settings: Deviations, request: Request, size: int) -> bool:
    """Whether all jolts cost less than a race may lose: it thinks, and draws noise again that is not remembered."""
    work, drawn = request.network.work * size, settings.jolts_of(request)
    noisy = not remembered(settings, request, drawn) and work < DRAWS * drawn.entries
    return noisy or work * settings.jolts < SMALL


def slow_to_read(settings: Deviations, request: Request) -> bool:
    """Whether reading examples a second time, where they are not held, might cost what a race may lose."""
    each, room = example_bytes(request), request.room.buffer(settings.buffer_bytes)
    if in_arrays(request.pool) or each * len(request.pool) <= room:
        return False
    return READING * each > MAY_LOSE * settings.jolts * request.network.work


def promised(hint: Tensor, active: Tensor) -> Tensor:
    """The logarithm of the squared length that a clean pass lets expect, up to a constant, (n,)."""
    return hint + active[:, 0]


def rounded(values: Tensor) -> Tensor:
    """Within a percent: copies of an example, alike but for rounding, run or stay together and tie as ever."""
    mantissas, exponents = torch.frexp(values)
    return torch.ldexp((mantissas * 128).round() / 128, exponents)


def permute(rows: Tensor, order: Tensor) -> None:
    """rows[order], in place: along its cycles, so that one row is held beside them, unless they are few."""
    if rows.numel() <= FEW:
        rows.copy_(rows[order])
        return
    source = order.tolist()
    for start in range(len(source)):
        if source[start] == start:
            continue
        held, at = rows[start].clone(), start
        while source[at] != start:
            rows[at] = rows[source[at]]
            source[at], at = at, source[at]
        rows[at] = held
        source[at] = at


def liveliness(seen: list[Tensor], inputs: Inputs) -> Tensor:
    """Of the squared lengths of what layers were given, or of the inputs where nothing was seen, the logarithm of the
    sum, which the largest layers make, and the mean logarithm, (n, 2).
    """
    size = count(inputs)
    given = [lengths for lengths in seen if len(lengths) == size] or [
        array.flatten(1).double().square().sum(1)
        for array in arrays(inputs)
        if array.is_floating_point() and array.ndim > 1
    ]
    found = torch.stack(given, 1) if given else torch.ones(size, 1, dtype=torch.float64)  # (n, layers)
    total = found.sum(1)
    some = torch.where(found > 0, found, 1.0)
    return torch.stack([torch.where(total > 0, total, 1.0).log(), some.log().mean(1)], 1)
