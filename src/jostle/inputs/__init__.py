"""What sees a user's pool: any holder of examples, as inputs only."""

from jostle.inputs.batches import Inputs, arrays, count, mapped, unshared, versions
from jostle.inputs.labelled import Labeled
from jostle.inputs.pool import Pool, check_count
from jostle.inputs.sources import Batched, Collate

__all__ = [
    "Batched",
    "Collate",
    "Inputs",
    "Labeled",
    "Pool",
    "arrays",
    "check_count",
    "count",
    "mapped",
    "unshared",
    "versions",
]
