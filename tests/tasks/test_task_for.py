"""Which task outputs have, and those that they cannot have."""

import pytest
import torch

from jostle.tasks import TASKS, task_for


@pytest.mark.parametrize(
    ("task", "shape"),
    [("segmentation", (4, 3)), ("sequence", (4, 3)), ("sequence", (4,)), ("classification", (4, 7, 3)),
     ("classification", (4,))],
)  # fmt: skip
def test_outputs_that_cannot_have_a_meaning(task: str, shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=rf"task='{task}' wants outputs \(n, .*; this model's are of shape"):
        task_for(task, torch.zeros(shape))


@pytest.mark.parametrize(
    ("task", "shape"),
    [("segmentation", (4, 3, 8, 8)), ("segmentation", (4, 3, 8)), ("sequence", (4, 7, 3)), ("classification", (4, 3)),
     ("classification", (4, 3, 1, 1)), ("regression", (4,)), ("binary", (4, 1)), ("multi-label", (4, 5))],
)  # fmt: skip
def test_outputs_that_can(task: str, shape: tuple[int, ...]):
    assert task_for(task, torch.zeros(shape)) is TASKS[task]


def test_the_task_follows_from_the_shape_where_it_can():
    shapes = {
        (4, 1): "regression",
        (4, 3): "classification",
        (4, 3, 1, 1): "classification",
        (4, 3, 8, 8): "segmentation",
    }
    assert {shape: task_for(None, torch.zeros(shape)).name for shape in shapes} == shapes
    with pytest.raises(ValueError, match="could be tokens or a signal"):
        task_for(None, torch.zeros(4, 7, 3))
