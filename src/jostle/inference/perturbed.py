"""Rows under K perturbations: chunks of the pool are read once, rows go to memory, a temporary file or a cache."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from jostle.inference.cache import RowCache
from jostle.inference.context import QueryContext
from jostle.inference.memory import Estimate, in_words
from jostle.inference.parameters import Readout
from jostle.inputs import Inputs, Pool, arrays, count
from jostle.rows.geometry import blocks, check_shapes, non_finite
from jostle.rows.mapped import RELEASE, is_mapped, release
from jostle.utils.names import cached_property

FEW, NARROW = 10, 512  # perturbations, and numbers in a row, that are often enough
CACHED_CHUNKS = 20  # of a scoring with a cache, at least: an interrupt loses one of them

Deviation = Callable[[Inputs, Tensor], Tensor]  # inputs, f(x; theta) -> deviation, (n, d)
Perturb = Callable[[int], AbstractContextManager[Deviation]]  # k -> the k-th deviation, for a while


@dataclass
class Chunk:
    """Micro-batches that are held together while all perturbations are applied."""

    inputs: list[Inputs] = field(default_factory=list)
    clean: list[Tensor] = field(default_factory=list)  # f(x; theta) of each, (micro-batch, d)
    size: int = 0  # examples
    held: int = 0  # bytes

    def add(self, inputs: Inputs, clean: Tensor) -> None:
        """Add a micro-batch with its unperturbed outputs."""
        self.inputs.append(inputs)
        self.clean.append(clean)
        self.size += count(inputs)
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
        return (
            None if self.settings.cache_path is None else RowCache.of(self.settings, self.context, self.size)
        )

    @property
    def size(self) -> int:
        """n, the examples of all pools."""
        return sum(map(len, self.pools))

    @property
    def largest_chunk(self) -> int:
        """The most examples of a chunk, whatever the buffer holds."""
        return self.size if self.cache is None else -(-self.size // CACHED_CHUNKS)

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
                check_shapes([(width,), *(tuple(part.shape[1:]) for part in chunk.clean)])
                bad += map(non_finite, chunk.clean)
                if not any(map(torch.any, bad)):
                    self.fill(rows[start : start + chunk.size], chunk, perturb, scale, advance)
                    if self.cache is not None:
                        self.cache.add(chunk.inputs, rows[start : start + chunk.size])
                    release(rows)
                start += chunk.size
                del chunk  # or two would be held while the next is read
        self.context.check_finite(torch.cat(bad), "outputs", *self.pools)
        self.context.check_finite(non_finite(rows), "perturbed outputs", *self.pools)
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
        for inputs in batches:
            chunk.add(inputs, readout(inputs))
            del inputs
            if chunk.held >= limit or chunk.size >= self.largest_chunk:
                yield chunk
                chunk = Chunk()
        if chunk.inputs:
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
                projection = self.projection(k, chunk.clean[0].shape[1], rows.dtype)
                for inputs, clean in zip(chunk.inputs, chunk.clean, strict=True):
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
        if self.settings.projection_dim is None:
            return None
        rng = self.context.rng("projection", k)
        drawn = torch.randn(
            width, self.settings.projection_dim, generator=rng, device=rng.device, dtype=dtype
        )
        return drawn / math.sqrt(self.settings.projection_dim)

    def estimate(self, width: int) -> Estimate:
        """Estimate these rows for outputs of this `width` d."""
        example, item = self.context.runner.example, self.context.row_type.itemsize
        n, number, wide = self.size, self.settings.num_perturbations, self.settings.projection_dim
        each = sum(array.nbytes for array in arrays(example)) // count(example) + width * item
        limit = self.context.budget.buffer(self.settings.buffer_bytes)
        held = max(min(n, self.context.micro_batch) * each, min(self.largest_chunk * each, limit))
        return Estimate(
            passes=n * (number + 1),
            rows=n * (wide or number * width) * item,
            width=wide or number * width,
            may_spill=True,
            cached=self.cache is not None,
            buffer=held,
            working=(wide or 0) * width * item,
            what=f"deviations of {n:,} examples under {number} perturbations, {width:,} numbers each, and selection",
            remedy=self.remedy(wide or number * width),
            suggestions=tuple(self.suggestions(width, item)),
        )

    def remedy(self, wide: int) -> str:
        """Advice where rows of this width do not fit."""
        ways = (
            f"keep rows narrow with projection_dim={NARROW}" if wide > NARROW else "",
            "keep rows on disk with cache_path=" if self.cache is None else "",
            "pass a part of the pool",
        )
        return ", or ".join(filter(None, ways))

    def suggestions(self, width: int, item: int) -> Iterator[str]:
        """Cheaper settings."""
        if self.settings.num_perturbations > FEW:
            yield f"num_perturbations={FEW}: {self.size * (FEW + 1):,} passes, with rougher rows"
        if self.settings.projection_dim is None and self.settings.num_perturbations * width > NARROW:
            size = in_words(self.size * NARROW * item)
            yield f"projection_dim={NARROW}: {size} of rows, with distances that are right on average"
