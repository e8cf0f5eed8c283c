"""Movements as a kernel sees them: what jolts do to an example's output, whatever else its output says."""

from torch import Tensor

from jostle.core import Costs
from jostle.embeddings.deviations import Deviations
from jostle.inputs import Pool
from jostle.scoring.request import Request
from jostle.tasks import CLASS_TASKS


def movements(request: Request, jolts: int, *pools: Pool) -> Tensor:
    """How outputs of all pools move under the same jolts, (n, K d).

    Classes: logits, less what is common to all of them, since that changes nothing. Other tasks: features.
    """
    if request.task.name not in CLASS_TASKS:
        return Deviations(jolts=jolts, space="features").rows(request, *pools)
    rows = Deviations(jolts=jolts, space=request.task.logits).rows(request, *pools)
    moved = rows.unflatten(1, (jolts, -1)).double()  # (n, K, c)
    relative: Tensor = moved - moved.mean(2, keepdim=True)
    return relative.flatten(1)


def movement_costs(request: Request, jolts: int, size: int) -> Costs:
    """What movements of so many examples take: in memory, those of classes in double precision and once more."""
    classes = request.task.name in CLASS_TASKS
    d, item = request.classes if classes else request.feature_width, request.row_type.itemsize
    numbers = size * jolts * d
    return Costs(
        passes=size * (jolts + 1),
        rows=numbers * (8 if classes else item),
        width=jolts * d,
        working=numbers * (8 + item) if classes else 0,
        what=f"movements of {size:,} examples under {jolts} jolts, {d:,} numbers each, and selection",
    )
