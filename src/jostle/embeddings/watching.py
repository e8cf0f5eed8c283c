"""What is watched of an example while the parameters move: probabilities, features, logits or what the user says."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from torch import Tensor

from jostle.inputs import Inputs, Pool
from jostle.plumbing.names import unknown
from jostle.rows.vectors import aligned, as_vectors
from jostle.scoring.request import Request

Space = str | Callable[[Tensor], Tensor] | None
Watch = Callable[[Inputs], Tensor]  # inputs -> what is watched of their outputs, (n, d)


def watched(space: Space, grid: int, request: Request, length: int | None = None) -> Watch:
    """What is watched of an example: a named space or the user's own function of the outputs, as vectors.

    Tokens lie side by side; with a `length` those that are padding are zeros at the end.
    """
    network = request.network
    if space == "features":
        return lambda inputs: request.features_of(inputs, grid)
    if callable(space):
        function = space
    elif space == "probabilities":
        function = request.probabilities_of
    elif space == "logits":
        function = as_they_are
    else:
        raise unknown("space", space, ("probabilities", "features", "logits"))

    def watch(inputs: Inputs) -> Tensor:
        values = function(network.outputs(inputs))
        if request.task.tokens and values.ndim > 3 and not callable(space):
            values = values.flatten(1, -2)  # (n, sites, c): no map, its last dimension is classes
        if length is not None and values.ndim == 3:
            values = aligned(values, request.mask(inputs, values.shape[1]), length)
        return as_movement(values, grid)

    return watch


def as_they_are(outputs: Tensor) -> Tensor:
    """Logits as they are."""
    return outputs


def as_movement(values: Tensor, grid: int) -> Tensor:
    """Outputs as vectors: spatial maps pooled to the grid, tokens side by side."""
    return as_vectors(values, grid) if values.ndim > 3 else values.reshape(len(values), -1)


def longest_sequence(request: Request, pools: Sequence[Pool]) -> int | None:
    """The most tokens of any example that are not padding, for which the pool is read once; None where nothing pads."""
    if not request.padded:
        return None
    for read, most in request.lengths:
        if len(read) == len(pools) and all(map(operator.is_, read, pools)):
            return most
    masks = map(request.mask_in, request.batches(*pools))
    longest = max(int(mask.sum(1).max()) for mask in masks if mask is not None)
    request.lengths.append(
        (tuple(pools), longest)
    )  # the pools too, or another might come to lie where one was
    return longest
