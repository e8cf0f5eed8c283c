"""The estimate that a strategy declares before the work: forward passes and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from jostle.inference.context import QueryContext
from jostle.utils.memory import SMALLER

SCORE = 8  # bytes of a score


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Forward passes and bytes of a query; the model and the activations of a micro-batch come on top.

    Refusal, spilling to a file and `plan` follow from it.
    """

    passes: int
    """Examples that go through the model, once for each perturbation, mask or member of a committee."""
    rows: int = 0
    """Bytes of rows and scores."""
    width: int = 1
    """Numbers in a row, as the selector sees it."""
    may_spill: bool = False
    """Whether rows may go to a temporary file."""
    cached: bool = False
    """Whether rows go to a file of the user's."""
    buffer: int = 0
    """Bytes of inputs and clean outputs that are held at once."""
    working: int = 0
    """Bytes beside rows and buffer while rows are computed."""
    selecting: int = 0
    """Bytes beside the rows during selection."""
    resident: int = 0
    """Bytes of rows that stay in memory during selection even if the others spill."""
    what: str = "rows and selection"
    """The use of the memory, for an error."""
    remedy: str = SMALLER
    """Advice for a query that does not fit."""
    extra_work: str = ""
    """Work that is not counted in passes, such as a training."""
    suggestions: tuple[str, ...] = ()
    """Cheaper settings, in words."""


def score_estimate(context: QueryContext, passes: int = 1) -> Estimate:
    """Estimate one number for each example of the pool, after this many passes."""
    n = len(context.pool)
    return Estimate(passes=passes * n, rows=SCORE * n, what=f"scores of {n:,} examples")


def feature_estimate(context: QueryContext, extra: int = 0, *, labeled: bool = True) -> Estimate:
    """Estimate features of the pool, and of the labeled set, with `extra` bytes for each example."""
    size, d = sum(map(len, context.pools if labeled else (context.pool,))), context.feature_width
    held = size * (d * context.row_type.itemsize + extra)
    what = f"features of {size:,} examples, {d:,} numbers each, and selection among them"
    return Estimate(passes=size, rows=held, width=d, may_spill=True, what=what)
