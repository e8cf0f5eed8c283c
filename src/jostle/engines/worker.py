"""Workers of a cluster: each scores portions of a pool, keeps their rows, and runs selectors' functions on them.

A portion's rows are those that one machine would give its examples, bit for bit.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from jostle.core import Embedding
from jostle.engines.portions import Candidates, Portion, Span
from jostle.engines.ray_shards import EngineError
from jostle.inference.cache import in_letters, row_identity
from jostle.inference.context import Options, QueryContext
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs, Pool
from jostle.inputs.sources import Columns, Source, mapped
from jostle.rows.geometry import Outer
from jostle.selectors.shards import Shard
from jostle.utils.files import write_whole

T = TypeVar("T")


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
                context.labeled = replace(
                    context.labeled, inputs=first
                )  # `centers` computes the others, once
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
        path = None if self.folder is None else rows_path(self.folder, self.key, portion.span)
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


def rows_path(folder: Path, key: str, span: Span) -> Path:
    """Return the file of a portion's rows."""
    return folder / f"rows-{key}-{span.start:012}-{span.stop:012}.parquet"


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
    parts = {name: to_matrix(table.column(name)) for name in table.column_names if name != "id"}
    places = torch.tensor(table.column("id").to_numpy())
    weights = parts["weight"][:, 0] if "weight" in parts else None
    if "left" in parts:
        return Shard(Outer(parts["left"], parts["right"]), places, weights=weights)
    rows = parts["row"][:, 0] if table.schema.metadata[b"shape"] == b"scores" else parts["row"]
    return Shard(rows, places, weights=weights)


def to_matrix(column: Any) -> Tensor:
    """Return a column of lists of equal length as a tensor, (n, d)."""
    numbers = column.combine_chunks()
    flat = torch.from_numpy(np.array(numbers.flatten().to_numpy(zero_copy_only=False)))
    return flat.view(len(numbers), -1)


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
