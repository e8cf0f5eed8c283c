"""Movements as a kernel sees them: what jolts do to an example's output, whatever else its output says."""

from torch import Tensor

from jostle.core import Costs
from jostle.embeddings.deviations import Deviations
from jostle.inputs import Pool
from jostle.scoring.request import Request
from jostle.tasks import CLASS_TASKS


def movements(request: Request, jolts: int, *pools: Pool) -> Tensor:
    """How outputs of all pools move under the same jolts, (n, K d).

    Classes: logits, less what is common to all of them, since that changes nothing. Other tasks: features, or, of a
    linear model, which has nothing in front of its head to jolt, the outputs.
    """
    rows = jolted(request, jolts).rows(request, *pools)
    if request.task.name not in CLASS_TASKS:
        return rows
    moved = rows.unflatten(1, (jolts, -1)).double()  # (n, K, c)
    relative: Tensor = moved - moved.mean(2, keepdim=True)
    return relative.flatten(1)


def jolted(request: Request, jolts: int) -> Deviations:
    """The jolts, and what moves under them in the task of a `request`."""
    classes = request.task.name in CLASS_TASKS
    return Deviations(jolts=jolts, space=request.task.logits if classes else space_of(request))


def space_of(request: Request) -> str:
    """What moves in a task without classes."""
    in_front = (request.network.before_head(name) for p in request.network.parameters() for name in p.aliases)
    return "features" if any(in_front) else "logits"


def movement_costs(request: Request, jolts: int, size: int) -> Costs:
    """What movements of so many examples take: in memory, those of classes in double precision and once more."""
    classes = request.task.name in CLASS_TASKS
    if classes:
        d = request.classes
    elif space_of(request) == "features":
        d = request.feature_width
    else:
        d = request.network.example_outputs[0].numel()
    item = request.row_type.itemsize
    numbers = size * jolts * d
    return Costs(
        passes=size * (jolts + 1),
        rows=numbers * (8 if classes else item),
        width=jolts * d,
        working=numbers * (8 + item) if classes else 0,
        what=f"movements of {size:,} examples under {jolts} jolts, {d:,} numbers each, and selection",
    )
