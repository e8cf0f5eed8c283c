"""Tasks: what a model's output means, its loss and its metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from jostle.tasks.metrics import Passes, accuracy, confusion_of, mean_iou, of_classes, some
from jostle.utils.names import look_up

VOID = 255  # the segmentation label that no loss and no metric counts
PADDING = -100  # the same of a sequence, as PyTorch has it
PUBLISHED_BATCH = 64  # the batch over which the published housing figure takes its roots
SIGMOID_TASKS = ("binary", "multi-label")  # each probability is of a yes, and they do not sum to 1
SAY = (
    "Say task='classification' for (n, classes), 'binary' for one logit of yes or no, 'regression' for numbers, "
    "'multi-label' for (n, labels), 'segmentation' for (n, classes, height, width), 'sequence' for (n, tokens, classes)"
)
ONE_OUTPUT = (
    "Use task='binary' for a logit of yes or no, which wants a sigmoid, task='multi-label' for a map of them, "
    "task='regression' for a number, or space='logits', 'features' or a function"
)
TINY = torch.finfo(torch.float64).tiny  # a probability of 0 has no logarithm
SMALLEST_DOUBT = 2.0**-53  # 1 less the largest probability below 1


class Task(ABC):
    """The meaning of outputs; branch here once, not wherever a task's name turns up."""

    name: ClassVar[str]
    moves: ClassVar[str] = "probabilities"  # what noise stability watches unless told otherwise
    has_classes: ClassVar[bool] = True  # False for numbers
    ignored: ClassVar[int | None] = None  # the label that no loss and no metric counts
    tokens: ClassVar[bool] = False  # whether an example's sites are tokens, some of which may be padding

    @abstractmethod
    def probabilities(self, outputs: Tensor) -> Tensor:
        """Probabilities in the own layout of `outputs`."""

    @abstractmethod
    def distribution(self, outputs: Tensor) -> Tensor:
        """Probabilities of `outputs` as (n, sites, c): one site for a class, a site for each pixel, token or label."""

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each example, (n,).

        Args:
            outputs: What the model gave, (n, ...).
            targets: What is true, as data sets hold it.
        """

    def takes(self, outputs: Tensor) -> bool:
        """Whether `outputs` of this shape can have this meaning."""
        return True

    def logits(self, outputs: Tensor) -> Tensor:
        """The `outputs` as one logit for each class of an example, (n, c)."""
        return outputs.reshape(len(outputs), -1)  # (n, c, 1, 1) from a convolutional head is (n, c)

    def class_numbers(self, targets: Tensor) -> Tensor:
        """The `targets` as the classes of the logits, (m,)."""
        return targets.long()

    def check_outputs(self, outputs: Tensor) -> None:
        """Refuse `outputs` whose shape this task cannot have."""
        if not self.takes(outputs):
            wants = (type(self).__doc__ or "").partition(":")[0].lower()
            shape = tuple(outputs.shape)
            raise ValueError(f"task={self.name!r} wants {wants}; this model's are of shape {shape}. {SAY}")

    def metrics(self, passes: Passes) -> dict[str, float]:
        """Return the metrics of a test set, the main one first; `passes` are outputs and targets, batch by batch."""
        raise NotImplementedError(
            f"the task {self.name!r} does not say how good outputs are: define its metrics"
        )

    def width(self, classes: int) -> int:
        """How many numbers a model gives for an example, a pixel or a token, where there are so many `classes`."""
        return classes

    def count_classes(self, outputs: Tensor) -> int:
        """How many classes or labels `outputs` are about."""
        return outputs.shape[-1] if self.tokens else outputs.shape[1:2].numel()

    def classes_seen(self, targets: Tensor) -> int:
        """How many classes occur among `targets`, or how many labels are said yes to."""
        return len(self.counted(targets).unique())

    def counted(self, targets: Tensor) -> Tensor:
        """The `targets` that losses and metrics count."""
        return targets if self.ignored is None else targets[targets != self.ignored]

    def check_targets(self, targets: Tensor, classes: int) -> None:
        """Refuse `targets` outside 0 .. `classes` - 1, those that are ignored aside."""
        counted = self.counted(targets)
        if counted.numel() and not 0 <= int(counted.min()) <= int(counted.max()) < classes:
            found = f"{int(counted.min())} to {int(counted.max())}"
            raise ValueError(f"labels run from {found}, but there are {classes} classes")


def softmax(outputs: Tensor, dim: int) -> Tensor:
    """Probabilities of two classes or more; of one the softmax is always 1, which is surely not meant."""
    if outputs.shape[dim] < 2:
        raise ValueError(
            f"a softmax over one output is always 1; outputs are {tuple(outputs.shape)}. {ONE_OUTPUT}"
        )
    return outputs.softmax(dim)


def mean_cross_entropy(logits: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """The mean over the sites of each example that are not ignored, (n,); logits are (n, c, ...)."""
    losses = F.cross_entropy(logits, targets.long(), ignore_index=ignored, reduction="none")
    return losses.flatten(1).sum(1) / (targets != ignored).flatten(1).sum(1).clamp(min=1)


def check_truths(targets: Tensor, one_each: bool, what: str) -> None:
    """Refuse `targets` that are not 0 or 1, or not one for each example or label, as `what` says."""
    if not one_each or not ((targets == 0) | (targets == 1)).all():
        raise ValueError(
            f"targets {tuple(targets.shape)} from {targets.min():g} to {targets.max():g}; "
            f"expected 0 or 1 for each {what}"
        )


@dataclass(frozen=True)
class Classification(Task):
    """Outputs (n, c): logits of exclusive classes."""

    name = "classification"
    positive: int | None = None
    """Of two classes, the one that is looked for: its F1 is a metric."""

    def takes(self, outputs: Tensor) -> bool:
        """One row of logits for an example."""
        return outputs.ndim >= 2 and all(size == 1 for size in outputs.shape[2:])

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Softmax over the classes."""
        return softmax(self.logits(outputs), 1)

    def distribution(self, outputs: Tensor) -> Tensor:
        """One site: (n, 1, c)."""
        return self.probabilities(outputs).unsqueeze(1)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy."""
        return F.cross_entropy(self.logits(outputs), self.class_numbers(targets), reduction="none")

    def metrics(self, passes: Passes) -> dict[str, float]:
        """Accuracy and F1."""
        counts = confusion_of((self.logits(x), self.class_numbers(y)) for x, y in passes)
        return of_classes(counts, self.positive)


@dataclass(frozen=True)
class Binary(Classification):
    """Outputs (n,) or (n, 1): one logit, of yes against no, as a classification into no and yes.

    The logits 0 and x have the softmax 1 - sigmoid(x) and sigmoid(x), so all that holds for two classes holds here.
    """

    name = "binary"
    positive: int | None = 1
    """The class yes, whose F1 is a metric."""

    def takes(self, outputs: Tensor) -> bool:
        """One logit."""
        return outputs[0].numel() == 1

    def logits(self, outputs: Tensor) -> Tensor:
        """No and yes, (n, 2)."""
        self.check_outputs(outputs)
        yes = outputs.reshape(len(outputs), -1)
        return torch.cat([torch.zeros_like(yes), yes], dim=1)

    def class_numbers(self, targets: Tensor) -> Tensor:
        """0 or 1, (m,), also from targets (m, 1) and from numbers that are not whole by type."""
        return targets.reshape(-1).long()

    def width(self, classes: int) -> int:
        """One logit."""
        return 1

    def count_classes(self, outputs: Tensor) -> int:
        """No and yes."""
        return 2

    def check_targets(self, targets: Tensor, classes: int) -> None:
        """One 0 or 1 for each example."""
        check_truths(targets, targets.numel() == len(targets), "example")


class Regression(Task):
    """Outputs (n,) or (n, 1): numbers, of which there is no distribution."""

    name = "regression"
    has_classes = False
    moves = "features"

    def probabilities(self, outputs: Tensor) -> Tensor:
        """There are none: an error that says what to use."""
        raise ValueError(
            f"a regression model gives no probabilities (its outputs are {tuple(outputs.shape)}): use a "
            "strategy that needs none, such as default, or pass task='binary' where an "
            "output is a logit of yes or no, 'multi-label' where each is one"
        )

    distribution = probabilities

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Squared error."""
        outputs = outputs.reshape(len(outputs), -1)
        return (outputs - targets.to(outputs.dtype).reshape(outputs.shape)).square().mean(1)

    def metrics(self, passes: Passes) -> dict[str, float]:
        """MAE, RMSE, and the published housing figure: batches' root mean squared errors, summed, over the rows."""
        differences = [x.flatten() - y.to(x.dtype).flatten() for x, y in some(passes)]
        errors = torch.cat(differences).cpu().double()
        squares = errors.square()
        roots = [batch.mean().sqrt() for batch in squares.split(PUBLISHED_BATCH)]
        return {
            "mae": float(errors.abs().mean()),
            "rmse": float(squares.mean().sqrt()),
            "published": float(torch.stack(roots).sum() / len(errors)),
        }

    def width(self, classes: int) -> int:
        """One number."""
        return 1

    def check_targets(self, targets: Tensor, classes: int) -> None:
        """Any number will do that is one."""
        bad = int((~targets.isfinite()).sum())
        if bad:
            raise ValueError(f"{bad} of {targets.numel()} targets are NaN or infinite")


class Segmentation(Task):
    """Outputs (n, c, height, width, ...): logits of exclusive classes for each pixel."""

    name = "segmentation"
    moves = "features"
    ignored = VOID

    def takes(self, outputs: Tensor) -> bool:
        """Channels, and at least one dimension of pixels."""
        return outputs.ndim >= 3

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Softmax over the channels."""
        return softmax(outputs, 1)

    def distribution(self, outputs: Tensor) -> Tensor:
        """A site for each pixel: (n, pixels, c)."""
        return self.probabilities(outputs).flatten(2).transpose(1, 2)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy over the pixels that are not void."""
        return mean_cross_entropy(outputs, targets, VOID)

    def metrics(self, passes: Passes) -> dict[str, float]:
        """Mean intersection over union, and accuracy, of the pixels that are not void."""
        counts = confusion_of(passes, VOID)
        return {"miou": mean_iou(counts), "pixel_accuracy": accuracy(counts)}


class MultiLabel(Task):
    """Outputs (n, labels): a sigmoid each; maps of them too."""

    name = "multi-label"

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Sigmoid of each output, a map of them too."""
        return outputs.sigmoid() if outputs.ndim > 1 else outputs.sigmoid().unsqueeze(1)

    def distribution(self, outputs: Tensor) -> Tensor:
        """A site for each label, its classes being no and yes: (n, labels, 2)."""
        yes = self.probabilities(outputs).flatten(1)
        return torch.stack([1 - yes, yes], dim=-1)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean binary cross-entropy over the labels."""
        outputs = outputs.reshape(len(outputs), -1)
        targets = targets.to(outputs.dtype).reshape(outputs.shape)
        return F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)

    def metrics(self, passes: Passes) -> dict[str, float]:
        """F1 of the labels, and how often all of an example are right; a logit above 0 says yes."""
        counts, right = list[Tensor](), list[Tensor]()
        for outputs, targets in some(passes):
            yes, true = outputs.flatten(1) > 0, targets.reshape(len(targets), -1) > 0.5  # (n, labels)
            counts.append(torch.stack([yes & true, yes, true]).sum(1))  # (3, labels)
            right.append((yes == true).all(1))
        hits, said, there = torch.stack(counts).sum(0).cpu().double()
        return {
            "macro_f1": float((2 * hits / (said + there).clamp(min=1)).mean()),
            "micro_f1": float(2 * hits.sum() / (said + there).sum().clamp(min=1)),
            "exact_match": float(torch.cat(right).cpu().double().mean()),
        }

    def classes_seen(self, targets: Tensor) -> int:
        """How many labels are said yes to."""
        return int((targets > 0.5).any(0).sum())

    def check_targets(self, targets: Tensor, classes: int) -> None:
        """One 0 or 1 for each label."""
        check_truths(targets, targets.shape[1:] == (classes,), f"of {classes} labels")


class Sequence(Task):
    """Outputs (n, tokens, c): logits of exclusive classes for each token."""

    name = "sequence"
    tokens = True
    ignored = PADDING

    def takes(self, outputs: Tensor) -> bool:
        """Tokens, and their logits."""
        return outputs.ndim >= 3

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Softmax over the last dimension."""
        return softmax(outputs, -1)

    def distribution(self, outputs: Tensor) -> Tensor:
        """A site for each token."""
        return self.probabilities(outputs).flatten(1, -2)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy over the tokens; targets of -100 do not count."""
        return mean_cross_entropy(outputs.movedim(-1, 1), targets, PADDING)

    def metrics(self, passes: Passes) -> dict[str, float]:
        """Accuracy and F1 over all tokens whose targets are not -100."""
        counts = confusion_of(((x.movedim(-1, 1), y) for x, y in passes), PADDING)
        return {"token_accuracy": accuracy(counts), "macro_f1": of_classes(counts)["macro_f1"]}


EVERY: tuple[Task, ...] = Classification(), Binary(), Regression(), Segmentation(), MultiLabel(), Sequence()
TASKS = {task.name: task for task in EVERY}
CLASS_TASKS = ("classification", "binary")  # whose examples have one class each


def task_named(given: str | Task | None) -> Task | None:
    """The task of the name that is `given`; a task as it is, and None where none is given."""
    if given is None or isinstance(given, Task):
        return given
    if isinstance(given, type) and issubclass(given, Task):
        raise TypeError(f"task={given.__name__} is a class of tasks: pass {given.__name__}()")
    if not isinstance(given, str):
        raise TypeError(f"a task is one of {', '.join(TASKS)}, or a jostle.tasks.Task; got {given!r}")
    return look_up("task", given, TASKS)


def task_for(given: str | Task | None, outputs: Tensor) -> Task:
    """The task as `given`, which must fit the `outputs`, or as their shape tells."""
    told = task_named(given)
    if told is not None:
        told.check_outputs(outputs)
        return told
    if outputs[0].numel() == 1:
        return TASKS["regression"]
    if all(size == 1 for size in outputs.shape[2:]):
        return TASKS["classification"]
    if outputs.ndim >= 4:
        return TASKS["segmentation"]
    raise ValueError(
        f"outputs of shape {tuple(outputs.shape)} could be tokens or a signal: say task='sequence' for "
        "(n, tokens, c) or task='segmentation' for (n, c, length)"
    )


def as_logits(probabilities: Tensor, task: Task) -> Tensor:
    """Return logits that have these probabilities under a `task`; numbers of a regression stay as they are."""
    if task.name in SIGMOID_TASKS:
        return probabilities.logit(SMALLEST_DOUBT)
    return probabilities.clamp(min=TINY).log() if task.has_classes else probabilities


def look_like_probabilities(outputs: Tensor, task: Task) -> bool:
    """Whether outputs of a classification task are probabilities already; logits are so by accident only.

    Logits of an untrained network may lie between 0 and 1. So a sigmoid is assumed only for 16 numbers or more, some of
    them below 0.1 and some above 0.9.
    """
    if not task.has_classes or not bool(((outputs >= 0) & (outputs <= 1)).all()):
        return False
    if task.name in SIGMOID_TASKS:
        return outputs.numel() >= 16 and bool(outputs.min() < 0.1) and bool(outputs.max() > 0.9)
    total = outputs.sum(-1 if task.tokens else 1)
    return outputs.ndim > 1 and bool(((total - 1).abs() < 1e-4).all())
