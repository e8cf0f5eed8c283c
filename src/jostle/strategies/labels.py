"""Classes of the labeled set, for the strategies that look at them."""

from torch import Tensor

from jostle.inference.context import QueryContext


def labeled_classes(context: QueryContext, method: str) -> Tensor:
    """The labeled set's classes, (m,): one for each example, among those of the model, or an error that shows them.

    Args:
        context: The call, whose task has classes.
        method: What wants to know, for the error.
    """
    targets, classes = context.needs_labeled(method).targets(), context.classes
    whole = not targets.is_floating_point() or bool((targets == targets.round()).all())
    if targets.numel() != len(targets) or targets.is_complex() or not whole:
        raise ValueError(
            f"{method} needs one class per labeled example, a whole number; got {targets.dtype} of "
            f"{tuple(targets.shape)}"
        )
    numbers = context.task.class_numbers(targets).reshape(-1)
    if int(numbers.min()) < 0 or int(numbers.max()) >= classes:
        raise ValueError(
            f"labeled classes run from {int(numbers.min())} to {int(numbers.max())}, "
            f"and the model has {classes}: 0 to {classes - 1}"
        )
    return numbers
