"""Metrics of tasks, from confusion matrices over batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

Passes = Iterable[tuple[Tensor, Tensor]]  # outputs and targets, batch by batch
T = TypeVar("T")


def confusion(predicted: Tensor, targets: Tensor, classes: int, ignored: int | None = None) -> Tensor:
    """Counts (c, c) of target by prediction; targets of the ignored value are left out."""
    if ignored is not None:
        counted = targets != ignored
        predicted, targets = predicted[counted], targets[counted]
    places = targets.long() * classes + predicted
    return places.bincount(minlength=classes * classes).view(classes, classes)


def confusion_of(passes: Passes, ignored: int | None = None) -> Tensor:
    """Return the confusion matrix over all batches of logits (n, c, ...) and targets (n, ...), on the CPU."""
    counts = [
        confusion(logits.argmax(1).flatten(), targets.flatten(), logits.shape[1], ignored)
        for logits, targets in some(passes)
    ]
    return torch.stack(counts).sum(0).cpu()


def of_classes(counts: Tensor, positive: int | None = None) -> dict[str, float]:
    """Accuracy, and F1: that of the positive class, or the mean over all."""
    each = f1(counts)
    score = {"macro_f1": float(each.mean())} if positive is None else {"f1": float(each[positive])}
    return {"accuracy": accuracy(counts), **score}


def accuracy(counts: Tensor) -> float:
    """The share of correct predictions."""
    return int(counts.diagonal().sum()) / max(1, int(counts.sum()))


def f1(counts: Tensor) -> Tensor:
    """F1 of each class, (c,); 0 for a class that is neither there nor predicted."""
    hits = counts.diagonal().double()
    return 2 * hits / (counts.sum(0) + counts.sum(1)).clamp(min=1)


def mean_iou(counts: Tensor) -> float:
    """Intersection over union, averaged over the classes that are there or predicted."""
    hits = counts.diagonal().double()
    union = counts.sum(0) + counts.sum(1) - hits
    return float((hits / union)[union > 0].mean())


def some(parts: Iterable[T]) -> Iterator[T]:
    """The parts as they are, of which there is at least one."""
    empty = True
    for part in parts:
        empty = False
        yield part
    if empty:
        raise ValueError("there is nothing to measure: the test set is empty")
