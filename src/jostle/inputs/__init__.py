"""What sees a user's pool: any holder of examples, as inputs only."""

from jostle.inputs.batches import ExampleList, Inputs, SparseRows, arrays, count, mapped, unshared, versions
from jostle.inputs.labeled import Labeled
from jostle.inputs.pool import Pool, check_count
from jostle.inputs.sources import Batched, Collate

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
