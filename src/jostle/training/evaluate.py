"""How good a trained model is, measured in one pass over the test set."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from jostle.inference.reader import output_of
from jostle.inputs import arrays, mapped, unshared
from jostle.tasks import Task
from jostle.training.train import Indexed, Place, forward, on

__all__ = ["evaluate", "outputs_of"]

MICRO_BATCH = 64  # small batches of images or tokens stay in a CPU's cache
VECTORS = 1024  # rows of a table are small, and the cost is in the calls
MICRO_VALUES = 2**21  # of inputs in a micro-batch: an image of 1024 x 2048 comes alone


def evaluate(
    model: nn.Module,
    inputs: Indexed,
    targets: Indexed,
    task: Task,
    *,
    device: torch.device | str = "cpu",
) -> dict[str, float]:
    """The metrics of a task: accuracy and F1, errors of a regression, IoU of a segmentation.

    Args:
        model: What is measured; it is put into eval mode.
        inputs: Batches by positions.
        targets: The same of what is true.
        task: What outputs mean.
        device: Where to.
    """
    return task.metrics(outputs_of(on(device, model).eval(), inputs, targets))


@torch.no_grad()
def outputs_of(model: nn.Module, inputs: Indexed, targets: Indexed) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs of a `model` and `targets`, of every micro-batch of `inputs` in order."""
    place = Place.of(model)
    size = micro_batch(inputs)
    for start in range(0, len(inputs), size):
        outputs = output_of(
            forward(model, mapped(lambda part: unshared(place(part), part), rows_from(inputs, start, size)))
        )
        yield outputs.detach(), place(rows_from(targets, start, size))


def rows_from(whole: Indexed, start: int, size: int) -> Any:
    """Some rows from `start` on; those of a tensor are not copied."""
    if isinstance(whole, Tensor):
        return whole[start : start + size]
    return whole[torch.arange(start, min(start + size, len(whole)))]


def micro_batch(inputs: Indexed) -> int:
    """How many examples to test at once, by the size of the first."""
    first = [array[0] for array in arrays(inputs[torch.tensor([0])])]
    most = VECTORS if all(x.ndim == 1 and x.is_floating_point() for x in first) else MICRO_BATCH
    return max(1, min(most, MICRO_VALUES // max(x.numel() for x in first)))
