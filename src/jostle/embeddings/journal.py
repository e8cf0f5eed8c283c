"""What is done of a long scoring, written beside its rows: a call that was killed goes on, one that differs is refused.

The first line of a journal says what the rows are of. Each further line says how many examples are done, and what their
inputs were; they are read again before the work goes on, which is cheap beside jolting them.
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
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from jostle.inputs import Inputs, arrays, count
from jostle.plumbing.files import check_target
from jostle.rows.mapped import check_rows_file, mapped_rows, rows_again
from jostle.scoring.request import Request

if TYPE_CHECKING:
    from jostle.embeddings.deviations import Deviations

NO_MATTER = ("rows_file", "buffer_bytes", "memory_bytes", "selector", "race")  # settings that change no row
DEEPEST = 6  # functions and holders in each other that are looked into
OURS = b'{"rows of jostle"'


@dataclass
class Journal:
    """How far the rows in a file are, and whose they are."""

    rows: Path
    identity: dict[str, Any]
    done: int = 0  # examples
    chunks: tuple[tuple[int, str], ...] = ()  # (examples done by its end, what its inputs were)
    replaced: str = ""  # whose finished rows made way, in words

    @property
    def path(self) -> Path:
        """The journal beside the rows."""
        return self.rows.with_name(self.rows.name + ".journal")

    def opened(self, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
        """The rows, as far as an earlier call has come, or zeros in a new file."""
        check_rows_file(self.rows)
        check_target(
            self.path, lambda head: head.startswith(OURS), advice="remove it, or name another rows_file="
        )
        found, chunks = self._read()
        done = chunks[-1][0] if chunks else 0
        if found == self.identity and (rows := rows_again(self.rows, shape, dtype)) is not None:
            self.chunks = tuple(chunks)
            return rows
        if found is not None and found != self.identity and done < found["examples"] and self.rows.exists():
            raise ValueError(
                f"{self.rows} holds {done:,} of {found['examples']:,} rows of another call: "
                f"{differences(found, self.identity)}; make the same call to go on, or remove it to begin anew"
            )
        if found is not None and found != self.identity and self.rows.exists():
            self.replaced = (
                f"{self.rows} held rows of another call, which make way: {differences(found, self.identity)}"
            )
        rows = mapped_rows(self.rows, shape, dtype)
        self.path.write_text(json.dumps({"rows of jostle": self.identity}) + "\n", encoding="utf-8")
        return rows

    def known(self, batches: Iterator[Inputs]) -> Iterator[int]:
        """Read what is done once more, chunk by chunk, and compare; yields how many examples each chunk has."""
        for end, digest in self.chunks:
            seen, before = Digest(), self.done
            while self.done < end and (inputs := next(batches, None)) is not None:
                seen.add(inputs)
                self.done += count(inputs)
            if seen.hex() != digest or self.done != end:
                raise ValueError(
                    f"the pool has changed: its examples {before:,} to {end - 1:,} are not those whose rows are in "
                    f"{self.rows}; pass the pool as it was, or remove that file to begin anew"
                )
            yield end - before

    def add(self, batches: list[Inputs]) -> None:
        """The rows of these are written."""
        seen = Digest()
        for inputs in batches:
            seen.add(inputs)
            self.done += count(inputs)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([self.done, seen.hex()]) + "\n")

    def _read(self) -> tuple[dict[str, Any] | None, list[tuple[int, str]]]:
        """What the journal says, up to a last line that may not be whole."""
        if not self.path.is_file():
            return None, []
        first, *lines = self.path.read_text(encoding="utf-8").split("\n")[:-1] or [""]
        try:
            return json.loads(first)["rows of jostle"], [tuple(json.loads(line)) for line in lines]
        except (ValueError, KeyError, TypeError):
            return None, []


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


def identity(settings: Deviations, request: Request, examples: int) -> dict[str, Any]:
    """All that rows depend on but the inputs, in words that can be compared."""
    values = {each.name: in_letters(getattr(settings, each.name)) for each in fields(settings)}
    return {
        "examples": examples,
        "seed": request.seed,
        "micro-batch": request.micro_batch,
        "device": str(request.device),
        "task": request.task.name,
        "mask": in_letters(request.options.get("mask")),
        "model": fingerprint(request.model),
        "settings": {name: value for name, value in values.items() if name not in NO_MATTER},
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
    """A setting as it can be written down: a function by its name and a checksum of all that it is made of, not by its
    place in memory.
    """
    if callable(value):
        return f"{name_of(value)} {hashlib.blake2b(in_full(value).encode(), digest_size=4).hexdigest()}"
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def name_of(value: Any) -> str:
    """What a function or the type of anything else is called."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def in_full(value: Any, depth: int = 0) -> str:
    """What decides how a function behaves, the same in every process: its code, and what it was given beforehand.

    What it finds under global names is not looked at, nor what lies deeper than a few functions in each other.
    """
    if isinstance(value, nn.Module):
        return fingerprint(value)
    if isinstance(value, (Tensor, np.ndarray)):
        seen = Digest()
        seen.tensor(torch.as_tensor(value))
        return seen.hex()
    if isinstance(value, (str, bytes, int, float, complex, type(None))):
        return repr(value)
    parts = [in_full(part, depth + 1) for part in parts_of(value)] if depth < DEEPEST else []
    return f"{name_of(value)}({', '.join(sorted(parts) if isinstance(value, (set, frozenset)) else parts)})"


def parts_of(value: Any) -> list[Any]:
    """What a function, a piece of code, an object that can be called or a holder of values is made of."""
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
    """What differs between two identities: was -> is."""
    flat = [{**each, **each.get("settings", {}), **each.get("versions", {})} for each in (old, new)]
    names = [name for name in {**flat[0], **flat[1]} if name not in ("settings", "versions")]
    return ", ".join(
        f"{name} {flat[0].get(name)} -> {flat[1].get(name)}"
        for name in names
        if flat[0].get(name) != flat[1].get(name)
    )
