"""Portions of a pool, and the workers of a cluster that score them: their rows are those of one machine, bit for bit.

A position counts all examples of the pool, a place only the candidates, those that are not excluded. Neither depends
on the number of portions, and no list of all of them is ever made.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from jostle.core import Embedding
from jostle.inference.context import Options, QueryContext
from jostle.inference.perturbed import in_letters, row_identity
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs, Pool
from jostle.inputs.pool import positions_in
from jostle.inputs.sources import Batched, Columns, Items, Source, Window, cut, mapped
from jostle.rows.geometry import Outer
from jostle.selectors.shards import Shard
from jostle.utils.files import write_whole

T = TypeVar("T")


class EngineError(ValueError):
    """A cluster could not do its part; the message says why and what to do."""


class Span(NamedTuple):
    """Places of a portion, from `start` up to `stop`."""

    start: int
    stop: int


@dataclass(frozen=True)
class Candidates:
    """The examples of a pool that may be picked, by place."""

    source: Source
    excluded: Tensor  # (m,) positions, ascending
    workers: int = 0  # processes that read examples on this machine
    largest: int | None = None  # batch size of the user's loader

    @classmethod
    def of(cls, pool: Any, options: Options) -> Candidates:
        """Return the examples of a pool, as `select` takes it, without those that the options exclude."""
        source, workers, largest = Pool.parts_of(
            pool, options.get("collate_fn"), options.get("num_workers", 0)
        )
        return cls(source, positions_in(options.get("exclude"), len(source)), workers, largest)

    def __len__(self) -> int:
        return len(self.source) - len(self.excluded)

    def at(self, places: Tensor) -> Pool:
        """Return the examples at some places as a pool of this process."""
        return Pool(self.source, self.positions(places), self.workers, self.largest)

    def few(self, count: int) -> Pool:
        """Return the first examples, at most `count`, as a pool of this process, read by no workers."""
        return replace(self.at(torch.arange(min(count, len(self)))), workers=0)

    def positions(self, places: Tensor) -> Tensor:
        """Return the positions of some places."""
        before = self.excluded - torch.arange(len(self.excluded))  # candidates before each that is excluded
        return places + torch.searchsorted(before, places, right=True)

    def spans(self, micro_batch: int, size: int) -> Iterator[Span]:
        """Yield portions of at least `size` examples that cut no micro-batch."""
        start = 0
        for stop in self._cuts(micro_batch, size):
            if stop - start >= size:
                yield Span(start, stop)
                start = stop
        if start < len(self):
            yield Span(start, len(self))

    def _cuts(self, micro_batch: int, size: int) -> Iterator[int]:
        starts = getattr(self.source.holder, "starts", None) if isinstance(self.source, Batched) else None
        if starts is None:
            whole = -(-size // micro_batch) * micro_batch
            yield from range(whole, len(self), whole)
            return
        for start in starts[1:]:
            yield start - int(torch.searchsorted(self.excluded, start))

    @property
    def smallest(self) -> Portion:
        """The smallest portion from the beginning."""
        return self.portion(next(self.spans(1, 1)))

    def portion(self, span: Span) -> Portion:
        """Return a portion with a reader of its examples, and of no others where the pool can be cut."""
        positions = self.positions(torch.arange(span.start, span.stop))
        return Portion(span, positions, cut_out(self.source, positions))


@dataclass(frozen=True)
class Portion:
    """Examples that are scored together."""

    span: Span
    positions: Tensor
    source: Source | None
    """Reads them by position; None: the whole pool does."""

    def pool(self, whole: Source | None) -> Pool:
        """Return the examples as a pool whose positions are those of the whole one."""
        source = self.source if self.source is not None else whole
        assert source is not None
        return Pool(source, self.positions)


def cut_out(source: Source, positions: Tensor) -> Source | None:
    """Return a source of these positions only, under the same numbers, or None where it cannot be cut."""
    start, stop = int(positions[0]), int(positions[-1]) + 1
    if isinstance(source, Columns):
        inside: Source = Columns(mapped(lambda array: cut(array, start, stop), source.arrays))
    elif isinstance(source, Items) and isinstance(source.dataset, list):
        inside = Items(cut(source.dataset, start, stop), source.collate)
    elif isinstance(source, Batched) and (few := cut(source.holder, start, stop)) is not None:
        inside = Batched(few)
    else:
        return None
    return Window(inside, start, len(source))


@dataclass(frozen=True)
class WorkerConfig:
    """Settings that every worker gets, enough to score any portion."""

    strategy: Embedding
    model: nn.Module
    options: Options
    """Options of the call, with its seed and micro-batch size."""
    example: Inputs
    """The first examples of the pool, which show the model's shapes to every worker alike."""
    probe: list[Inputs]
    """Micro-batches of the first few examples, on which every worker tries what the model reads."""
    source: Source | None
    """The whole pool, where portions cannot be cut out of it."""


class PortionScorer:
    """Scores portions with one copy of the model, so that all get the same perturbations, masks and draws."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.copy_inputs = False  # True once the model was seen to write into its inputs
        self.runner: ModelRunner | None = None

    def shard(self, portion: Portion) -> Shard:
        """Return the rows of a portion with their places."""

        def embed(context: QueryContext) -> Shard:
            if context.labeled is not None and len(context.labeled):
                first = context.labeled.inputs.take(torch.arange(1))  # shows that there are some
                context.labeled = replace(context.labeled, inputs=first)  # `centers` computes the others
            places = torch.arange(portion.span.start, portion.span.stop)
            embedded = self.config.strategy.embedding(context)
            return Shard(embedded.rows, places, weights=embedded.weights)

        return self.run_in_context(embed, portion.pool(self.config.source))

    def centers(self, portion: Portion) -> Tensor | None:
        """Return rows of the labeled set, where the strategy starts from them."""
        pool = portion.pool(self.config.source)
        few = pool.take(torch.arange(min(2, len(pool))))
        found: Tensor | None = self.run_in_context(lambda r: self.config.strategy.embedding(r).centers, few)
        return found

    def run_in_context(self, function: Callable[[QueryContext], T], pool: Pool) -> T:
        """Run a function in the context of a portion, with the one copy of the model that this worker has."""
        config, strategy = self.config, self.config.strategy

        def work(context: QueryContext) -> T:
            if self.runner is None or context.copy_inputs != self.copy_inputs:
                self.copy_inputs = context.copy_inputs
                device = config.options.get("device")
                self.runner = context.runner_on(device, config.model, config.example)
            context.runner = self.runner
            context.probe = [self.runner.prepared(inputs) for inputs in config.probe]
            return function(context)

        context = QueryContext.create(config.model, pool, config.options, strategy.head, strategy.outputs)
        context.copy_inputs = self.copy_inputs
        return context.run(work)


class Worker:
    """An actor that holds the rows of some portions; only candidates for picks leave it."""

    def __init__(self, config: WorkerConfig, folder: str | None, key: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.scorer = PortionScorer(config)
        self.folder, self.key = None if folder is None else Path(folder), key
        self.scored: dict[Span, Shard] = {}  # not yet part of a shard
        self.shards: dict[int, Shard] = {}

    def ready(self, portion: Portion) -> str:
        """Return once an example was read, so that all that reading needs is loaded."""
        portion.pool(self.scorer.config.source).first(1)
        return "ready"

    def usage(self) -> tuple[float, int]:
        """Return the seconds of computing so far, and the process id."""
        return time.process_time(), os.getpid()

    def score(self, portion: Portion) -> bool:
        """Score a portion, or read its rows from a file; return whether it was scored."""
        start, stop = portion.span
        file = f"rows-{self.key}-{start:012}-{stop:012}.parquet"
        path = None if self.folder is None else self.folder / file
        kept = None if path is None else read_shard(path)
        if kept is not None and len(kept) == len(portion.positions):
            self.scored[portion.span] = kept
            return False
        shard = self.scorer.shard(portion)
        if path is not None:
            write_shard(path, shard)
        self.scored[portion.span] = shard
        return True

    def centers(self, portion: Portion) -> Any:
        """Return rows of the labeled set, where there are some."""
        found = self.scorer.centers(portion)
        return None if found is None else found.cpu()

    def build_shard(self, number: int, history: Sequence[Callable[[Shard], None]]) -> None:
        """Make one shard of all portions scored since the last one, and repeat what changed the other shards."""
        shard = Shard.merge([self.scored[span] for span in sorted(self.scored)])
        for change in history:
            change(shard)
        self.shards[number], self.scored = shard, {}

    def run(self, number: int, function: Callable[[Shard], Any]) -> Any:
        """Run a function on a shard; return its result with tensors on the CPU."""
        return to_cpu(function(self.shards[number]))


def to_cpu(result: Any) -> Any:
    """Return a result with its tensors on the CPU."""
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*map(to_cpu, result))
    return result.to(torch.device("cpu")) if hasattr(result, "device") else result


def cache_key(config: WorkerConfig, pool: str) -> str:
    """Return a short hash of all that rows depend on: the model, the strategy, the options and the pool."""
    chosen = {key: in_letters(config.options.get(key)) for key in ("seed", "batch_size", "task", "mask")}
    call = {"strategy": config.strategy.name, "pool": pool, **chosen}
    identity = call | row_identity(config.strategy, config.model)
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def write_shard(path: Path, shard: Shard) -> None:
    """Write rows as Parquet with columns `id`, `row` and perhaps `weight`, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = shard.rows
    parts = {"left": rows.left, "right": rows.right} if isinstance(rows, Outer) else {"row": rows}
    if shard.weights is not None:
        parts["weight"] = shard.weights
    columns: dict[str, Any] = {"id": pa.array(shard.places.cpu().numpy())}
    for name, part in parts.items():
        flat = part.detach().cpu().contiguous()
        width = 1 if flat.ndim == 1 else flat.shape[1]
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(flat.flatten().numpy()), width)
    kept = io.BytesIO()
    shape = "scores" if isinstance(rows, Tensor) and rows.ndim == 1 else "rows"
    pq.write_table(pa.table(columns).replace_schema_metadata({"shape": shape}), kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, kept.getvalue())


def read_shard(path: Path) -> Shard | None:
    """Return the rows of a file, with their places and weights, or None if there is no file that can be read."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, ValueError):
        return None
    parts = {}
    for name in {*table.column_names} - {"id"}:
        lists = table.column(name).combine_chunks()
        numbers = np.array(lists.flatten().to_numpy(zero_copy_only=False))
        parts[name] = torch.from_numpy(numbers).view(len(lists), -1)  # (n, d)
    places = torch.tensor(table.column("id").to_numpy())
    weights = parts["weight"][:, 0] if "weight" in parts else None
    if "left" in parts:
        return Shard(Outer(parts["left"], parts["right"]), places, weights=weights)
    rows = parts["row"][:, 0] if table.schema.metadata[b"shape"] == b"scores" else parts["row"]
    return Shard(rows, places, weights=weights)


def describe_pool(candidates: Candidates) -> str:
    """Return a text that changes with the pool: with its files or numbers, and with the excluded examples."""
    source, excluded = candidates.source, hashlib.sha256(candidates.excluded.numpy().tobytes()).hexdigest()
    if isinstance(source, Columns):
        found = hashlib.sha256()
        mapped(lambda array: found.update(np.ascontiguousarray(array).tobytes()), source.arrays)
        return f"{len(source)} {found.hexdigest()} {excluded}"
    stamps = getattr(getattr(source, "holder", None), "stamps", None)
    if stamps is None:
        raise EngineError(
            "cache_folder= keeps rows for a later call, which must recognize the pool: pass a pool of Parquet or image "
            "files, or an array, or leave cache_folder= out"
        )
    return f"{stamps} {excluded}"
