"""Picks without regard to the rows."""

from dataclasses import dataclass

import torch

from jostle.rng import fresh_seed, generator
from jostle.rows.geometry import Rows
from jostle.selectors.base import WORD, Picks, Selector, check_pickable


@dataclass(frozen=True)
class Uniform(Selector):
    """Draws without replacement; of the rows only the number matters, and scores are NaN."""

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the first n of a random order of all rows, so that a longer list begins with a shorter one."""
        check_pickable(n, len(rows))
        draws = generator(fresh_seed() if seed is None else seed, "uniform")
        order = torch.randperm(len(rows), generator=draws, device=draws.device)[:n].to(rows.device)
        return Picks(order, torch.full((n,), torch.nan, dtype=torch.float64, device=rows.device))

    def effort(self, size: int, width: int, n: int, known: int = 0) -> float:
        """One order of all."""
        return size

    def room(self, size: int, width: int, n: int) -> int:
        """An order of all rows."""
        return 2 * WORD * size


uniform = Uniform()
