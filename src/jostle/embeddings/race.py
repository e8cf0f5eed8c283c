"""Racing jolts: the same picks, while only examples that could still be picked are jolted in full.

Greedy k-center from the origin never picks a row shorter than its last gap r: the origin is a center, so a row's gap
is at most its length. Hence, if every row that was left out is shorter than the last gap r of the picks among the
measured ones, those picks are the picks among all: step by step, each pick's gap is at least r, and no row left out has
one. The longest rows are found in the same way. What is left to chance is whether a row that was not measured in full
is shorter than r. It is judged by what the jolts so far showed, by the clean output and by the size of the input,
through a regression over the examples that were measured in full; the chances that are borne add up to `risk`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jostle.embeddings.jolts import Jolts
from jostle.inputs import Inputs, arrays, count
from jostle.rows.vectors import non_finite
from jostle.scoring.request import Passes, Request
from jostle.selectors import Selector

if TYPE_CHECKING:
    from jostle.embeddings.deviations import Deviations

FIRST = 2  # examples measured in full to begin with, for each pick
LEAST = 24  # and at least
SHARE = 0.5  # of those still in the race that run in a round, the most promising ones
TIE = 1 - 1e-6  # a row as long as the last gap may be picked: lengths this near count as reaching it
HEAVY = 4.0  # errors are taken to spread at least as far as a normal law would with its largest this far out


@dataclass(frozen=True)
class RememberedJolts(Jolts):
    """Jolts whose directions are kept once drawn, for those who come back to them."""

    kept: dict[int, list[Tensor]] = field(default_factory=dict)

    def draw(self, k: int, into: list[Tensor]) -> None:
        """The k-th direction, drawn or remembered."""
        if k not in self.kept:
            super().draw(k, into)
            self.kept[k] = [tensor.detach().clone() for tensor in into]
        for tensor, kept in zip(into, self.kept[k], strict=True):
            tensor.copy_(kept)


class Race:
    """What is known of every example's movements while they race."""

    def __init__(self, settings: Deviations, request: Request) -> None:
        self.settings, self.request = settings, request
        self.watch = settings.watch(request)
        self.jolts = settings.jolts_of(request)
        weight = sum(p.copy.nbytes for p in self.jolts.moving) * settings.jolts
        if weight <= settings.buffer_bytes:
            self.jolts = RememberedJolts(**vars(self.jolts))
        self.width = settings.width(request, self.watch)  # d
        self.check_room(len(request.pool), 0)
        self.clean, sizes = request.compute(self.look, what="outputs")  # (n, d), (n,)
        self.sizes = sizes.double().cpu()
        n, K = len(self.clean), settings.jolts
        self.hint = self.expected()  # (n,)
        self.squares = torch.zeros(n, K, dtype=torch.float64)  # squared lengths of the movements made
        self.made = torch.zeros(n, dtype=torch.int64)  # jolts that each example has met
        self.place = torch.full((n,), -1)  # where an example's movements lie in `rows`
        self.rows = self.clean.new_zeros(0, K * self.clean.shape[1])

    def check_room(self, seen: int, jolted: int) -> None:
        """Refuse more examples than memory holds: clean outputs of some, movements of others, which grow in a copy."""
        what = f"{seen:,} clean outputs and movements of {jolted:,} examples that race, {self.width:,} numbers each"
        self.settings.check_room(self.request, (seen + 2 * jolted * self.settings.jolts) * self.width, what)

    def look(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """What is watched at rest, and logarithms of the inputs' squared lengths, (n,): what is large moves far."""
        watched = self.watch(inputs)
        return watched, logarithm(squared_lengths_of(inputs, watched))

    def expected(self) -> Tensor:
        """Logarithm of what the clean output says of the squared length, up to a constant; 0 where it says nothing.

        Probabilities move as their logits do, times the derivative of the softmax or the sigmoid.
        """
        p = self.clean.double().cpu()  # (n, c)
        if self.settings.what_moves(self.request) != "probabilities":
            return torch.zeros(len(p), dtype=torch.float64)
        squares = p.square().sum(1)
        if self.request.task.name == "classification":  # squared length of diag(p) - p p'
            speeds = squares - 2 * p.pow(3).sum(1) + squares.square()
        else:
            speeds = (p * (1 - p)).square().sum(1)
        return logarithm(speeds) - (logarithm(squares) if self.settings.normalize else 0)

    def run(self, who: Tensor, start: int, stop: int) -> None:
        """Let these examples meet the jolts from `start` up to `stop`."""
        fresh = who[self.place[who] < 0]
        self.place[fresh] = torch.arange(len(self.rows), len(self.rows) + len(fresh))
        self.check_room(len(self.clean), len(self.rows) + len(fresh))
        self.rows = torch.cat([self.rows, self.rows.new_zeros(len(fresh), self.rows.shape[1])])
        width = self.clean.shape[1]
        done = 0
        runners = self.request.batches(self.request.pool.take(who))
        for chunk in self.settings.chunks(self.request, runners, None, len(who)):
            here = who[done : done + chunk.size]
            clean = self.clean[here].split([count(inputs) for inputs in chunk.inputs])
            for k in range(start, stop):
                with self.settings.jolted(self.jolts, k, self.watch) as movement:
                    moved = torch.cat([movement(*pair) for pair in zip(chunk.inputs, clean, strict=True)])
                moved = moved * self.settings.stretch(self.jolts)
                self.rows[self.place[here], k * width : (k + 1) * width] = moved.to(self.rows.dtype)
                self.squares[here, k] = moved.double().square().sum(1).cpu()
            done += len(here)
        self.made[who] = stop

    @property
    def finished(self) -> Tensor:
        """Positions of the examples that met all jolts, in order."""
        return (self.made == self.settings.jolts).nonzero()[:, 0]

    def measured(self) -> Tensor:
        """Movements of the finished ones, in order."""
        return self.rows[self.place[self.finished]]

    def outlook(self, reach: float) -> tuple[Tensor, Tensor]:
        """For every example the squared length to be expected, and the chance that it reaches a length, (n,) both."""
        expected = self.squares.sum(1)
        chances = torch.zeros_like(expected)
        for level in self.made.unique().tolist():
            if level < self.settings.jolts:
                who = (self.made == level).nonzero()[:, 0]
                rest, spread = self.forecast(who, level)
                missing = (TIE * reach) ** 2 - expected[who]
                chances[who] = tail((logarithm(missing) - rest) / spread, len(self.finished))
                chances[who[missing <= 0]] = 1.0
                expected[who] += rest.exp()
        return expected, chances

    def forecast(self, who: Tensor, level: int) -> tuple[Tensor, float]:
        """Logarithm of the squared length still to come, (n,), and the spread of its errors.

        In proportion to what the clean output says, corrected by the size of the input and by what came up to this
        level: a line through the finished ones.
        """
        finished = self.finished
        known = [torch.ones_like(self.hint), self.sizes]
        if level:
            known.append(logarithm(self.squares[:, :level].sum(1)) - self.hint)
        columns = torch.stack(known, 1)  # (n, 2 or 3)
        goal = logarithm(self.squares[finished, level:].sum(1)) - self.hint[finished]
        line = torch.linalg.lstsq(columns[finished], goal[:, None], driver="gelsd").solution[:, 0]
        errors = goal - columns[finished] @ line
        freedom = max(1, len(finished) - columns.shape[1])
        spread = max(float(errors.square().sum() / freedom) ** 0.5, float(errors.max()) / HEAVY, 1e-9)
        return columns[who] @ line + self.hint[who], spread


def raced(
    settings: Deviations, request: Request, n: int, selector: Selector, risk: float
) -> tuple[Tensor, Tensor]:
    """Positions and rows of all examples that may be among the n picks; the request is told what that took."""
    race = Race(settings, request)
    size, K = len(race.hint), settings.jolts
    with torch.no_grad(), request.progress("racing", size) as advance:
        runners = race.hint.topk(min(size, max(LEAST, FIRST * n))).indices.sort().values
        race.run(runners, 0, K)
        done = 0
        while True:
            advance(len(race.finished) - done)
            done = len(race.finished)
            reach = selector.reach(race.measured(), n)
            assert reach is not None, "only selectors that leave short rows alone race"
            expected, chances = race.outlook(reach)
            contending = contenders(chances, risk)
            if not len(contending):
                break
            count = min(len(contending), max(FIRST * n, round(SHARE * len(contending))))
            runners = contending[expected[contending].topk(count).indices].sort().values
            heats(race, runners, reach, risk / size)
        advance(size - done)
    request.passes = Passes(size + int(race.made.sum()), size * (K + 1), float(chances.sum()))
    finished, rows = race.finished, race.measured()
    bad = torch.zeros(size, dtype=torch.bool)
    bad[finished] = non_finite(rows)
    request.check_finite(bad, "jolted outputs", request.pool)
    return finished, rows


def heats(race: Race, runners: Tensor, reach: float, risk: float) -> None:
    """Twice as many jolts from heat to heat for those of the runners that still have a chance to reach a length."""
    K = race.settings.jolts
    for start, stop in pairwise([0, *(2**power for power in range(K.bit_length()) if 2**power < K), K]):
        at = runners[race.made[runners] == start]
        if start and len(at):
            at = at[race.outlook(reach)[1][at] > risk]
        if len(at):
            race.run(at, start, stop)


def contenders(chances: Tensor, risk: float) -> Tensor:
    """Positions that cannot be left out: the chances of all others add up to the risk at most."""
    order = chances.argsort()
    borne = int((chances[order].cumsum(0) <= risk).sum())
    return order[borne:].sort().values


def tail(steps: Tensor, known: int) -> Tensor:
    """The chance that an error exceeds so many spreads, by Student's distribution."""
    from scipy.stats import t

    return torch.from_numpy(t.sf(steps.numpy(), df=max(1, known - 3)))


def squared_lengths_of(inputs: Inputs, watched: Tensor) -> Tensor:
    """Squared lengths of the numbers in inputs, (n,); 1 where there are none, as in texts."""
    total = torch.zeros(len(watched), dtype=torch.float64, device=watched.device)
    for array in arrays(inputs):
        if array.is_floating_point():
            total += array.flatten(1).double().square().sum(1)
    return torch.where(total > 0, total, 1.0)


def logarithm(values: Tensor) -> Tensor:
    """The logarithm, kept away from that of 0."""
    return values.clamp(min=torch.finfo(torch.float64).tiny).log()
