"""What an embedding gives: one row for each example."""

from dataclasses import dataclass

from torch import Tensor

from jostle.rows import Rows


@dataclass(frozen=True)
class Embedded:
    """One row per example of the pool, and rows already chosen, where the selector is to keep away from them."""

    rows: Rows
    centers: Tensor | None = None
