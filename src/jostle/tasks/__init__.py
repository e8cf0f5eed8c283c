"""What a model's output means, its loss, and its metrics."""

from jostle.tasks.kinds import (
    TASKS,
    VOID,
    Classification,
    MultiLabel,
    Regression,
    Segmentation,
    Sequence,
    Task,
    task_for,
)

__all__ = [
    "TASKS",
    "VOID",
    "Classification",
    "MultiLabel",
    "Regression",
    "Segmentation",
    "Sequence",
    "Task",
    "task_for",
]
