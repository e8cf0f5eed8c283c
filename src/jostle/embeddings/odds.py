"""How likely an example that has not met all jolts would reach a length: a line through those that have."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

TIE = 1 - 1e-6  # a row as long as the last gap may be picked: lengths this near count as reaching it
FREEDOM = 30  # degrees of it, at most: errors have heavier tails than a normal law, however many are known
HEAVY = 4.0  # errors are taken to spread at least as far as a normal law would with its largest this far out


class Facts(NamedTuple):
    """What is known of some examples."""

    hint: Tensor
    """What the clean output says of the squared length to come, its logarithm, (n,)."""
    activity: Tensor
    """The logarithm of the squared length of what goes through the network, (n,)."""
    squares: Tensor
    """Squared lengths of the movements made, heat by heat, (n, heats)."""

    def known(self, heats: int) -> Tensor:
        """What a forecast after so many heats goes by, (n, 2 or 3)."""
        columns = [torch.ones_like(self.hint), self.activity]
        if heats:
            columns.append(logarithm(self.squares[:, :heats].sum(1)) - self.hint)
        return torch.stack(columns, 1)


class Line(NamedTuple):
    """Forecasts the squared length still to come after some heats.

    In proportion to what the clean output says, corrected by the activity and by what has come so far.
    """

    heats: int
    weights: Tensor
    spread: float
    """Of the errors of the logarithm."""
    measured: int
    """How many examples it goes through."""

    @classmethod
    def through(cls, finished: Facts, heats: int) -> Line:
        """The line through examples that have met all jolts."""
        columns = finished.known(heats)
        goal = logarithm(finished.squares[:, heats:].sum(1)) - finished.hint
        weights = torch.linalg.lstsq(columns, goal[:, None], driver="gelsd").solution[:, 0]
        errors = goal - columns @ weights
        freedom = max(1, len(goal) - columns.shape[1])
        spread = max(float(errors.square().sum() / freedom) ** 0.5, float(errors.max()) / HEAVY, 1e-9)
        return cls(heats, weights, spread, len(goal))

    def outlook(self, facts: Facts, reach: float) -> tuple[Tensor, Tensor]:
        """For examples after these heats, the squared length to be expected and the chance to reach a length, (n,)."""
        known = facts.squares.sum(1)
        rest = facts.known(self.heats) @ self.weights + facts.hint
        missing = (TIE * reach) ** 2 - known
        chances = tail((logarithm(missing) - rest) / self.spread, self.measured)
        return known + rest.exp(), torch.where(missing > 0, chances, 1.0)


def tail(steps: Tensor, known: int) -> Tensor:
    """The chance that an error exceeds so many spreads, by Student's distribution, as far as so many errors tell."""
    from scipy.special import stdtr

    return torch.from_numpy(stdtr(min(FREEDOM, max(1, known - 3)), -steps.numpy()))


def logarithm(values: Tensor) -> Tensor:
    """The logarithm, kept away from that of 0."""
    return values.clamp(min=torch.finfo(torch.float64).tiny).log()
