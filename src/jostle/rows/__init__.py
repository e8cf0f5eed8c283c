"""Rows, one for each example: their formats, their arithmetic, and what is not finite in them."""

from jostle.rows.geometry import Rows
from jostle.rows.outer import Outer
from jostle.rows.vectors import as_vectors, check_shapes, join, non_finite, refuse_non_finite, sums_to_one

__all__ = [
    "Outer",
    "Rows",
    "as_vectors",
    "check_shapes",
    "join",
    "non_finite",
    "refuse_non_finite",
    "sums_to_one",
]
