"""The task that labels and outputs allow together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from jostle.tasks.kinds import PADDING, TASKS, VOID, Task, task_for, task_named

Kind = Literal["classes", "yes or no", "multi-hot", "one-hot", "shares", "numbers", "sites"]


@dataclass(frozen=True)
class LabelDescription:
    """Kind, shape and range of labels."""

    kind: Kind
    """"classes": (m,) of whole numbers. "yes or no": (m,) of 0 and 1. "multi-hot" and "one-hot": (m, labels) of 0 and
    1. "shares": (m, classes) that add up to 1. "sites": (m, ...), a whole number for each token or pixel. Else
    "numbers"."""
    shape: tuple[int, ...]
    """The shape of one label; () for a single number."""
    low: float
    """The lowest label; of sites without those that no loss counts."""
    high: float
    """The highest label."""

    def __str__(self) -> str:
        shape = f" of shape {self.shape}" if self.shape else ""
        return f"{self.kind}{shape} from {self.low:g} to {self.high:g}"


def describe_labels(targets: Tensor) -> LabelDescription:
    """Describe labels, `targets` (m, ...), by their shape and values.

    Raises:
        ValueError: There are no labels, or some are NaN or infinite.

    Example:
        >>> import torch
        >>> describe_labels(torch.tensor([[1, 0, 1], [0, 0, 1]])).kind
        'multi-hot'
    """
    if not targets.numel():
        raise ValueError("labels must hold at least one number; got none")
    if not targets.isfinite().all():
        raise ValueError(
            f"{int((~targets.isfinite()).sum())} of {targets.numel()} labels are NaN or infinite"
        )
    shape = () if targets[0].numel() == 1 else tuple(targets.shape[1:])
    values = targets.double().reshape(len(targets), -1)  # (m, numbers of one label)
    whole = bool((values == values.round()).all())
    truths = bool(((values == 0) | (values == 1)).all())
    counted = values[(values != PADDING) & (values != VOID)] if whole and shape else values
    counted = counted if counted.numel() else values
    low, high = float(counted.min()), float(counted.max())
    if not shape:
        single: Kind = "yes or no" if truths else "classes" if whole and low >= 0 else "numbers"
        return LabelDescription(single, shape, low, high)
    if len(shape) == 1:
        ones = bool(((values.sum(1) - 1).abs() < 1e-4).all())
        if truths:
            return LabelDescription("one-hot" if ones else "multi-hot", shape, low, high)
        if ones and low >= 0:
            return LabelDescription("shares", shape, low, high)
    return LabelDescription("sites" if whole and low >= 0 else "numbers", shape, low, high)


def task_for_labels(given: str | Task | None, outputs: Tensor, targets: Tensor) -> Task:
    """Return the task as `given`, or the one that outputs and labels allow together.

    Args:
        given: A task or its name; None: infer it.
        outputs: Outputs of the model, (n, ...).
        targets: Labels, (m, ...).

    Raises:
        ValueError: Labels and outputs are incompatible, or allow several tasks.
    """
    labels = describe_labels(targets)
    task = task_named(given) or _infer(labels, outputs)
    task.check_outputs(outputs)
    try:
        task.check_targets(targets, task.count_classes(outputs))
        if not task.has_classes and targets[0].numel() != outputs[0].numel():
            raise ValueError(f"a label has {targets[0].numel()} numbers, an output {outputs[0].numel()}")
        if task.name == "classification" and labels.shape:
            raise ValueError(f"a label must be one class number; got {labels}")
    except ValueError as wrong:
        raise ValueError(f"{_mismatch(labels, outputs)} with task={task.name!r}: {wrong}") from None
    return task


def _infer(labels: LabelDescription, outputs: Tensor) -> Task:
    """Return the only task that labels and outputs allow."""
    width = outputs[0].numel()
    if labels.kind == "sites" or (labels.shape and width != labels.shape[0] * (len(labels.shape) == 1)):
        return _infer_sites(labels, outputs)
    if not labels.shape and width > 1 and any(size > 1 for size in outputs.shape[2:]):
        raise ValueError(f"{_mismatch(labels, outputs)}: a label for each pixel or token is needed")
    if width == 1:
        return TASKS["binary" if labels.kind == "yes or no" else "regression"]
    if labels.kind in ("classes", "yes or no"):
        return TASKS["classification"]
    if labels.kind == "multi-hot":
        return TASKS["multi-label"]
    if labels.kind == "numbers" and labels.shape:
        return TASKS["regression"]
    how = {
        "one-hot": "pass class numbers (labels.argmax(1)), or task='multi-label' if a row may hold several",
        "shares": "pass class numbers, or task='regression' if each output is a number",
        "numbers": f"pass whole numbers from 0 to {width - 1} for classes",
    }[labels.kind]
    raise ValueError(f"{_mismatch(labels, outputs)}: {how}")


def _infer_sites(labels: LabelDescription, outputs: Tensor) -> Task:
    """Return segmentation or sequence, by the dimension of outputs that labels leave out."""
    shape = tuple(outputs.shape[1:])
    maps, tokens = labels.shape == shape[1:], labels.shape == shape[:-1]
    whole = labels.kind in ("sites", "multi-hot", "one-hot")
    if whole and len(shape) > 1 and maps != tokens:
        return TASKS["segmentation" if maps else "sequence"]
    if whole and len(shape) > 1 and maps:
        return task_for(None, outputs)  # an error for (n, a, a), which could be either
    if whole and labels.shape == shape:
        return TASKS["regression"]
    raise ValueError(f"{_mismatch(labels, outputs)}: pass the labels of this model, or task=")


def _mismatch(labels: LabelDescription, outputs: Tensor) -> str:
    return f"labels ({labels}) and outputs of shape {tuple(outputs.shape)} are incompatible"
