"""What a selector is: rows in, distinct positions out, in the order they were picked."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jostle.rows.geometry import BLOCK_NUMBERS, Rows, in_blocks
from jostle.rows.outer import Outer

if TYPE_CHECKING:
    from jostle.selectors.shards import Shards


WORD = 8  # bytes of a float64 or of a position
PASS = 16  # what a pass over all rows costs, for each, in distances


class Picks(NamedTuple):
    """Positions in pick order, and the selector's value of each when it was picked."""

    positions: Tensor
    """Which rows, (n,) int64."""
    scores: Tensor
    """The selector's value of each, (n,) float64; NaN where it was drawn."""

    def at(self, places: Tensor) -> Picks:
        """The same picks of a larger pool, in which the rows have these `places`."""
        return Picks(places.to(self.positions.device)[self.positions], self.scores)


class Selector(ABC):
    """Chooses n of the rows: `selector(rows, n)` gives positions, `selector.pick(rows, n)` scores too."""

    uses_centers: ClassVar[bool] = True  # False where rows already chosen play no part
    tells: ClassVar[bool] = True  # False where much of the work is done before the first pick is

    @abstractmethod
    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n distinct rows, in the order of their worth.

        Args:
            rows: One for each example: (n, d), two factors, or scores (n,).
            n: How many to pick, at most as many as there are rows.
            centers: Rows already chosen, (m, d), for selectors that keep away from them.
            seed: Repeats draws, for selectors that draw; None: a fresh one.
        """

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """The same picks where rows lie in several shards; positions are places. Not every selector can.

        Args:
            shards: What answers questions about rows.
            n: How many to pick.
            centers: Rows already chosen, (m, d).
            seed: Repeats draws; None: a fresh one.
        """
        raise NotImplementedError(
            f"{type(self).__name__} looks at all rows at once, which shards cannot: use one of k-center, k-means++, "
            "top-k and longest, or leave engine= out"
        )

    @property
    def over_shards(self) -> bool:
        """Whether rows may lie in several shards."""
        return type(self).pick_over is not Selector.pick_over

    def reach(self, rows: Rows, n: int) -> float | None:
        """The length below which no further row could be among the n picks; None where short rows may be picked."""
        return None

    def room(self, size: int, width: int, n: int) -> int:
        """Bytes that picking takes beside the rows, told before the work.

        Args:
            size: How many rows there are.
            width: Numbers of a row.
            n: How many to pick.
        """
        return WORD * size * (width + 4) + block_room(size, width)  # somebody's own may copy all rows

    def effort(self, size: int, width: int, n: int, known: int = 0) -> float:
        """How the time that picking takes grows, in a unit of its own: a plan compares a few rows with all of them.

        Args:
            size: How many rows there are.
            width: Numbers of a row.
            n: How many to pick.
            known: How many centers there are.
        """
        return size * (PASS * math.sqrt(n) + known)  # a pass for each pick, most of which can be spared

    def __call__(self, rows: Rows, n: int, centers: Rows | None = None, seed: int | None = None) -> Tensor:
        """Positions only, int64 (n,)."""
        return self.pick(rows, n, centers=centers, seed=seed).positions


def block_room(size: int, width: int) -> int:
    """Bytes that a pass over blocks of rows holds at once."""
    return 4 * WORD * min(BLOCK_NUMBERS, size * width)


class Weighing(Selector):
    """A selector to which some rows matter more than others."""

    @abstractmethod
    def pick(
        self,
        rows: Rows,
        n: int,
        *,
        centers: Rows | None = None,
        seed: int | None = None,
        weights: Tensor | None = None,
    ) -> Picks:
        """Pick n distinct rows, as `Selector.pick` does with `centers` and `seed`.

        Args:
            weights: How much each row counts, (n,); None: all count alike.
        """


def checked_rows(rows: Rows, n: int, centers: Rows | None = None) -> tuple[Rows, Rows | None]:
    """Rows and centers as selectors want them: finite floating matrices on one device, at least n rows."""
    rows = _matrix("rows", rows)
    check_pickable(n, len(rows))
    _check_finite("rows", rows)
    if centers is None:
        return rows, None
    centers = _matrix("centers", centers).to(rows.device)
    if _widths(rows) != _widths(centers):
        raise ValueError(
            f"centers must be rows of the same kind and width: rows are {_widths(rows)}, "
            f"centers are {_widths(centers)}"
        )
    if not len(centers):
        raise ValueError("centers are empty; pass None where nothing is chosen yet")
    _check_finite("centers", centers)
    return rows, centers


def dense_rows(who: str, rows: Rows, n: int, centers: Rows | None = None) -> tuple[Tensor, Tensor | None]:
    """Checked rows and centers of a selector that takes matrices only; `who` is its name, for the error."""
    rows, centers = checked_rows(rows, n, centers)
    if isinstance(rows, Outer) or isinstance(centers, Outer):
        raise TypeError(f"{who} needs dense rows, got Outer; pass rows.dense() if it fits into memory")
    return rows, centers


def checked_weights(weights: Tensor | None, rows: Tensor) -> Tensor:
    """How much each of the `rows` counts, (n,), in their own type, or an error that shows what cannot be."""
    if weights is None:
        return rows.new_ones(len(rows))
    found = torch.as_tensor(weights).detach()
    if found.shape != (len(rows),):
        raise ValueError(f"weights are one number for each of {len(rows)} rows; got {tuple(found.shape)}")
    if not (found.isfinite() & (found >= 0)).all():
        low, high = found.min().item(), found.max().item()
        raise ValueError(f"weights are finite and not below 0; got {low:g} to {high:g}")
    return found.to(rows)


def check_pickable(n: int, available: int) -> None:
    """Refuse what cannot be picked."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TypeError(f"n must be a whole number, got {n!r}")
    if available == 0:
        raise ValueError("there are no rows to pick from")
    if n < 1:
        raise ValueError(f"asked for {n} rows; ask for at least 1")
    if n > available:
        raise ValueError(f"asked for {n} rows from {available}; ask for at most {available}")


def _matrix(name: str, rows: Rows) -> Rows:
    if isinstance(rows, Outer):
        return rows.detach()
    if isinstance(rows, np.ndarray):
        rows = torch.as_tensor(rows)
    if not isinstance(rows, Tensor):
        raise TypeError(f"{name} must be a tensor (n, d) or Outer, got {type(rows).__name__}")
    if rows.ndim == 1:
        rows = rows.unsqueeze(1)  # scores are rows of one number
    if rows.ndim != 2 or (len(rows) and not rows.shape[1]):
        raise ValueError(f"{name} must be a matrix (n, d), one row for each example, got {tuple(rows.shape)}")
    if rows.is_complex():
        raise TypeError(f"{name} must be real, got {rows.dtype}")
    return rows.detach() if rows.is_floating_point() else rows.detach().to(torch.float64)


def _widths(rows: Rows) -> str:
    if isinstance(rows, Outer):
        return f"Outer ({rows.left.shape[1]}, {rows.right.shape[1]})"
    return f"dense ({rows.shape[1]})"


def _check_finite(name: str, rows: Rows) -> None:
    if isinstance(rows, Outer):
        _check_finite(f"{name}.left", rows.left)
        _check_finite(f"{name}.right", rows.right)
        return
    # a sum is one cheap pass; only where it is not finite (it may overflow) are the numbers looked at
    sums = in_blocks(rows, lambda block: block.sum(1), rows.shape[1], rows.dtype)
    suspects = (~sums.isfinite()).nonzero()[:, 0]
    bad = suspects[~rows[suspects].isfinite().all(1)]
    if len(bad):
        first = ", ".join(map(str, bad[:5].tolist()))
        raise ValueError(
            f"{len(bad)} of {len(rows)} {name} hold NaN or infinity (first at positions {first}); "
            "remove these examples or find out why the model gives such values"
        )


def checked_scores(rows: Rows, places: Tensor | None = None) -> Tensor:
    """Scores as one number for each example, (n,), or an error that says which places have none."""
    if isinstance(rows, np.ndarray):
        rows = torch.as_tensor(rows)
    if not isinstance(rows, Tensor):
        raise TypeError(f"scores must be a tensor (n,) or (n, 1), got {type(rows).__name__}")
    if rows.ndim not in (1, 2) or rows.shape[1:] not in ((), (1,)):
        raise ValueError(
            f"scores must be one number for each example, (n,) or (n, 1), got {tuple(rows.shape)}"
        )
    scores = rows.detach().flatten()
    missing = scores.isnan()
    if missing.any():
        where = missing.nonzero()[:, 0] if places is None else places[missing]
        first = ", ".join(map(str, where[:5].tolist()))
        raise ValueError(f"{int(missing.sum())} of {len(scores)} scores are NaN (first at positions {first})")
    return scores
