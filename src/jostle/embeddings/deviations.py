"""Noise stability's embedding: how each example's output moves when the parameters are nudged K times."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from jostle.core import Request, as_vectors, check_finite
from jostle.embeddings.exact import directional_derivatives
from jostle.embeddings.jolts import Jolts, Which
from jostle.names import look_up, unknown
from jostle.pool import Inputs, arrays

Space = str | Callable[[Tensor], Tensor] | None
Watch = Callable[[Inputs], Tensor]  # inputs -> what is watched of their outputs, (n, d)


@dataclass(frozen=True, kw_only=True)
class Deviations:
    """Settings of the movements; `rows(request)` gives (n, K * d), scaled as in the paper's Eq. (main).

    Squared row lengths estimate the squared Frobenius norm of the Jacobian, whatever `jolts` and `scale` are.
    """

    jolts: int = 30  # K
    scale: float = 1e-3  # zeta: the length of a jolt relative to that of the parameters
    noise: str = "global"  # one direction over all parameters; "layerwise": one for each weight tensor
    estimator: str = "finite"  # differences, as in the paper; "jvp": the exact derivative, zeta -> 0
    space: Space = (
        None  # what moves: "probabilities", "features", "logits", a function; None: as the task says
    )
    grid: int = 1  # spatial maps are average-pooled to grid x grid
    normalize: bool = False  # divide by the length of the clean output, as the authors' published code does
    parameters: Which = None  # which parameters move: name patterns or a predicate; None: all
    project: int | None = None  # rows projected to this width by one fixed Gaussian projection
    rows_file: str | Path | None = None  # rows kept in a memory-mapped file, for pools larger than memory
    buffer_bytes: int = 256 * 2**20  # inputs held at once: the pool is read once, chunk by chunk

    def __post_init__(self) -> None:
        if self.jolts < 1 or not self.scale > 0 or not math.isfinite(self.scale):
            raise ValueError(f"jolts must be at least 1 and scale above 0; got {self.jolts} and {self.scale}")
        if self.grid < 1 or (self.project is not None and self.project < 1):
            raise ValueError(f"grid and project must be at least 1; got {self.grid} and {self.project}")
        look_up("estimator", self.estimator, {"finite": None, "jvp": None})
        look_up("noise", self.noise, {"global": None, "layerwise": None})

    def rows(self, request: Request) -> Tensor:
        """Movements of the whole pool, (n, K * d) or (n, project)."""
        space = self.space or request.task.moves
        watch = watched(space, self.grid, request)
        jolts = Jolts.of(request, self.scale, self.noise, self.parameters, in_front=space == "features")
        rows: Rows | None = None
        start = 0
        with torch.no_grad(), request.progress("jolting", len(request.pool) * self.jolts) as advance:
            for batches in chunks(request, self.buffer_bytes):
                clean = [watch(inputs) for inputs in batches]
                before = torch.cat(clean)  # (chunk, d)
                check_finite(before, request.pool.positions[start:], "outputs")
                rows = rows or Rows.of(self, request, before.shape[1])
                for k in range(self.jolts):
                    moved = torch.cat(list(self.moves(jolts, k, watch, batches, clean)))  # (chunk, d)
                    if self.normalize:
                        moved /= before.norm(dim=1, keepdim=True).clamp(min=torch.finfo(before.dtype).tiny)
                    rows.put(start, k, moved.mul_(math.sqrt(jolts.entries / self.jolts)))
                    advance(len(before))
                start += len(before)
        assert rows is not None, "the pool is never empty here"
        return rows.checked()

    def moves(
        self, jolts: Jolts, k: int, watch: Watch, batches: list[Inputs], clean: list[Tensor]
    ) -> Iterator[Tensor]:
        """Each micro-batch's movement under the k-th jolt, per unit of jolt."""
        if self.estimator == "jvp":
            yield from directional_derivatives(jolts.request.network, watch, batches, jolts.direction(k))
        else:
            with jolts.applied(k):  # one jolt for all examples, so rows compare
                for inputs, before in zip(batches, clean, strict=True):
                    yield (watch(inputs) - before) / jolts.reach


@dataclass(frozen=True)
class Rows:
    """Where movements go: memory or a mapped file, whole or projected on the way."""

    tensor: Tensor  # (n, K * d) or (n, project)
    width: int  # d
    project: int | None
    request: Request

    @classmethod
    def of(cls, settings: Deviations, request: Request, width: int) -> Rows:
        """Room for the movements of the request's pool."""
        shape = len(request.pool), settings.project or settings.jolts * width
        dtype = request.network.dtype or torch.get_default_dtype()
        if settings.rows_file is None:
            tensor = torch.zeros(shape, dtype=dtype, device=request.device)
        else:
            Path(settings.rows_file).unlink(missing_ok=True)  # a mapped file that exists keeps its old rows
            size = math.prod(shape)
            tensor = torch.from_file(str(settings.rows_file), shared=True, size=size, dtype=dtype).view(shape)
        return cls(tensor, width, settings.project, request)

    def put(self, start: int, k: int, moved: Tensor) -> None:
        """The k-th movement of the examples from `start` on."""
        target = self.tensor[start : start + len(moved)]
        if self.project is None:
            target[:, k * self.width : (k + 1) * self.width] = moved
        else:
            rng = self.request.rng("projection", k, device=moved.device)
            plane = torch.randn(
                self.width, self.project, generator=rng, device=moved.device, dtype=moved.dtype
            )
            target += (moved @ plane / math.sqrt(self.project)).to(target.device)

    def checked(self) -> Tensor:
        """The finished rows: finite, and moved at all."""
        check_finite(self.tensor, self.request.pool.positions, "jolted outputs")
        if not self.tensor.any():
            warnings.warn(
                "no output moved under any jolt: the parameters may not reach the output", stacklevel=4
            )
        return self.tensor


def watched(space: Space, grid: int, request: Request) -> Watch:
    """What is watched of an example: a named space or the user's own function of the outputs, as vectors."""
    network, task = request.network, request.task
    if space == "features":
        return lambda inputs: as_vectors(network.features(inputs), grid)
    if callable(space):
        function = space
    elif space == "probabilities":
        function = task.probabilities
    elif space == "logits":
        function = unchanged
    else:
        raise unknown("space", space, ("probabilities", "features", "logits"))
    return lambda inputs: as_movement(function(network.outputs(inputs)), grid)


def unchanged(outputs: Tensor) -> Tensor:
    """Logits as they are."""
    return outputs


def as_movement(values: Tensor, grid: int) -> Tensor:
    """Outputs as vectors: spatial maps pooled to the grid, tokens side by side."""
    return as_vectors(values, grid) if values.ndim > 3 else values.reshape(len(values), -1)


def chunks(request: Request, buffer_bytes: int) -> Iterator[list[Inputs]]:
    """Prepared micro-batches, as many at once as the buffer holds."""
    held: list[Inputs] = []
    size = 0
    for inputs in request.batches():
        held.append(inputs)
        size += sum(array.nbytes for array in arrays(inputs))
        if size >= buffer_bytes:
            yield held
            held, size = [], 0
    if held:
        yield held
