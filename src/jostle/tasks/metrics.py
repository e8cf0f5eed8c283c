"""What outputs are worth: metrics of counts and of errors."""

from torch import Tensor

from jostle.tasks.kinds import VOID

PUBLISHED_BATCH = 64  # the batch over which the published housing figure takes its roots


def confusion(predicted: Tensor, targets: Tensor, classes: int) -> Tensor:
    """Counts (c, c) of target by prediction; void targets are left out."""
    counted = targets != VOID
    places = targets[counted].long() * classes + predicted[counted]
    return places.bincount(minlength=classes * classes).view(classes, classes)


def of_confusion(counts: Tensor, task: str, positive: int | None = None) -> dict[str, float]:
    """Metrics of a classification or segmentation, from its confusion matrix; F1 is that of the positive class."""
    if task == "segmentation":
        return {"miou": mean_iou(counts), "pixel_accuracy": accuracy(counts)}
    if positive is not None:
        return {"accuracy": accuracy(counts), "f1": float(f1(counts)[positive])}
    return {"accuracy": accuracy(counts), "macro_f1": float(f1(counts).mean())}


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
