"""Rows of portions in Parquet files beside the worker that made them: what was scored once is not scored again."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jostle.engines.portions import Candidates, Span
from jostle.engines.scorer import Order
from jostle.engines.waiting import EngineError
from jostle.inputs.batches import mapped
from jostle.inputs.sources import Columns
from jostle.plumbing.files import write_whole
from jostle.rows import Outer, Rows


def key_of(order: Order, description: str) -> str:
    """What rows depend on, in a few letters: the model's numbers, the strategy, the options, the pool."""
    found = hashlib.sha256()
    for name, tensor in order.model.state_dict().items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    chosen = {key: order.options.get(key) for key in ("seed", "batch_size", "task", "mask")}
    found.update(f"{order.strategy!r} {chosen!r} {description}".encode())
    return found.hexdigest()[:16]


def file_of(folder: Path, key: str, span: Span) -> Path:
    """Where the rows of a portion lie."""
    return folder / f"rows-{key}-{span.start:012}-{span.stop:012}.parquet"


def write_rows(path: Path, rows: Rows, places: Tensor) -> None:
    """Rows as Parquet, `id` and `row`, whole or not at all."""
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
    """Rows that were written; None where there are none that can be read."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, ValueError):
        return None
    parts = {name: matrix(table.column(name)) for name in table.column_names if name != "id"}
    if "left" in parts:
        return Outer(parts["left"], parts["right"])
    return parts["row"][:, 0] if table.schema.metadata[b"shape"] == b"scores" else parts["row"]


def matrix(column: Any) -> Tensor:
    """A column of lists of equal length as a tensor, (n, d)."""
    numbers = column.combine_chunks()
    flat = torch.from_numpy(np.array(numbers.flatten().to_numpy(zero_copy_only=False)))
    return flat.view(len(numbers), -1)


def described(candidates: Candidates) -> str:
    """A pool in words that change with it: its files or its numbers, and what is excluded."""
    source, excluded = candidates.source, hashlib.sha256(candidates.excluded.numpy().tobytes()).hexdigest()
    if isinstance(source, Columns):
        found = hashlib.sha256()
        mapped(lambda array: found.update(np.ascontiguousarray(array).tobytes()), source.arrays)
        return f"{len(source)} {found.hexdigest()} {excluded}"
    stamps = getattr(getattr(source, "holder", None), "stamps", None)
    if stamps is None:
        raise EngineError(
            "rows= keeps rows for another call, which has to know that the pool is the same: give a pool of Parquet "
            "or image files, or an array, or leave rows= out"
        )
    return f"{stamps} {excluded}"
