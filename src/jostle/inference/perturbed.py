"""Perturbations of a model: which of its parameters reach an output, noise in them, and rows of a pool under K of them.

Chunks of the pool are read once. Rows go to memory, a temporary file or a cache.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from jostle.inference.cache import RowCache
from jostle.inference.context import QueryContext
from jostle.inference.isolation import memory
from jostle.inference.layers import plain_attention
from jostle.inference.memory import Estimate, check_shapes, in_words, non_finite
from jostle.inference.runner import InputMutatedError, ModelRunner
from jostle.inputs import Inputs, Pool, arrays, count
from jostle.rows.geometry import RELEASE, blocks, is_mapped, release
from jostle.utils.names import cached_property

FEW, NARROW = 10, 512  # perturbations, and numbers in a row, that are often enough
CACHED_CHUNKS = 20  # of a scoring with a cache, at least: an interrupt loses one of them

Readout = Callable[[Inputs], Tensor]  # inputs -> f(x; theta), (n, d)
Deviation = Callable[[Inputs, Tensor], Tensor]  # inputs, f(x; theta) -> deviation, (n, d)
Perturb = Callable[[int], AbstractContextManager[Deviation]]  # k -> the k-th deviation, for a while


@dataclass(frozen=True)
class Parameter:
    """A tensor of the private copy beside the user's own parameter, which holds the clean values."""

    names: list[str]  # several where distinct parameters share memory
    aliases: list[str]  # these, and all other names of the same parameters
    copy: Tensor
    own: Tensor

    @property
    def clean(self) -> Tensor:
        """The user's own values."""
        return self.own.detach()

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    def restore(self) -> None:
        """Put the very bytes of the user's own values back into the copy."""
        self.copy.copy_(self.clean)


def parameters(runner: ModelRunner) -> list[Parameter]:
    """Floating parameters, each tensor once however often it is tied."""
    own = dict(runner.original.named_parameters(remove_duplicate=False))
    objects = dict(runner.module.named_parameters())
    found: dict[Any, Parameter] = {}
    for name, parameter in runner.module.named_parameters(remove_duplicate=False):
        if parameter.is_floating_point() or parameter.is_complex():
            tied = found.setdefault(memory(own[name]), Parameter([], [], parameter.detach(), own[name]))
            tied.aliases.append(name)
            if name in objects:
                tied.names.append(name)
    return list(found.values())


def before_head(runner: ModelRunner, parameter: str) -> bool:
    """Whether a parameter can move the features: the head's and those of layers after it cannot."""
    if callable(runner.given_head):
        return True
    order, owner = runner.order, parameter.rpartition(".")[0]
    in_head = owner == runner.head or owner.startswith(runner.head + ".")
    return not in_head and order.get(owner, -1) < order[runner.head]


def reaching(context: QueryContext, readout: Readout, some: Sequence[Parameter]) -> list[Parameter]:
    """Return the parameters that an output depends on; a head that nothing reads is not among them.

    Those in the autograd graph of a couple of outputs are. A model may hide others from that graph, so the rest are
    set to NaN: those that change an output of the first few examples are, too.
    """
    with context.untracked():
        seen = graph_leaves(context.runner, readout)
        rest = [p for p in some if memory(p.copy) not in seen]
        if not rest:
            return list(some)
        clean = [(inputs, readout(inputs)) for inputs in context.probe]
        hidden = {p.name for p in changing(readout, clean, rest)}
    return [p for p in some if memory(p.copy) in seen or p.name in hidden]


def graph_leaves(runner: ModelRunner, readout: Readout) -> set[Any]:
    """Return where the tensors lie that the autograd graph of a couple of outputs begins with; no gradient is made."""
    own = [p for p in runner.module.parameters() if p.is_floating_point() or p.is_complex()]
    frozen = [p for p in own if not p.requires_grad]
    try:
        for p in frozen:
            p.requires_grad_(True)
        with torch.enable_grad():
            output = readout(runner.example)
    except InputMutatedError:
        raise
    except (RuntimeError, TypeError, ValueError):
        return set()  # a model that cannot be differentiated
    finally:
        for p in frozen:
            p.requires_grad_(False)
    found, seen, nodes = set(), set(), [output.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [before for before, _ in node.next_functions]
            if isinstance(leaf := getattr(node, "variable", None), Tensor):
                found.add(memory(leaf))
    return found


def changing(
    readout: Readout, clean: Sequence[tuple[Inputs, Tensor]], some: Sequence[Parameter]
) -> Sequence[Parameter]:
    """Return those of some parameters that change an output, searched in halves."""
    try:
        for p in some:
            p.copy.fill_(torch.nan)
        same = all(torch.equal(readout(inputs), outputs) for inputs, outputs in clean)
    except InputMutatedError:
        raise
    except Exception:
        same = False  # the model looked at NaN, and raised
    finally:
        for p in some:
            p.restore()
    if same or len(some) == 1:
        return [] if same else some
    half = len(some) // 2
    return [*changing(readout, clean, some[:half]), *changing(readout, clean, some[half:])]


def fill_gaussian(tensors: Sequence[Tensor], rng: Callable[[torch.device], torch.Generator]) -> None:
    """Write standard normal numbers into tensors, from one generator for each device."""
    generators = {tensor.device: rng(tensor.device) for tensor in tensors}
    for tensor in tensors:
        as_real(contiguous_view(tensor)).normal_(generator=generators[tensor.device])


def squared_length(tensor: Tensor) -> float:
    """Sum of squares, accumulated so that millions of float32 entries do not round it away."""
    flat = as_real(contiguous_view(tensor.detach())).flatten()
    squares = [part.float().dot(part.float()) for part in flat.split(2**16)] or [flat.new_zeros(())]
    return float(torch.stack(squares).to("cpu", torch.float64).sum())


def contiguous_view(tensor: Tensor) -> Tensor:
    """Return a contiguous view of the memory: normal_ is several times slower on a channels_last tensor."""
    if tensor.is_contiguous() or not tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor
    return tensor.permute(0, 2, 3, 1)


def as_real(tensor: Tensor) -> Tensor:
    """Complex parameters as pairs of reals."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


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
