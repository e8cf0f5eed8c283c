"""Features of the pool and of the labelled set, from one pass so that they compare."""

from dataclasses import dataclass

from torch import Tensor

from jostle.core import Embedded, Embedding
from jostle.inputs import Pool
from jostle.scoring.request import Request


@dataclass(frozen=True, kw_only=True)
class Features(Embedding):
    """The input of the model's head, maps and tokens averaged; that of the labelled set gives centers."""

    def embedding(self, request: Request) -> Embedded:
        """Features of the pool, and those of the labelled set as centers."""
        return Embedded(*parted(request.features(*pools(request)), request))


def pools(request: Request) -> tuple[Pool, ...]:
    """The pool, and after it the labelled inputs where there are any."""
    if request.labeled is None or not len(request.labeled):
        return (request.pool,)
    return request.pool, request.labeled.inputs


def parted(rows: Tensor, request: Request) -> tuple[Tensor, Tensor | None]:
    """Rows of both sets as those of the pool and those of the labelled set."""
    n = len(request.pool)
    return rows[:n], (rows[n:] if len(rows) > n else None)


def check_memory(method: str, needed: int, allowed: int, what: str) -> None:
    """An error where a method would need more memory than its setting `memory_bytes` allows."""
    if needed > allowed:
        raise ValueError(
            f"{method} would need {needed:,} bytes for {what}, more than memory_bytes={allowed:,}: "
            "raise memory_bytes, or pass a smaller random part of the pool"
        )
