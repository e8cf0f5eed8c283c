"""Rows: their formats, their arithmetic, and which are not finite."""

from jostle.rows.geometry import (
    Outer,
    Reduction,
    Rows,
    aligned,
    as_vectors,
    check_shapes,
    mean_over,
    non_finite,
    reduce_over,
    refuse_non_finite,
)

__all__ = [
    "Outer",
    "Reduction",
    "Rows",
    "aligned",
    "as_vectors",
    "check_shapes",
    "mean_over",
    "non_finite",
    "reduce_over",
    "refuse_non_finite",
]
