"""Selectors turn rows into distinct positions, in pick order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jostle.rng import bits_at, derive, fresh_seed
from jostle.rows.geometry import BLOCK_NUMBERS, Outer, Rows, exact_sums, in_blocks
from jostle.utils.names import check_ranges, name_and_settings
from jostle.utils.progress import note
from jostle.utils.registry import Entry, Registry

if TYPE_CHECKING:
    from jostle.selectors.shards import Shards


WORD = 8  # bytes of a float64 or of a position


class Picks(NamedTuple):
    """Positions in pick order, and the selector's value of each when it was picked.

    Example:
        >>> import jostle, torch
        >>> jostle.top_k.pick(torch.tensor([0.25, 1.0, 0.5]), 2).scores.tolist()
        [1.0, 0.5]
    """

    positions: Tensor
    """Positions of the picked rows, (n,) int64."""
    scores: Tensor
    """Value of each pick, (n,) float64; NaN where it was drawn."""

    @classmethod
    def of(cls, positions: Sequence[int], scores: Sequence[float], device: torch.device) -> Picks:
        """Return picks from lists of positions and their scores, on a device."""
        values = torch.tensor(scores, dtype=torch.float64, device=device)
        return cls(torch.tensor(positions, dtype=torch.int64, device=device), values)

    def at(self, places: Tensor) -> Picks:
        """Return these picks as positions of a larger pool, in which the rows have these `places`."""
        return Picks(places.to(self.positions.device)[self.positions], self.scores)


class Selector(ABC):
    """Chooses n of the rows: `selector(rows, n)` gives positions, `selector.pick(rows, n)` scores too.

    Exact ties are drawn by the seed: of rows with the same value, each is equally likely to be picked.

    Example:
        >>> import jostle, torch
        >>> class Smallest(jostle.Selector):
        ...     def pick(self, rows, n, *, centers=None, seed=None):
        ...         return jostle.top_k.pick(-rows, n, seed=seed)
        >>> Smallest()(torch.tensor([0.1, 0.9, 0.5]), 1).tolist()
        [0]
    """

    uses_centers: ClassVar[bool] = True
    """Whether rows that are already chosen matter."""

    ranges: ClassVar[Mapping[str, str | tuple[str, ...]]] = {}
    """The range of a setting, an interval or words: `{"beta": "[0, inf)"}`."""

    def __post_init__(self) -> None:
        check_ranges(self)

    @abstractmethod
    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n distinct rows, the most valuable first.

        Args:
            rows: One for each example: (n, d), two factors, or scores (n,).
            n: Number of picks, at most the number of rows.
            centers: Rows already chosen, (m, d), for selectors that keep away from them.
            seed: Repeats draws and ties; None: a fresh one.
        """

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick n rows from shards, as `pick` does from all rows together; positions are places in the pool.

        A selector that does not define it has all rows sent here.

        Args:
            shards: Where the rows are.
            n: Number of picks.
            centers: Rows already chosen, (m, d).
            seed: Repeats draws and ties; None: a fresh one.
        """
        return self.pick(shards.collect(), n, centers=centers, seed=seed)

    @property
    def collects_rows(self) -> bool:
        """Whether the rows of all shards are sent to one place."""
        return type(self).pick_over in (Selector.pick_over, Weighing.pick_over)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes that picking takes besides the rows.

        Args:
            size: Number of rows.
            width: Numbers in a row.
            n: Number of picks.
        """
        return WORD * size * (width + 4) + block_room(size, width)  # a user's own may copy all rows

    def __call__(self, rows: Rows, n: int, centers: Rows | None = None, seed: int | None = None) -> Tensor:
        """Return positions only, int64 (n,)."""
        return self.pick(rows, n, centers=centers, seed=seed).positions


class Weighing(Selector):
    """A selector that takes a weight for each row."""

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
            weights: How much each row counts, (n,); None: all count the same.
        """

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick n rows from shards, as `Selector.pick_over` does, by the weights that the shards hold."""
        weights = shards.collect_weights()
        return self.pick(shards.collect(), n, centers=centers, seed=seed, weights=weights)


def block_room(size: int, width: int) -> int:
    """Return the bytes that a pass over blocks of rows holds at once."""
    return 4 * WORD * min(BLOCK_NUMBERS, size * width)


def seed_or_fresh(seed: int | None) -> int:
    """Return the seed, or a fresh one for None."""
    return fresh_seed() if seed is None else seed


def tie_keys(seed: int, places: Tensor) -> Tensor:
    """Return a random key for each of the `places`, (n,) int64: of exact ties, the smallest key is picked.

    A key depends on the seed and the place alone, so ties are drawn the same way over any number of shards.
    """
    return bits_at(derive(seed, "ties"), places)


def break_ties(values: Tensor, keys: Tensor) -> int:
    """Return the position of the largest value; of exact ties, the one with the smallest key.

    Args:
        values: (n,), without NaN.
        keys: (n,) int64, as `tie_keys` gives them.
    """
    tied = (values == values.max()).nonzero()[:, 0]
    return int(tied[keys[tied].argmin()]) if len(tied) > 1 else int(tied)


def pick_one_by_one(
    n: int,
    gains: Callable[[], Tensor],
    take: Callable[[int], None],
    keys: Tensor,
    copies: Tensor | None = None,
) -> Picks:
    """Pick n rows, each the one that gains most after those before it; a pick's score is its gain.

    Args:
        n: Number of picks.
        gains: Returns the gain of each row, (size,), as it is now.
        take: Told the position of each pick.
        keys: Draw exact ties, (size,), as `tie_keys` gives them.
        copies: As `first_copies` gives them, where copies of a row shall have one gain.
    """
    positions, scores = list[int](), list[float]()
    for _ in range(n):
        values = gains() if copies is None else gains()[copies]
        values[positions] = -torch.inf
        positions.append(break_ties(values, keys))
        scores.append(float(values[positions[-1]]))
        take(positions[-1])
        note(1)
    return Picks.of(positions, scores, keys.device)


def drawn_rest(taken: Sequence[int], count: int, size: int, draws: torch.Generator) -> list[int]:
    """Return `count` of the positions below `size` that are not taken yet, drawn."""
    left = torch.ones(size, dtype=torch.bool, device="cpu")
    left[list(taken)] = False
    rest = left.nonzero()[:, 0]
    return rest[torch.randperm(len(rest), generator=draws, device="cpu")[:count]].tolist()


def first_copies(rows: Tensor) -> Tensor | None:
    """Return the position of the first row equal to each row, (n,), or None where all rows differ.

    Matrix products round copies of a row differently. A value that is computed so must be taken from the first copy
    before ties are drawn: `values[first_copies(rows)]`.
    """
    sums = in_blocks(rows, lambda block: exact_sums(block.to(torch.float64)), rows.shape[1], torch.float64)
    _, group, counts = sums.unique(return_inverse=True, return_counts=True)
    suspects = (counts[group] > 1).nonzero()[:, 0]
    if not len(suspects):
        return None
    distinct, group = rows[suspects].unique(dim=0, return_inverse=True)
    if len(distinct) == len(suspects):
        return None
    firsts = torch.full((len(distinct),), len(rows), device=rows.device)
    firsts.scatter_reduce_(0, group, suspects, "amin")
    found = torch.arange(len(rows), device=rows.device)
    found[suspects] = firsts[group]
    return found


def checked_rows(rows: Rows, n: int, centers: Rows | None = None) -> tuple[Rows, Rows | None]:
    """Return rows and centers as finite floating matrices on one device; raise unless there are n rows."""
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
    """Return checked rows and centers of a selector that takes matrices only; `who` names it in the error."""
    rows, centers = checked_rows(rows, n, centers)
    if isinstance(rows, Outer) or isinstance(centers, Outer):
        raise TypeError(
            f"{who} needs dense rows; got rows in two factors (Outer), as badge has them: use k-means++, k-center or "
            "longest, compose it with an embedding such as 'features', or pass rows.dense()"
        )
    return rows, centers


def checked_weights(weights: Tensor | None, rows: Tensor) -> Tensor:
    """Return one weight for each of the `rows`, (n,), in their dtype; None: ones."""
    if weights is None:
        return rows.new_ones(len(rows))
    found = torch.as_tensor(weights).detach()
    if found.shape != (len(rows),):
        raise ValueError(f"weights must be one number for each of {len(rows)} rows; got {tuple(found.shape)}")
    if not (found.isfinite() & (found >= 0)).all():
        low, high = found.min().item(), found.max().item()
        raise ValueError(f"weights must be finite and not below 0; got {low:g} to {high:g}")
    return found.to(rows)


def check_pickable(n: int, available: int) -> None:
    """Raise unless n rows can be picked."""
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
    # a sum is one cheap pass; it may overflow, so only rows whose sum is not finite are checked in full
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
    """Return one score for each example, (n,); raise where places have none."""
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


REGISTRY: Registry[Selector, Entry] = Registry(
    "selector", "jostle.selectors", Entry, makes=(Selector, "a jostle.Selector")
)


@dataclass(frozen=True)
class Function(Selector):
    """A function (rows, n) -> positions as a selector; its positions are checked, scores are NaN."""

    uses_centers = False
    function: Callable[[Rows, int], Tensor]
    """From rows and the number of picks to positions."""

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Call the function; centers and seed are not passed on."""
        check_pickable(n, len(rows))
        positions = torch.as_tensor(self.function(rows, n)).to(rows.device)
        name = getattr(self.function, "__name__", repr(self.function))
        if positions.shape != (n,) or positions.is_floating_point() or positions.dtype == torch.bool:
            raise ValueError(
                f"{name} must return {n} positions, got {positions.dtype} of shape {tuple(positions.shape)}"
            )
        if positions.min() < 0 or positions.max() >= len(rows) or len(set(positions.tolist())) < n:
            raise ValueError(f"{name} must return distinct positions from 0 to {len(rows) - 1}")
        return Picks(positions.long(), torch.full((n,), torch.nan, dtype=torch.float64, device=rows.device))


def selector(spec: str | Selector | Callable[[Rows, int], Tensor]) -> Selector:
    """Return a selector from a name, a function or a selector.

    Args:
        spec: A name, with settings in brackets where needed, `typical(small=3)`; a function (rows, n) -> positions; or
            a selector, which is returned unchanged.
    """
    if isinstance(spec, Selector):
        return spec
    if isinstance(spec, str):
        name, settings = name_and_settings(spec)
        return REGISTRY.build(name, settings)
    if callable(spec):
        return Function(spec)
    raise TypeError(
        f"a selector must be a name, a Selector or a function (rows, n) -> positions, got {spec!r}"
    )
