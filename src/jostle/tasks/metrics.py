"""Metrics of counts and of errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

Passes = Iterable[tuple[Tensor, Tensor]]  # outputs and targets, batch by batch
T = TypeVar("T")

PUBLISHED_BATCH = 64  # the batch over which the published housing figure takes its roots


def confusion(predicted: Tensor, targets: Tensor, classes: int, ignored: int | None = None) -> Tensor:
    """Counts (c, c) of target by prediction; targets of the ignored value are left out."""
    if ignored is not None:
        counted = targets != ignored
        predicted, targets = predicted[counted], targets[counted]
    places = targets.long() * classes + predicted
    return places.bincount(minlength=classes * classes).view(classes, classes)


def confusion_of(passes: Passes, ignored: int | None = None) -> Tensor:
    """Return the confusion matrix over all batches of logits (n, c, ...) and targets (n, ...), on the CPU."""
    counts = (
        confusion(logits.argmax(1).flatten(), targets.flatten(), logits.shape[1], ignored)
        for logits, targets in passes
    )
    return torch.stack(list(some(counts))).sum(0).cpu()


def of_classes(counts: Tensor, positive: int | None = None) -> dict[str, float]:
    """Accuracy, and F1: that of the positive class, or the mean over all."""
    each = f1(counts)
    score = {"macro_f1": each.mean()} if positive is None else {"f1": each[positive]}
    return {"accuracy": accuracy(counts), **{name: float(value) for name, value in score.items()}}


def of_labels(answers: Passes) -> dict[str, float]:
    """F1 of yes or no answers (n, labels), by label and over all; the share of examples whose labels are all right."""
    counts, right = list[Tensor](), list[Tensor]()
    for yes, true in some(answers):
        counts.append(torch.stack([yes & true, yes, true]).sum(1))  # (3, labels)
        right.append((yes == true).all(1))
    hits, said, there = torch.stack(counts).sum(0).cpu().double()
    return {
        "macro_f1": float((2 * hits / (said + there).clamp(min=1)).mean()),
        "micro_f1": float(2 * hits.sum() / (said + there).sum().clamp(min=1)),
        "exact_match": float(torch.cat(right).cpu().double().mean()),
    }


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


def of_errors(errors: Tensor) -> dict[str, float]:
    """MAE, RMSE, and the published housing figure: batches' root mean squared errors, summed, over the rows."""
    full = len(errors) // PUBLISHED_BATCH * PUBLISHED_BATCH
    squares = errors.square()
    roots = squares[:full].view(-1, PUBLISHED_BATCH).mean(1).sqrt().sum()
    if full < len(errors):
        roots = roots + squares[full:].mean().sqrt()
    return {
        "mae": float(errors.abs().mean()),
        "rmse": float(squares.mean().sqrt()),
        "published": float(roots / len(errors)),
    }


def some(parts: Iterable[T]) -> Iterator[T]:
    """The parts as they are, of which there is at least one."""
    empty = True
    for part in parts:
        empty = False
        yield part
    if empty:
        raise ValueError("there is nothing to measure: the test set is empty")
