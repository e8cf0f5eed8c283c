"""Noise stability (Li et al., AAAI 2024), Algorithm 1: perturb the parameters K times, record how outputs deviate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from jostle.core import Embedded, Embedding, Estimate
from jostle.embeddings.perturbations import Perturbations, Which, directional_derivative
from jostle.embeddings.readout import Readout, Space, readout
from jostle.inference.cache import RowCache
from jostle.inference.context import QueryContext
from jostle.inference.perturbed import Deviation, PerturbedRows
from jostle.inputs import Pool
from jostle.selectors import selector
from jostle.utils.names import look_up


@dataclass(frozen=True, kw_only=True)
class Deviations(Embedding):
    """Deviations of the outputs under K perturbations of the parameters: (n, K * d), as in the paper's Eq. (main).

    Squared row lengths estimate the squared Frobenius norm of the Jacobian, whatever K and the noise scale are.
    """

    shardable = True

    initial_centers: str = "origin"
    """Where k-center starts; "labeled": from the deviations of the labeled set."""
    num_perturbations: int = 30
    """K, how often the parameters are perturbed."""
    noise_scale: float = 1e-3
    """Zeta, the length of a perturbation relative to that of the parameters."""
    noise: str = "global"
    """"global": one direction over all parameters; "layerwise": one for each weight tensor."""
    estimator: str = "finite"
    """How deviations are found: "finite" differences, as in the paper; "jvp": the exact derivative, zeta -> 0."""
    space: Space = None
    """The outputs that deviate: "probabilities", "features", "logits", a function; None: the task's."""
    spatial_grid: int = 1
    """Average-pool spatial outputs and features to this many by this many cells."""
    normalize: bool = False
    """Divide by the length of the clean output, as the authors' published code does."""
    parameters: Which = None
    """Which parameters are perturbed: name patterns or a predicate; None: all."""
    projection_dim: int | None = None
    """Project rows to this width by one fixed Gaussian projection; None: whole rows."""
    cache_path: str | Path | None = None
    """Keep rows in this memory-mapped file, new or of rows: a call that was killed resumes from there; None: in
    memory, or in a temporary file where they are large."""
    buffer_bytes: int = 256 * 2**20
    """Bytes of inputs and clean outputs held at once: the pool is read once, chunk by chunk."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_perturbations < 1 or not self.noise_scale > 0 or not math.isfinite(self.noise_scale):
            raise ValueError(
                f"num_perturbations must be at least 1 and noise_scale above 0; got {self.num_perturbations} and "
                f"{self.noise_scale}"
            )
        if self.spatial_grid < 1 or (self.projection_dim is not None and self.projection_dim < 1):
            raise ValueError(
                f"spatial_grid and projection_dim must be at least 1; got {self.spatial_grid} and {self.projection_dim}"
            )
        look_up("estimator", self.estimator, {"finite": None, "jvp": None})
        look_up("noise", self.noise, {"global": None, "layerwise": None})
        look_up("initial_centers", self.initial_centers, {"origin": None, "labeled": None})
        if self.initial_centers == "labeled" and not selector(self.selector).uses_centers:
            raise ValueError(
                "initial_centers='labeled' needs a selector that starts from given rows, such as k-center; "
                f"{type(selector(self.selector)).__name__} does not look at them"
            )

    def embedding(self, context: QueryContext) -> Embedded:
        """Deviations of the pool, and those of the labeled set where k-center starts from them."""
        if self.initial_centers == "labeled":
            context.needs_labeled(f"{self.name} with initial_centers='labeled'")
        return Embedded(*context.split(self.rows(context, *self.pools(context))))

    def rows(self, context: QueryContext, *pools: Pool) -> Tensor:
        """Deviations of all `pools` under the same perturbations: (n, K * d) or (n, projection_dim)."""
        output = self.readout(context, *pools)  # x -> f(x; theta), (n, d)
        noise = self.perturbations(context)  # directions u_1 .. u_K of length 1 in R^P

        @contextmanager
        def perturbed(k: int) -> Iterator[Deviation]:
            if self.estimator == "jvp":
                with directional_derivative(context.runner, output, noise.direction(k)) as derivative:
                    yield lambda x, clean: self.relative(derivative(x), clean)
            else:
                with noise.applied(k):  # theta + z u_k, the same for all examples
                    yield lambda x, clean: self.relative((output(x) - clean) / noise.size, clean)

        scale = math.sqrt(noise.entries / self.num_perturbations)  # sqrt(P / K): row lengths estimate ||J||
        return self.job(context, pools).compute(output, perturbed, scale)

    def relative(self, deviation: Tensor, clean: Tensor) -> Tensor:
        """Divide by the lengths of the clean outputs if `normalize` is set."""
        if not self.normalize:
            return deviation
        lengths: Tensor = torch.linalg.vector_norm(clean, dim=1, keepdim=True)  # (n, 1)
        return deviation / lengths.clamp(min=torch.finfo(clean.dtype).tiny)

    def pools(self, context: QueryContext) -> tuple[Pool, ...]:
        """The pool, and the labeled set where k-center starts from it."""
        return context.pools if self.initial_centers == "labeled" else (context.pool,)

    def output_space(self, context: QueryContext) -> Space:
        """The space as set, or the task's; the exact derivative cannot follow features by a function."""
        space = self.space or context.task.moves
        if self.estimator == "jvp" and space == "features" and callable(context.runner.given_head):
            raise ValueError(
                "estimator='jvp' needs head= as a layer's name; a function would not see the direction"
            )
        return space

    def readout(self, context: QueryContext, *pools: Pool) -> Readout:
        """The function x -> f(x; theta), (n, d), in the output space."""
        return readout(self.output_space(context), self.spatial_grid, context, pools or (context.pool,))

    def perturbations(self, context: QueryContext) -> Perturbations:
        """The K directions; features deviate only by the parameters before the head."""
        before_head = self.output_space(context) == "features"
        return Perturbations.of(context, self.noise_scale, self.noise, self.parameters, before_head)

    def job(self, context: QueryContext, pools: Sequence[Pool]) -> PerturbedRows:
        """The computation of rows of these pools."""
        cache = None if self.cache_path is None else RowCache.of(self, context, sum(map(len, pools)))
        return PerturbedRows(
            context, pools, self.num_perturbations, self.projection_dim, self.buffer_bytes, cache
        )

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Estimate K + 1 passes, and rows of K * d numbers or `projection_dim`."""
        pools = self.pools(context)
        with context.untracked():
            width = self.readout(context, *pools)(context.runner.example).shape[1]
        return self.job(context, pools).estimate(width)

    def check_shardable(self, context: QueryContext) -> None:
        """Refuse a cache in one file, and rows of sequences, which are as wide as the longest of the pool."""
        if self.cache_path is not None:
            raise ValueError(
                "cache_path= is one file: on a cluster say engine=jostle.engines.Ray(rows=folder)"
            )
        if context.reader.padded:
            raise ValueError(
                f"{self.name} lays tokens side by side, as many as the pool's longest sequence has, which no shard "
                "knows: pass mask=False and sequences of one length, or space='features', or leave engine= out"
            )
