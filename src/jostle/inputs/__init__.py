"""Reads a user's pool: any holder of examples, as inputs only."""

from jostle.inputs.pool import Labeled, Pool, check_count
from jostle.inputs.sources import (
    Batched,
    Collate,
    ExampleList,
    Inputs,
    SparseRows,
    arrays,
    count,
    mapped,
    unshared,
    versions,
)

__all__ = [
    "Batched",
    "Collate",
    "ExampleList",
    "Inputs",
    "Labeled",
    "Pool",
    "SparseRows",
    "arrays",
    "check_count",
    "count",
    "mapped",
    "unshared",
    "versions",
]
