"""How likely an example that has not met all jolts would reach a length: a regression over those that have."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

TIE = 1 - 1e-6  # a row as long as the last gap may be picked: lengths this near count as reaching it
FREEDOM = 30  # degrees of it, at most: errors have heavier tails than a normal law,
MANY = 10  # unless so many errors for each degree are known
HEAVY = 4.0  # errors are taken to spread at least as far as a normal law would with its largest this far out
DIRECTIONS = 15  # of classes, at most, whose pairs are told apart
RIDGE = 0.1  # a pair of classes may differ from the others by three times as much as examples in it do
ODD = 0.25  # the least spread of errors where clean outputs say what is to come: of odd examples they do not
FLAT = 1e-12  # of the largest eigenvalue: directions in which examples do not differ


class Facts(NamedTuple):
    """What is known of some examples."""

    hint: Tensor
    """What the clean output says of the squared length to come, its logarithm, (n,)."""
    activity: Tensor
    """Of the squared lengths of what layers are given: the logarithm of the sum and the mean logarithm, (n, 2)."""
    squares: Tensor
    """Squared lengths of the movements made, heat by heat, (n, heats)."""
    roots: Tensor
    """Of the clean probabilities, (n, classes); (n, 0) where something else is watched."""

    def axes(self) -> Tensor:
        """Directions in which the roots mostly lie, (classes, at most DIRECTIONS)."""
        classes = self.roots.shape[1]
        if classes <= DIRECTIONS:
            return torch.eye(classes, dtype=self.roots.dtype)
        ways: Tensor = torch.linalg.eigh(self.roots.T @ self.roots).eigenvectors
        return ways[:, -DIRECTIONS:]

    def known(self, heats: int, axes: Tensor) -> Tensor:
        """What a forecast after so many heats goes by, (n, columns)."""
        columns = [torch.ones_like(self.hint), *self.activity.T]
        if heats:
            columns.append(logarithm(self.squares[:, :heats].sum(1)) - self.hint)
        return torch.cat([torch.stack(columns, 1), pairs(self.roots @ axes)], 1)


class Forecast(NamedTuple):
    """What is still to come of a squared length after some heats.

    In proportion to what the clean output says, corrected by the activity, by what has come so far and by the classes
    between which the example lies: a jolt moves all that lie between the same two much alike.
    """

    heats: int
    axes: Tensor
    weights: Tensor
    doubts: Tensor
    """What is known times these has the length of what it adds to the spread, (columns, rank)."""
    spread: float
    """Of the errors of the logarithm."""
    freedom: float
    """Degrees of it, of Student's distribution of the errors."""

    @classmethod
    def through(cls, finished: Facts, heats: int, axes: Tensor) -> Forecast:
        """The one through examples that have met all jolts."""
        known = finished.known(heats, axes)
        goal = logarithm(finished.squares[:, heats:].sum(1)) - finished.hint
        gram, shrunk = known.T @ known, pairs(axes).shape[1]
        gram.diagonal()[known.shape[1] - shrunk :] += RIDGE
        sizes, ways = torch.linalg.eigh(gram)
        doubts = (ways / sizes.clamp(min=0).sqrt())[:, sizes > FLAT * sizes[-1]]
        weights = doubts @ (doubts.T @ (known.T @ goal))
        pulls = (known @ doubts).square().sum(1)  # of each example on its own forecast, within 0 and 1
        errors = (goal - known @ weights) / (1 - pulls).clamp(min=1e-3).sqrt()
        least = ODD if finished.hint.any() else 1e-9
        spread = max(float(errors.square().mean()) ** 0.5, float(errors.max()) / HEAVY, least)
        left = float(len(goal) - pulls.sum())
        return cls(heats, axes, weights, doubts, spread, max(1.0, min(left, max(FREEDOM, len(goal) / MANY))))

    def outlook(self, facts: Facts, reach: float) -> tuple[Tensor, Tensor]:
        """For examples after these heats, the squared length to be expected and the chance to reach a length, (n,)."""
        from scipy.special import stdtr

        made, known = facts.squares.sum(1), facts.known(self.heats, self.axes)
        rest = known @ self.weights + facts.hint
        spread = self.spread * (1 + (known @ self.doubts).square().sum(1)).sqrt()
        missing = (TIE * reach) ** 2 - made
        chances = torch.from_numpy(stdtr(self.freedom, ((rest - logarithm(missing)) / spread).numpy()))
        return made + rest.exp(), torch.where(missing > 0, chances, 1.0)


def forecasts(finished: Facts, heats: int) -> list[Forecast]:
    """One after each number of heats but the last."""
    axes = finished.axes()
    return [Forecast.through(finished, heat, axes) for heat in range(heats)]


def pairs(values: Tensor) -> Tensor:
    """Products of all pairs of columns, (n, d (d + 1) / 2), so scaled that squares of inner products are kept."""
    first, second = torch.triu_indices(values.shape[1], values.shape[1])
    orders: Tensor = (1 + (first != second)).to(values)  # that a pair stands for
    return values[:, first] * values[:, second] * orders.sqrt()


def logarithm(values: Tensor) -> Tensor:
    """The logarithm, kept away from that of 0."""
    return values.clamp(min=torch.finfo(torch.float64).tiny).log()
