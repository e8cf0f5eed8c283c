"""Rows of portions in Parquet files of the worker that scored them, so that a later call reads them instead."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from jostle.engines.cluster import EngineError
from jostle.engines.portions import Candidates, Span
from jostle.inference.cache import in_letters, row_identity
from jostle.inputs.batches import mapped
from jostle.inputs.sources import Columns
from jostle.rows import Outer, Rows
from jostle.utils.files import write_whole

if TYPE_CHECKING:
    from jostle.engines.worker import WorkerConfig


def cache_key(config: WorkerConfig, pool: str) -> str:
    """Return a short hash of all that rows depend on: the model, the strategy, the options and the pool."""
    chosen = {key: in_letters(config.options.get(key)) for key in ("seed", "batch_size", "task", "mask")}
    call = {"strategy": config.strategy.name, "pool": pool, **chosen}
    identity = call | row_identity(config.strategy, config.model)
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def rows_path(folder: Path, key: str, span: Span) -> Path:
    """Return the file of a portion's rows."""
    return folder / f"rows-{key}-{span.start:012}-{span.stop:012}.parquet"


def write_rows(path: Path, rows: Rows, places: Tensor) -> None:
    """Write rows as Parquet with columns `id` and `row`, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = {"left": rows.left, "right": rows.right} if isinstance(rows, Outer) else {"row": rows}
    columns: dict[str, Any] = {"id": pa.array(places.cpu().numpy())}
    for name, part in parts.items():
        flat = part.detach().cpu().contiguous()
        width = 1 if flat.ndim == 1 else flat.shape[1]
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(flat.flatten().numpy()), width)
    kept = io.BytesIO()
    shape = "scores" if isinstance(rows, Tensor) and rows.ndim == 1 else "rows"
    pq.write_table(pa.table(columns).replace_schema_metadata({"shape": shape}), kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, kept.getvalue())


def read_rows(path: Path) -> Rows | None:
    """Return the rows of a file, or None if there is no file that can be read."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, ValueError):
        return None
    parts = {name: to_matrix(table.column(name)) for name in table.column_names if name != "id"}
    if "left" in parts:
        return Outer(parts["left"], parts["right"])
    return parts["row"][:, 0] if table.schema.metadata[b"shape"] == b"scores" else parts["row"]


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
