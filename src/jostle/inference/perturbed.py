"""Rows of a pool under K perturbations of a model, in memory, a temporary file or a cache; its chunks are read once."""

from __future__ import annotations

import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from jostle.inference.context import QueryContext
from jostle.inference.isolation import Readout
from jostle.inference.memory import check_shapes, largest_chunk, non_finite
from jostle.inference.reader import plain_attention
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs, Pool, arrays, count
from jostle.rows.geometry import RELEASE, blocks, check_rows_file, is_mapped, mapped_rows, release, rows_again
from jostle.utils.files import check_target
from jostle.utils.names import cached_property

Deviation = Callable[[Inputs, Tensor], Tensor]  # inputs, f(x; theta) -> deviation, (n, d)
Perturb = Callable[[int], AbstractContextManager[Deviation]]  # k -> the k-th deviation, for a while


@contextmanager
def directional_derivative(
    runner: ModelRunner, readout: Readout, direction: Mapping[str, Tensor]
) -> Iterator[Readout]:
    """A function inputs -> J(x) u; an operator without forward mode is an error that names it."""
    if isinstance(runner.module, torch.jit.ScriptModule):
        raise ValueError("a TorchScript model has no exact derivative here: use estimator='finite'")
    theta = dict(runner.module.named_parameters())
    point = {name: theta[name] for name in direction}

    def derivative(inputs: Inputs) -> Tensor:
        def at(weights: dict[str, Tensor]) -> Tensor:
            with runner.at(weights):
                return readout(inputs)

        along: Tensor = jvp(at, (point,), (dict(direction),))[1]
        return along.detach()

    try:  # fused attention has no forward mode: its plain form computes
        with plain_attention(), sdpa_kernel(SDPBackend.MATH):
            yield derivative
    except (NotImplementedError, RuntimeError) as error:
        if "forward AD" not in str(error) and "forward-mode" not in str(error):
            raise
        operator = re.search(r"forward AD with (\S+)", str(error))
        raise ValueError(
            f"the exact derivative needs forward mode, which {operator[1] if operator else 'an operator'} "
            "of this model does not have: use estimator='finite' with a small noise_scale"
        ) from error


@dataclass
class Chunk:
    """Micro-batches that are held together while all perturbations are applied."""

    batches: list[tuple[Inputs, Tensor]] = field(default_factory=list)  # with f(x; theta), (micro-batch, d)
    size: int = 0  # examples
    held: int = 0  # bytes

    def add(self, inputs: Inputs, clean: Tensor) -> None:
        """Add a micro-batch with its unperturbed outputs."""
        self.batches.append((inputs, clean))
        self.size += len(clean)
        self.held += sum(array.nbytes for array in arrays(inputs)) + clean.nbytes


@dataclass(frozen=True)
class PerturbedRows:
    """Rows of all pools under the same K perturbations, each (K * d) numbers or `projection_dim`."""

    settings: Any  # a strategy with num_perturbations, projection_dim, buffer_bytes and cache_path
    context: QueryContext
    pools: Sequence[Pool]

    @cached_property
    def cache(self) -> RowCache | None:
        """The file of rows that the settings name."""
        keeps = self.settings.cache_path is not None
        return RowCache.of(self.settings, self.context, self.size) if keeps else None

    @property
    def size(self) -> int:
        """n, the examples of all pools."""
        return sum(map(len, self.pools))

    def compute(self, readout: Readout, perturb: Perturb, scale: float) -> Tensor:
        """Compute all rows: (n, K * d) or (n, projection_dim).

        Args:
            readout: From inputs to f(x; theta).
            perturb: From k to the k-th deviation, one direction for all examples, so that rows compare.
            scale: Multiply deviations by this.
        """
        with torch.no_grad():
            width = readout(self.context.runner.example).shape[1]
        rows = self.allocate(width)
        place = ", rows in a file" if is_mapped(rows) else ""
        with torch.no_grad(), self.context.progress(f"perturbing{place}", self.size) as advance:
            batches = self.context.batches(*self.pools)
            start = 0 if self.cache is None else self.cache.resume(batches, rows)
            advance(start)
            bad = [torch.zeros(start, dtype=torch.bool)]
            for chunk in self.chunks(batches, readout):
                check_shapes([(width,), *(tuple(clean.shape[1:]) for _, clean in chunk.batches)])
                bad += [non_finite(clean) for _, clean in chunk.batches]
                if not any(map(torch.any, bad)):
                    self.fill(rows[start : start + chunk.size], chunk, perturb, scale, advance)
                    if self.cache is not None:
                        self.cache.add(
                            [inputs for inputs, _ in chunk.batches], rows[start : start + chunk.size]
                        )
                    release(rows)
                start += chunk.size
                del chunk  # or two would be held while the next is read
        self.context.check_finite(torch.cat(bad), "outputs", *self.pools)
        self.context.check_finite(rows, "perturbed outputs", *self.pools)
        if not any(bool(rows[part].any()) for part in blocks(len(rows), per_row=rows.shape[1], of=rows)):
            warnings.warn(
                "no output moved under any perturbation: the parameters may not reach the output",
                stacklevel=4,
            )
        return rows

    def allocate(self, width: int) -> Tensor:
        """Allocate rows in memory, in a temporary file, or in the cache as far as an earlier call came."""
        shape = self.size, self.settings.projection_dim or self.settings.num_perturbations * width
        if self.cache is not None:
            rows = self.cache.open(shape, self.context.row_type)
            self.context.notes += [self.cache.replaced] if self.cache.replaced else []
            return rows
        like = torch.empty(0, dtype=self.context.row_type, device=self.context.device)
        (rows,) = self.context.budget.rows([(shape, like)], "deviations")
        return rows

    def chunks(self, batches: Iterator[Inputs], readout: Readout) -> Iterator[Chunk]:
        """Read micro-batches with their unperturbed outputs, as many at once as the buffer holds."""
        limit, chunk = self.context.budget.buffer(self.settings.buffer_bytes), Chunk()
        most = largest_chunk(self.settings, self.size)
        for inputs in batches:
            chunk.add(inputs, readout(inputs))
            del inputs
            if chunk.held >= limit or chunk.size >= most:
                yield chunk
                chunk = Chunk()
        if chunk.batches:
            yield chunk

    def fill(
        self, rows: Tensor, chunk: Chunk, perturb: Perturb, scale: float, advance: Callable[[float], None]
    ) -> None:
        """Write the rows of a chunk, perturbation by perturbation."""
        if self.settings.projection_dim is not None:
            rows.zero_()  # whatever a killed call left there
        for k in range(self.settings.num_perturbations):
            with perturb(k) as deviation:
                done = seen = 0
                projection = self.projection(k, chunk.batches[0][1].shape[1], rows.dtype)
                for inputs, clean in chunk.batches:
                    deviations = deviation(inputs, clean).mul_(scale)  # (micro-batch, d)
                    target = rows[done : done + len(deviations)]
                    values = deviations.to(target.dtype)  # outputs need not be of the weights' type
                    if projection is None:
                        target[:, k * values.shape[1] : (k + 1) * values.shape[1]] = values
                    else:
                        target += (values @ projection).to(target.device)
                    done += len(deviations)
                    seen += target.nbytes
                    if seen >= RELEASE:
                        release(rows)
                        seen = 0
            del deviation  # or two directions would be held while the next is drawn
            advance(chunk.size / self.settings.num_perturbations)

    def projection(self, k: int, width: int, dtype: torch.dtype) -> Tensor | None:
        """The part of the one fixed Gaussian projection for the k-th deviation, (d, projection_dim)."""
        narrow = self.settings.projection_dim
        if narrow is None:
            return None
        rng = self.context.rng("projection", k)
        return torch.randn(width, narrow, generator=rng, device=rng.device, dtype=dtype) / math.sqrt(narrow)


IRRELEVANT = ("cache_path", "buffer_bytes", "memory_bytes", "selector")  # settings that change no row
DEEPEST = 6  # functions and holders in each other that are looked into
OURS = b'{"rows of jostle"'

Line = tuple[int, str, str]  # examples done by the end of a chunk, checksums of its inputs and of its rows


@dataclass
class RowCache:
    """Rows in a file: a call that was killed resumes, one that differs is refused.

    A journal lies beside the rows. Its first line says which call the rows are of. Each further line says how many
    examples are done, with checksums of their inputs and of their rows; inputs are read again before the work resumes.
    """

    rows: Path
    identity: dict[str, Any]  # of the call
    done: int = 0  # examples
    chunks: Sequence[Line] = ()
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
        if found == self.identity and (rows := rows_again(self.rows, shape, dtype)) is not None:
            self.chunks = chunks
            return rows
        if found is not None and found != self.identity and self.rows.exists():
            changes, done = differences(found, self.identity), chunks[-1][0] if chunks else 0
            if done < found["examples"]:
                raise ValueError(
                    f"{self.rows} holds {done:,} of {found['examples']:,} rows of another call: {changes}; "
                    "make the same call to resume it, or remove it to begin anew"
                )
            self.replaced = f"{self.rows} held rows of another call, which make way: {changes}"
        rows = mapped_rows(self.rows, shape, dtype)
        self._write(())
        return rows

    def resume(self, batches: Iterator[Inputs], rows: Tensor) -> int:
        """Return how many examples are done, once their inputs were read again and compared.

        Rows whose checksum differs, and all after them, are computed again.
        """
        for number, (end, inputs_digest, rows_digest) in enumerate(self.chunks):
            before = self.done
            if digest([rows[before:end]]) != rows_digest:
                self._write(self.chunks[:number])
                break
            if self._digest(batches, end) != inputs_digest or self.done != end:
                raise ValueError(
                    f"the pool has changed: its examples {before:,} to {end - 1:,} are not those whose rows are in "
                    f"{self.rows}; pass the pool as it was, or remove that file to begin anew"
                )
        return self.done

    def add(self, batches: Sequence[Inputs], rows: Tensor) -> None:
        """Record that the `rows` of these batches are written."""
        line = self._digest(iter(batches), self.done + len(rows)), digest([rows])
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([self.done, *line]) + "\n")

    def _digest(self, batches: Iterator[Inputs], end: int) -> str:
        """The checksum of the next inputs, up to this many examples, which are done then."""

        def read() -> Iterator[Tensor]:
            while self.done < end and (inputs := next(batches, None)) is not None:
                yield from arrays(inputs)
                self.done += count(inputs)

        return digest(read())

    def _write(self, lines: Sequence[Line]) -> None:
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


def digest(parts: Iterable[Tensor | str]) -> str:
    """A checksum of tensors, by shape, type and numbers, and of texts."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, str):
            found.update(part.encode())
        else:
            found.update(f"{tuple(part.shape)}{part.dtype}".encode())
            plain = part.detach().cpu().contiguous().reshape(-1)
            found.update(np.asarray(plain.view(torch.uint8)).data)
    return found.hexdigest()


def row_identity(settings: Any, model: nn.Module) -> dict[str, Any]:
    """Everything that rows depend on beside the call: the model, the strategy's settings, the versions.

    Args:
        settings: A strategy, which is a dataclass.
        model: The user's model.
    """
    values = {each.name: in_letters(getattr(settings, each.name)) for each in fields(settings)}
    return {
        "model": fingerprint(model),
        **{name: value for name, value in values.items() if name not in IRRELEVANT},
        "jostle": version("jostle"),
        "torch": str(torch.__version__),
    }


def fingerprint(model: nn.Module) -> str:
    """A checksum of a model's weights and of what it is made of."""
    held = dict(model.named_buffers()) | model.state_dict()  # no file keeps some buffers
    return digest(
        [str(model), *(part for pair in held.items() for part in pair if isinstance(part, Tensor | str))]
    )


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
        return digest([torch.as_tensor(value)])
    if isinstance(value, (str, bytes, int, float, complex, type(None))):
        return repr(value)
    parts = [in_full(part, depth + 1) for part in parts_of(value)] if depth < DEEPEST else []
    return f"{name_of(value)}({', '.join(sorted(parts) if isinstance(value, (set, frozenset)) else parts)})"


def parts_of(value: Any) -> Iterable[Any]:
    """Return the parts of a function, a piece of code, a callable object or a container."""
    match value:
        case CodeType():
            return value.co_code, value.co_names, value.co_consts
        case partial():
            return value.func, value.args, value.keywords
        case Mapping():
            return *value.keys(), *value.values()
        case tuple() | list() | set() | frozenset():
            return value
        case MethodType():
            return value.__func__, value.__self__
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
            return value.__code__, value.__defaults__, value.__kwdefaults__, *cells
    return [getattr(value, "__dict__", None)] if callable(value) and not isinstance(value, type) else []


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe the differences between two identities: was -> is."""
    changed = (name for name in {**old, **new} if old.get(name) != new.get(name))
    return ", ".join(f"{name} {old.get(name)} -> {new.get(name)}" for name in changed)
