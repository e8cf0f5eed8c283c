"""What a model's output means, its loss, and its metrics."""

from jostle.tasks.kinds import (
    CLASS_TASKS,
    TASKS,
    VOID,
    Binary,
    Classification,
    MultiLabel,
    Regression,
    Segmentation,
    Sequence,
    Task,
    task_for,
    task_named,
)

__all__ = [
    "CLASS_TASKS",
    "TASKS",
    "VOID",
    "Binary",
    "Classification",
    "MultiLabel",
    "Regression",
    "Segmentation",
    "Sequence",
    "Task",
    "task_for",
    "task_named",
]
