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

SPARE = 3  # a ranking is so many batches long: nobody waits while the next one is made
MOST_CANDIDATES = 20_000  # of a larger pool so many are drawn anew for each ranking
FIRST_CANDIDATES = 5_000  # for a first choice, which looks at more than uncertainty


def first_strategy(name: str) -> Strategy:
    """A choice without any label: cover what there is; who asks for random picks gets them from the first on."""
    from jostle import strategies

    if name == "random":
        return strategies.build(name)
    return strategies.build("max-herding" if "max-herding" in strategies.names() else "typiclust")


def next_strategy(name: str, kind: AnswerKind) -> Strategy:
    """The strategy asked for; "default" is that of this package, which depends on the kind of answer."""
    from jostle import strategies

    if name != "default" or "default" in strategies.names():
        return strategies.build(name)
    return strategies.build("lcmd" if kind == "number" else "margin-herding")


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
