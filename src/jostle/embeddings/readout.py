"""The part of the outputs whose deviations are recorded: probabilities, features, logits or a user's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from jostle.inference.context import QueryContext
from jostle.inputs import Inputs, Pool
from jostle.rows.geometry import aligned, as_vectors
from jostle.utils.names import unknown

Space = str | Callable[[Tensor], Tensor] | None
Readout = Callable[[Inputs], Tensor]  # inputs -> f(x), (n, d)


def readout(space: Space, grid: int, context: QueryContext, pools: Sequence[Pool]) -> Readout:
    """Return the function from inputs to vectors (n, d) in an output space.

    Tokens lie side by side, as many as the longest example of the `pools` has; padding is zeros at the end.

    Args:
        space: "probabilities", "features", "logits", or a function of the outputs.
        grid: Average maps over a grid of this many by this many cells.
        context: The context of the query.
        pools: All examples whose rows are compared.
    """
    runner, reader = context.runner, context.reader
    longest = reader.longest_sequence(pools, context.batches)
    if space == "features":
        return lambda inputs: reader.features(inputs, grid)
    if callable(space):
        function = space
    elif space == "probabilities":
        function = reader.probabilities
    elif space == "logits":
        function = unchanged
    else:
        raise unknown("space", space, ("probabilities", "features", "logits"))

    def read(inputs: Inputs) -> Tensor:
        values = function(runner.outputs(inputs))
        if context.task.tokens and values.ndim > 3 and not callable(space):
            values = values.flatten(1, -2)  # (n, sites, c): no map, its last dimension is classes
        if longest is not None and values.ndim == 3:
            values = aligned(values, reader.mask(inputs, values.shape[1]), longest)
        return as_vectors(values, grid) if values.ndim > 3 else values.reshape(len(values), -1)

    return read


def unchanged(outputs: Tensor) -> Tensor:
    """Return logits as they are."""
    return outputs
