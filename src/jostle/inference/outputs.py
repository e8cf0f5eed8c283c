"""The tensor of logits among what a model returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from torch import Tensor

from jostle.tasks import Task, as_logits, task_for

Read = Callable[[Any], Tensor]  # the output tensor of what a model returned
Outputs = Read | Literal["logits", "probabilities"] | None  # the setting `outputs` of a strategy


def output_of(returned: Any) -> Tensor:
    """The output among what a model returned: a tensor, the first of several, or `logits`."""
    if isinstance(returned, Tensor):
        return returned
    if isinstance(returned, Mapping):
        for key in ("logits", "out"):
            if key in returned:
                return output_of(returned[key])
    elif getattr(returned, "logits", None) is not None:
        return output_of(returned.logits)
    elif isinstance(returned, (tuple, list)) and returned:
        return output_of(returned[0])
    fields = f" with {', '.join(map(str, returned))}" if isinstance(returned, Mapping) else ""
    raise TypeError(
        f"the model returned {type(returned).__name__}{fields}, and no output tensor in it: "
        "pass outputs= a function from what it returns to a tensor (n, ...)"
    )


def output_reader(setting: Outputs, task: str | Task | None) -> Read | None:
    """Return the function that reads logits from what a model returns, as the setting `outputs` says.

    Args:
        setting: A function, "logits", "probabilities", or None.
        task: The task of the call; None: inferred from the shape of outputs.
    """
    if setting == "probabilities":
        return partial(logits_of_probabilities, task)
    return setting if callable(setting) else None


def logits_of_probabilities(task: str | Task | None, returned: Any) -> Tensor:
    """Turn the probabilities that a model returned into logits of a `task`; one probability is that of yes."""
    output = output_of(returned)
    if not bool(((output >= 0) & (output <= 1)).all()):
        found = f"{output.min().item():.3g} to {output.max().item():.3g}"
        raise ValueError(
            f"outputs='probabilities' must be between 0 and 1; got {found}. Use outputs='logits'"
        )
    given = task or ("binary" if output[:1].numel() == 1 else None)
    batch = output.unsqueeze(-1) if output.ndim == 1 else output
    return as_logits(output.double(), task_for(given, batch)).to(output.dtype)


def batched(output: Any, size: int) -> Tensor:
    """The output with its batch dimension, which `squeeze` drops when a batch holds one example."""
    if not isinstance(output, Tensor):
        raise TypeError(
            f"expected a tensor of outputs; got {type(output).__name__}: pass outputs= a function"
        )
    if size == 1 and (output.ndim == 0 or len(output) != 1):
        output = output.unsqueeze(0)
    if output.ndim == 0 or len(output) != size:
        raise ValueError(
            f"the model returned shape {tuple(output.shape)} for {size} examples; "
            "the first dimension must be the examples (pass outputs= to rearrange)"
        )
    tensor: Tensor = output
    return tensor
