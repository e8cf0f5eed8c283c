"""Arrays in place of a model.

Arrays of probabilities and features are seen as a network without weights, so every strategy that asks a context for no
more than these works on them unchanged.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from jostle.inputs import Inputs, SparseRows
from jostle.tasks import SIGMOID_TASKS, Task, as_logits, task_for

FLOATING = (np.float16, np.float32, np.float64)  # what numpy and torch both know
TOLERANCE = 1e-3  # by which probabilities may miss 1 in sum: float16 does

ONE_COLUMN = (
    "probabilities have shape {}, and need a column for each class, (n, c): say task='binary' for the probability of "
    "yes alone, task='regression' for numbers"
)


class NoOutputs(Task):
    """The task of features alone: there are no outputs, and a method that asks for them is told so."""

    name = "features"

    def probabilities(self, outputs: Tensor, targets: Tensor | None = None) -> NoReturn:
        """There are none: an error that asks for them."""
        raise ValueError(
            "this method looks at probabilities: pass probabilities=, as predict_proba gives them"
        )

    distribution = losses = probabilities


class PrecomputedModel(nn.Module):
    """Stands for a model that has been run: a column of the pool is its outputs.

    Models give logits, so probabilities are brought back to these; numbers stay as they are.
    """

    def __init__(self, column: str, task: Task, dtype: torch.dtype) -> None:
        super().__init__()
        self.column, self.task, self.dtype = column, task, dtype

    def forward(self, **columns: Tensor) -> Tensor:
        """The outputs of these examples."""
        if self.column in columns:
            return as_logits(columns[self.column].double(), self.task).to(self.dtype)
        if isinstance(self.task, NoOutputs) or not self.task.has_classes:
            anything = next(iter(columns.values()))
            return anything.new_zeros(len(anything), 1)  # nobody reads them, but a network has some
        raise ValueError(
            f"the labeled examples need {self.column}, too: labeled={{'features': ..., '{self.column}': ...}}"
        )


def precomputed_features(model: nn.Module, inputs: Inputs) -> Tensor:
    """Features as a function of the inputs, which hold them, in the precision of the outputs."""
    if "features" not in inputs:
        raise ValueError("this method looks at features: pass features=, an array (n, d)")
    features: Tensor = inputs["features"]
    assert isinstance(model, PrecomputedModel)
    return features.to(model.dtype)


def precomputed_task(named: str | Task | None, outputs: Any) -> Task:
    """Return the task of arrays: the given one, the one that their shape tells, or that of features alone."""
    shape = np.shape(outputs)[1:] if outputs is not None else ()
    if named is None and outputs is None:
        return NoOutputs()
    if named is None and math.prod(shape) == 1:
        raise ValueError(ONE_COLUMN.format(tuple(np.shape(outputs))))
    return task_for(named, torch.zeros(2, *shape))


def array_columns(task: Task, **arrays: Any) -> dict[str, Tensor | np.ndarray]:
    """Arrays by name as a pool, each as long as the others; those that are None are left out."""
    found = {name: checked_array(name, values) for name, values in arrays.items() if values is not None}
    lengths = {name: len(array) for name, array in found.items()}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{length} of {name}" for name, length in lengths.items())
        raise ValueError(f"arrays have a row for each example; got {words}")
    for name in found.keys() - {"features"}:
        check_outputs(name, as_tensor(found[name]), task)
    return found


def as_tensor(array: Tensor | np.ndarray) -> Tensor:
    """A tensor of these numbers; what torch cannot share, being read-only or the wrong way round, is copied."""
    if isinstance(array, Tensor):
        return array
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else array.copy())


def checked_array(name: str, values: Any) -> Any:
    """Numbers (n, ...), or an error that says what arrived."""
    if hasattr(values, "toarray"):  # scipy's
        values = SparseRows(values) if name == "features" else values.toarray()
    array: Any = values if isinstance(values, Tensor | SparseRows) else np.asarray(values)
    least = 2 if name == "features" else 1
    floating = array.is_floating_point() if isinstance(array, Tensor) else array.dtype in FLOATING
    if array.ndim < least or not floating or 0 in array.shape[1:]:
        shape = "(n, d)" if name == "features" else "(n, c)"
        raise TypeError(
            f"{name} is an array {shape} of floating numbers; got {array.dtype} of shape {tuple(array.shape)}"
        )
    return array


def check_outputs(name: str, values: Tensor, task: Task) -> None:
    """Refuse what cannot be probabilities of this task, with the first example that shows it."""
    if not task.has_classes or not len(values):
        return
    outside = (values < -TOLERANCE) | (values > 1 + TOLERANCE) | values.isnan()
    bad = outside.reshape(len(values), -1).any(1)
    wrong = "are not all in 0 to 1"
    if task.name not in SIGMOID_TASKS and not bad.any():
        dim = -1 if task.tokens else 1
        if values.shape[dim] < 2:
            raise ValueError(ONE_COLUMN.format(tuple(values.shape)))
        bad = ((values.sum(dim) - 1).abs() > TOLERANCE).reshape(len(values), -1).any(1)
        wrong = "do not sum to 1"
    if bad.any():
        first = int(bad.nonzero()[0, 0])
        numbers = [f"{value:.3g}" for value in values[first].flatten().tolist()]
        shown = ", ".join(numbers[:4] + ["..."] * (len(numbers) > 4))
        raise ValueError(
            f"{name} of example {first} {wrong}: {shown}; pass what predict_proba gives, or "
            "the softmax of decision_function's numbers"
        )


def common_type(*arrays: Tensor | np.ndarray) -> torch.dtype:
    """The precision that holds all of these, float32 at least."""
    kinds = (as_tensor(array[:0]).dtype for array in arrays)
    return reduce(torch.promote_types, kinds, torch.float32)
