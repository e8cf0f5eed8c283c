"""Tasks: the meaning of a model's outputs, their loss and their metrics."""

from jostle.tasks.kinds import (
    CLASS_TASKS,
    SIGMOID_TASKS,
    TASKS,
    VOID,
    Binary,
    Classification,
    MultiLabel,
    Regression,
    Segmentation,
    Sequence,
    Task,
    as_logits,
    look_like_probabilities,
    task_for,
    task_named,
)
from jostle.tasks.labels import LabelDescription, describe_labels, task_for_labels

__all__ = [
    "CLASS_TASKS",
    "SIGMOID_TASKS",
    "TASKS",
    "VOID",
    "Binary",
    "Classification",
    "LabelDescription",
    "MultiLabel",
    "Regression",
    "Segmentation",
    "Sequence",
    "Task",
    "as_logits",
    "describe_labels",
    "look_like_probabilities",
    "task_for",
    "task_for_labels",
    "task_named",
]
