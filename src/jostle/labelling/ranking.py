"""What to ask next: the strategies, the first of which needs no label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jostle.rng import derive

if TYPE_CHECKING:
    from torch import nn

    from jostle.labelling.answers import AnswerKind
    from jostle.strategies import Strategy

FIRST = "max-herding"  # without any label
NUMBERS = (
    "typiclust"  # in place of the default, which goes for outliers among rows: docs/labelling.md has figures
)
SPARE = 3  # a ranking is so many batches long: nobody waits while the next one is made
MOST_CANDIDATES = 20_000  # of a larger pool so many are drawn anew for each ranking
FIRST_CANDIDATES = 5_000  # for a first choice, which looks at more than uncertainty


def first_strategy(name: str) -> Strategy:
    """A choice without any label: cover what there is; who asks for random picks gets them from the first on."""
    from jostle import strategies

    return strategies.build(name if name == "random" else FIRST)


def next_strategy(name: str, kind: AnswerKind) -> Strategy:
    """The strategy asked for; "default" is that of the package, but for numbers."""
    from jostle import strategies

    return strategies.build(NUMBERS if name == "default" and kind == "number" else name)


def check_strategy(name: str) -> None:
    """An error where there is no such strategy."""
    next_strategy(name, "one")


def picks(
    strategy: Strategy,
    network: nn.Module,
    pool: Any,
    n: int,
    *,
    candidates: NDArray[np.int64],
    most: int,
    seed: int,
    **call: Any,
) -> list[int]:
    """The places in the pool that a strategy picks among the candidates, best first."""
    if len(candidates) > most:
        draw = np.random.default_rng(derive(seed, "candidates"))
        candidates = np.sort(draw.choice(candidates, most, replace=False))
    if not len(candidates):
        return []
    left_out = np.setdiff1d(np.arange(len(pool)), candidates)
    query = strategy.select(
        network, pool, min(n, len(candidates)), exclude=left_out, seed=seed, progress=False, **call
    )
    return [int(place) for place in query.indices]
