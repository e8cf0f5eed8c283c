"""The task that labels and outputs allow together, and labels that no output can have."""

import pytest
import torch
from torch import Tensor

from jostle.tasks import TASKS, describe_labels, task_for, task_for_labels

CLASSES = torch.tensor([0, 2, 1, 2])
MULTI_HOT = torch.tensor([[1, 0, 1], [0, 0, 1], [0, 0, 0]])
ONE_HOT = torch.eye(3)
NUMBERS = torch.tensor([[0.1, -2.0, 3.5], [1.0, 0.5, 2.0]])


@pytest.mark.parametrize(
    ("targets", "kind", "shape"),
    [
        (CLASSES, "classes", ()),
        (CLASSES[:, None], "classes", ()),
        (torch.tensor([0.0, 1.0, 1.0]), "yes or no", ()),
        (torch.tensor([0.5, 1.0]), "numbers", ()),
        (torch.tensor([-1, 2]), "numbers", ()),
        (MULTI_HOT, "multi-hot", (3,)),
        (MULTI_HOT.float(), "multi-hot", (3,)),
        (MULTI_HOT.bool(), "multi-hot", (3,)),
        (ONE_HOT, "one-hot", (3,)),
        (torch.tensor([[0.2, 0.3, 0.5]]), "shares", (3,)),
        (NUMBERS, "numbers", (3,)),
        (torch.tensor([[4, 2, -100], [0, -100, -100]]), "sites", (3,)),
        (torch.tensor([[[4, 255], [0, 1]]]), "sites", (2, 2)),
    ],
)
def test_labels_are_described_by_shape_and_values(targets: Tensor, kind: str, shape: tuple[int, ...]) -> None:
    found = describe_labels(targets)
    assert (found.kind, found.shape) == (kind, shape)


def test_labels_that_no_loss_counts_are_out_of_the_range() -> None:
    found = describe_labels(torch.tensor([[[4, 255], [0, 1]]]))
    assert (found.low, found.high) == (0, 4)


@pytest.mark.parametrize("targets", [torch.empty(0), torch.tensor([1.0, float("nan")])])
def test_no_labels_and_labels_that_are_no_numbers_are_refused(targets: Tensor) -> None:
    with pytest.raises(ValueError, match="labels"):
        describe_labels(targets)


@pytest.mark.parametrize(
    ("targets", "shape", "task"),
    [
        (CLASSES, (5, 3), "classification"),
        (CLASSES, (5, 3, 1, 1), "classification"),
        (torch.tensor([0, 1]), (5, 2), "classification"),
        (torch.tensor([0, 1, 1]), (5, 1), "binary"),
        (torch.tensor([0.0, 1.0]), (5,), "binary"),
        (torch.tensor([3, 17]), (5, 1), "regression"),
        (torch.tensor([0.3, 1.7]), (5,), "regression"),
        (MULTI_HOT, (5, 3), "multi-label"),
        (NUMBERS, (5, 3), "regression"),
        (torch.tensor([[4, 2], [0, -100]]), (5, 2, 6), "sequence"),
        (torch.tensor([[1, 0], [0, 1]]), (5, 2, 6), "sequence"),
        (torch.tensor([[4, 2], [0, 255]]), (5, 6, 2), "segmentation"),
        (torch.zeros(4, 8, 8, dtype=torch.int64), (5, 3, 8, 8), "segmentation"),
    ],
)
def test_the_task_follows_from_both(targets: Tensor, shape: tuple[int, ...], task: str) -> None:
    assert task_for_labels(None, torch.zeros(shape), targets).name == task


@pytest.mark.parametrize(
    ("given", "targets", "shape", "words"),
    [
        (None, torch.tensor([5, 6, 7]), (5, 3), "labels run from 5 to 7, but there are 3 classes"),
        ("classification", torch.tensor([5, 6, 7]), (5, 3), "labels run from 5 to 7"),
        ("classification", NUMBERS, (5, 3), "incompatible with task='classification'"),
        ("classification", ONE_HOT.long(), (5, 3), "one class number; got one-hot"),
        (None, ONE_HOT, (5, 3), r"labels.argmax\(1\)"),
        (None, torch.tensor([[0.2, 0.3, 0.5]]), (5, 3), "shares.*incompatible"),
        (None, torch.tensor([0.5, 2.5]), (5, 3), "whole numbers from 0 to 2"),
        (None, MULTI_HOT, (5, 4), "incompatible"),
        (None, NUMBERS, (5, 1), "incompatible"),
        ("regression", NUMBERS, (5, 1), "a label has 3 numbers, an output 1"),
        ("binary", torch.tensor([0, 2]), (5, 1), "expected 0 or 1"),
        (None, CLASSES, (5, 3, 8, 8), "a label for each pixel or token"),
        (None, torch.zeros(4, 7, 7, dtype=torch.int64), (5, 3, 8, 8), "incompatible"),
        (None, torch.tensor([[4, 2], [0, 3]]), (5, 2, 2), "could be tokens or a signal"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    given: str | None, targets: Tensor, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        task_for_labels(given, torch.zeros(shape), targets)


@pytest.mark.parametrize(
    ("task", "shape"),
    [("segmentation", (4, 3)), ("sequence", (4, 3)), ("sequence", (4,)), ("classification", (4, 7, 3)),
     ("classification", (4,))],
)  # fmt: skip
def test_outputs_that_cannot_have_a_meaning(task: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"task='{task}' wants outputs \(n, .*; this model's are of shape"):
        task_for(task, torch.zeros(shape))


@pytest.mark.parametrize(
    ("task", "shape", "told"),
    [("segmentation", (4, 3, 8, 8), True), ("segmentation", (4, 3, 8), False), ("sequence", (4, 7, 3), False),
     ("classification", (4, 3), True), ("classification", (4, 3, 1, 1), True), ("regression", (4,), True),
     ("regression", (4, 1), True), ("binary", (4, 1), False), ("multi-label", (4, 5), False)],
)  # fmt: skip
def test_outputs_have_the_meaning_that_is_given_or_that_their_shape_tells(
    task: str, shape: tuple[int, ...], told: bool
) -> None:
    assert task_for(task, torch.zeros(shape)) is TASKS[task]
    if told:
        assert task_for(None, torch.zeros(shape)) is TASKS[task]
    elif len(shape) == 3:
        with pytest.raises(ValueError, match="could be tokens or a signal"):
            task_for(None, torch.zeros(shape))
