"""A cache of rows in a file: a call that was killed resumes, one that differs is refused.

A journal lies beside the rows. Its first line says which call the rows are of. Each further line says how many
examples are done, with checksums of their inputs and of their rows; inputs are read again before the work resumes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from jostle.inference.context import QueryContext
from jostle.inputs import Inputs, arrays, count
from jostle.rows.geometry import check_rows_file, mapped_rows, rows_again
from jostle.utils.files import check_target

IRRELEVANT = ("cache_path", "buffer_bytes", "memory_bytes", "selector")  # settings that change no row
DEEPEST = 6  # functions and holders in each other that are looked into
OURS = b'{"rows of jostle"'

Line = tuple[int, str, str]  # examples done by the end of a chunk, checksums of its inputs and of its rows


@dataclass
class RowCache:
    """Rows in a file, how many of them are done, and the call that they are of."""

    rows: Path
    identity: dict[str, Any]
    done: int = 0  # examples
    chunks: tuple[Line, ...] = ()
    replaced: str = ""  # a message on finished rows of a different call that were removed

    @classmethod
    def of(cls, settings: Any, context: QueryContext, examples: int) -> RowCache:
        """The cache at the `cache_path` of a strategy's `settings`, for this many examples."""
        call = {
            "examples": examples,
            "seed": context.seed,
            "micro-batch": context.micro_batch,
            "device": str(context.device),
            "task": context.task.name,
            "mask": in_letters(context.options.get("mask")),
        }
        return cls(Path(settings.cache_path), call | row_identity(settings, context.model))

    @property
    def path(self) -> Path:
        """The journal beside the rows."""
        return self.rows.with_name(self.rows.name + ".journal")

    def open(self, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
        """Open the rows, as far as an earlier call has come, or zeros in a new file."""
        check_rows_file(self.rows)
        check_target(
            self.path, lambda head: head.startswith(OURS), advice="remove it, or name another cache_path="
        )
        found, chunks = self._read()
        done = chunks[-1][0] if chunks else 0
        if found == self.identity and (rows := rows_again(self.rows, shape, dtype)) is not None:
            self.chunks = tuple(chunks)
            return rows
        if found is not None and found != self.identity and done < found["examples"] and self.rows.exists():
            raise ValueError(
                f"{self.rows} holds {done:,} of {found['examples']:,} rows of another call: "
                f"{differences(found, self.identity)}; make the same call to resume it, or remove it to begin anew"
            )
        if found is not None and found != self.identity and self.rows.exists():
            self.replaced = (
                f"{self.rows} held rows of another call, which make way: {differences(found, self.identity)}"
            )
        rows = mapped_rows(self.rows, shape, dtype)
        self._write(())
        return rows

    def resume(self, batches: Iterator[Inputs], rows: Tensor) -> int:
        """Return how many examples are done, once their inputs were read again and compared.

        Rows whose checksum differs, and all after them, are computed again.
        """
        for number, (end, inputs_digest, rows_digest) in enumerate(self.chunks):
            before = self.done
            if digest(rows[before:end]) != rows_digest:
                self._write(self.chunks[:number])
                break
            seen = Digest()
            while self.done < end and (inputs := next(batches, None)) is not None:
                seen.add(inputs)
                self.done += count(inputs)
            if seen.hex() != inputs_digest or self.done != end:
                raise ValueError(
                    f"the pool has changed: its examples {before:,} to {end - 1:,} are not those whose rows are in "
                    f"{self.rows}; pass the pool as it was, or remove that file to begin anew"
                )
        return self.done

    def add(self, batches: list[Inputs], rows: Tensor) -> None:
        """Record that the `rows` of these batches are written."""
        seen = Digest()
        for inputs in batches:
            seen.add(inputs)
            self.done += count(inputs)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([self.done, seen.hex(), digest(rows)]) + "\n")

    def _write(self, lines: tuple[Line, ...]) -> None:
        """Begin the journal anew with these lines."""
        text = [json.dumps({"rows of jostle": self.identity}), *map(json.dumps, lines)]
        self.path.write_text("\n".join(text) + "\n", encoding="utf-8")

    def _read(self) -> tuple[dict[str, Any] | None, list[Line]]:
        """Read the journal, up to a last line that may not be whole."""
        if not self.path.is_file():
            return None, []
        first, *lines = self.path.read_text(encoding="utf-8").split("\n")[:-1] or [""]
        try:
            known = [(int(end), str(read), str(written)) for end, read, written in map(json.loads, lines)]
            return json.loads(first)["rows of jostle"], known
        except (ValueError, KeyError, TypeError):
            return None, []


def digest(tensor: Tensor) -> str:
    """A checksum of one tensor."""
    seen = Digest()
    seen.tensor(tensor)
    return seen.hex()


class Digest:
    """A checksum of inputs, the same however they come in batches of the same size."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=16)

    def add(self, inputs: Inputs) -> None:
        """A batch of them."""
        for array in arrays(inputs):
            self.tensor(array)

    def tensor(self, tensor: Tensor) -> None:
        """One tensor: its shape, its type, its numbers."""
        self.hash.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
        plain = tensor.detach().cpu().contiguous().reshape(-1)
        self.hash.update(np.asarray(plain.view(torch.uint8)).data)

    def hex(self) -> str:
        """The checksum in letters."""
        return self.hash.hexdigest()


def row_identity(settings: Any, model: nn.Module) -> dict[str, Any]:
    """Everything that rows depend on beside the call: the model, the strategy's settings, the versions.

    Args:
        settings: A strategy, which is a dataclass.
        model: The user's model.
    """
    values = {each.name: in_letters(getattr(settings, each.name)) for each in fields(settings)}
    return {
        "model": fingerprint(model),
        "settings": {name: value for name, value in values.items() if name not in IRRELEVANT},
        "versions": {"jostle": version("jostle"), "torch": str(torch.__version__)},
    }


def fingerprint(model: nn.Module) -> str:
    """A checksum of a model's weights and of what it is made of."""
    seen = Digest()
    seen.hash.update(str(model).encode())
    unsaved = dict(model.named_buffers())  # some of which no file keeps
    for name, tensor in (unsaved | model.state_dict()).items():
        seen.hash.update(name.encode())
        if isinstance(tensor, Tensor):
            seen.tensor(tensor)
    return seen.hex()


def in_letters(value: Any) -> Any:
    """A setting in letters: a function by its name and a checksum of its code, not by its place in memory."""
    if callable(value):
        return f"{name_of(value)} {hashlib.blake2b(in_full(value).encode(), digest_size=4).hexdigest()}"
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def name_of(value: Any) -> str:
    """Return the name of a function, or of the type of anything else."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def in_full(value: Any, depth: int = 0) -> str:
    """Return the parts that decide how a function behaves, equal in every process: its code and bound values.

    What it finds under global names is not looked at, nor what lies deeper than a few functions in each other.
    """
    if isinstance(value, nn.Module):
        return fingerprint(value)
    if isinstance(value, (Tensor, np.ndarray)):
        return digest(torch.as_tensor(value))
    if isinstance(value, (str, bytes, int, float, complex, type(None))):
        return repr(value)
    parts = [in_full(part, depth + 1) for part in parts_of(value)] if depth < DEEPEST else []
    return f"{name_of(value)}({', '.join(sorted(parts) if isinstance(value, (set, frozenset)) else parts)})"


def parts_of(value: Any) -> list[Any]:
    """Return the parts of a function, a piece of code, a callable object or a container."""
    if isinstance(value, CodeType):
        return [value.co_code, value.co_names, value.co_consts]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (tuple, list, set, frozenset)):
        return list(value)
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, *cells]
    return [getattr(value, "__dict__", None)] if callable(value) and not isinstance(value, type) else []


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe the differences between two identities: was -> is."""
    flat = [{**each, **each.get("settings", {}), **each.get("versions", {})} for each in (old, new)]
    names = [name for name in {**flat[0], **flat[1]} if name not in ("settings", "versions")]
    return ", ".join(
        f"{name} {flat[0].get(name)} -> {flat[1].get(name)}"
        for name in names
        if flat[0].get(name) != flat[1].get(name)
    )
