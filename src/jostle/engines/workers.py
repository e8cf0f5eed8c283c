"""What runs on the cluster: a worker scores portions, keeps their rows, and answers questions about them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch

from jostle.engines.beside import file_of, read_rows, write_rows
from jostle.engines.portions import Portion, Span
from jostle.engines.scorer import Order, Scorer
from jostle.selectors.shards import Offer, Shard


class Worker:
    """Rows of some portions: they never leave it, but for those that may be picked."""

    def __init__(self, order: Order, folder: str | None, key: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.scorer = Scorer(order)
        self.folder, self.key = None if folder is None else Path(folder), key
        self.fresh: dict[Span, Shard] = {}  # scored, and not yet part of a shard
        self.shards: dict[int, Shard] = {}

    def ready(self, portion: Portion) -> str:
        """A sign of life, once an example was read: what reading takes is loaded by then."""
        portion.pool(self.scorer.order.source).first(1)
        return "ready"

    def usage(self) -> tuple[float, int]:
        """Seconds of computing so far, and the number of the process."""
        return time.process_time(), os.getpid()

    def score(self, portion: Portion) -> bool:
        """Score a portion, or read its rows where they lie beside; whether it was scored."""
        path = None if self.folder is None else file_of(self.folder, self.key, portion.span)
        kept = None if path is None else read_rows(path)
        if kept is not None and len(kept) == len(portion.positions):
            places = torch.arange(portion.span.start, portion.span.stop)
            self.fresh[portion.span] = Shard(kept, places)
            return False
        shard = self.scorer.shard(portion)
        if path is not None:
            write_rows(path, shard.rows, shard.places)
        self.fresh[portion.span] = shard
        return True

    def centers(self, portion: Portion) -> Any:
        """Rows of the labelled set, where there are some."""
        found = self.scorer.centers(portion)
        return None if found is None else found.cpu()

    def settle(self, number: int, history: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Make one shard of what was scored, and tell it all that the others were told."""
        first, *others = (self.fresh[span] for span in sorted(self.fresh))
        shard = first.with_others(others)
        for news, about in history:
            getattr(shard, news)(*about)
        self.shards[number], self.fresh = shard, {}

    def answer(self, number: int, question: str, about: tuple[Any, ...]) -> Any:
        """What a shard says, on the CPU, where it can be sent."""
        return on_cpu(getattr(self.shards[number], question)(*about))


def on_cpu(answer: Any) -> Any:
    """An answer with its tensors on the CPU."""
    if isinstance(answer, Offer) or (isinstance(answer, tuple) and hasattr(answer, "_fields")):
        return type(answer)(*map(on_cpu, answer))
    return answer.to(torch.device("cpu")) if hasattr(answer, "device") else answer
