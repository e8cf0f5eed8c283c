"""What a model cannot take, in words: the batch that it was given, what it said, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from jostle.inputs import Inputs, mapped

AS_TRAINED = (
    "Give it examples as it was trained on, of the same shape and order of dimensions: change the pool, "
    "or pass collate_fn="
)
BYTES = (
    "Give it numbers of the type and range that it was trained on: of bytes pass pool.float() / 255 or what else "
    "training did, of class or token numbers pool.long()"
)


class ModelInputError(RuntimeError, ValueError):
    """A model cannot take what the pool holds."""


def refused_at_first(inputs: Inputs, error: Exception) -> ModelInputError:
    """The error of a model that cannot take its very first batch."""
    said = first_line(error)
    advice = BYTES if "type" in said.partition(":")[2] else AS_TRAINED
    return ModelInputError(
        f"the model cannot take a first batch of {batch_in_words(inputs)}: {said}. {advice}"
    )


def refused_later(inputs: Inputs, taken: Inputs, error: Exception) -> ModelInputError:
    """The error of a model that cannot take inputs of another form than those that it has taken."""
    return ModelInputError(
        f"the model cannot take examples such as {one_in_words(inputs)}: {first_line(error)}. It took "
        f"{one_in_words(taken)} from the pool: give all examples that form, those of labeled= too"
    )


def batch_in_words(inputs: Inputs) -> str:
    """A batch in words, for errors."""
    if isinstance(inputs, Mapping):
        return "{" + ", ".join(f"{key}: {batch_in_words(value)}" for key, value in inputs.items()) + "}"
    if isinstance(inputs, (tuple, list)):
        return "[" + ", ".join(map(batch_in_words, inputs)) + "]"
    return f"{inputs.dtype} {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else type(inputs).__name__


def one_in_words(inputs: Inputs) -> str:
    """The first example of a batch in words."""
    return batch_in_words(mapped(lambda array: array[:1], inputs))


def first_line(error: Exception) -> str:
    """What an error is and how it begins."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
