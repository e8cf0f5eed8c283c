"""Noise stability (Li et al., AAAI 2024), Algorithm 1: perturb the parameters K times, record how outputs deviate.

`Deviations.rows` is the algorithm, `Perturbations` its noise; a selector picks among the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Embedded, Embedding, Estimate, perturbed_estimate
from jostle.inference.context import QueryContext
from jostle.inference.isolation import (
    Parameter,
    Readout,
    before_head,
    fill_gaussian,
    parameters,
    reaching,
    squared_length,
)
from jostle.inference.perturbed import Deviation, PerturbedRows, directional_derivative
from jostle.inference.reader import aligned, as_vectors
from jostle.inputs import Inputs, Pool
from jostle.selectors import selector
from jostle.utils.names import unknown

Space = str | Callable[[Tensor], Tensor] | None  # an output space by name, or a function of the outputs
Which = str | list[str] | Callable[[str, Tensor], bool] | None  # parameters by pattern or predicate


@dataclass(frozen=True, kw_only=True)
class Deviations(Embedding):
    """Deviations of the outputs under K perturbations of the parameters: (n, K * d), as in the paper's Eq. (main).

    Squared row lengths estimate the squared Frobenius norm of the Jacobian, whatever K and the noise scale are.
    """

    ranges: ClassVar = {
        "num_perturbations": "[1, inf)",
        "noise_scale": "(0, inf)",
        "spatial_grid": "[1, inf)",
        "projection_dim": "[1, inf)",
        "estimator": ("finite", "jvp"),
        "noise": ("global", "layerwise"),
        "initial_centers": ("origin", "labeled"),
    }
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
    """Which parameters are perturbed: name patterns or a predicate; None: all that an output depends on."""
    projection_dim: int | None = None
    """Project rows to this width by one fixed Gaussian projection; None: whole rows."""
    cache_path: str | Path | None = None
    """Keep rows in this memory-mapped file, new or of rows: a call that was killed resumes from there; None: in
    memory, or in a temporary file where they are large."""
    buffer_bytes: int = 256 * 2**20
    """Bytes of inputs and clean outputs held at once: the pool is read once, chunk by chunk."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Deviations of the pool, and those of the labeled set where k-center starts from them."""
        if self.initial_centers == "labeled":
            context.needs_labeled(f"{self.name} with initial_centers='labeled'")
        return Embedded(*context.split(self.rows(context, *self.pools(context))))

    def rows(self, context: QueryContext, *pools: Pool) -> Tensor:
        """Compute the deviations of all `pools` under the same perturbations: (n, K * d) or (n, projection_dim)."""
        output = self.readout(context, *pools)  # x -> f(x; theta), (n, d)
        noise = self.perturbations(context, output)  # directions u_1 .. u_K of length 1 in R^P

        @contextmanager
        def perturbed(k: int) -> Iterator[Deviation]:
            if self.estimator == "jvp":
                with directional_derivative(context.runner, output, noise.direction(k)) as derivative:
                    yield lambda x, clean: self.relative(derivative(x), clean)
            else:
                with noise.applied(k):  # theta + z u_k, the same for all examples, z = zeta ||theta||
                    yield lambda x, clean: self.relative((output(x) - clean) / noise.size, clean)

        scale = math.sqrt(noise.entries / self.num_perturbations)  # sqrt(P / K): row lengths estimate ||J||
        return PerturbedRows(self, context, pools).compute(output, perturbed, scale)

    def relative(self, deviation: Tensor, clean: Tensor) -> Tensor:
        """Divide by the lengths of the clean outputs if `normalize` is set."""
        if not self.normalize:
            return deviation
        lengths: Tensor = torch.linalg.vector_norm(clean, dim=1, keepdim=True)  # (n, 1)
        return deviation / lengths.clamp(min=torch.finfo(clean.dtype).tiny)

    def readout(self, context: QueryContext, *pools: Pool) -> Readout:
        """Return the function x -> f(x; theta), (n, d), in the output space.

        Tokens lie side by side, as many as the longest example of the `pools` has; padding is zeros at the end.
        """
        space, runner, reader = self.output_space(context), context.runner, context.reader
        longest = reader.longest_sequence(pools, context.batches)
        if space == "features":
            return lambda inputs: reader.features(inputs, self.spatial_grid)
        named = {"probabilities": reader.probabilities, "logits": lambda outputs: outputs}
        if not callable(space) and space not in named:
            raise unknown("space", space, ("probabilities", "features", "logits"))
        function = space if callable(space) else named[str(space)]

        def read(inputs: Inputs) -> Tensor:
            values = function(runner.outputs(inputs))
            if context.task.tokens and values.ndim > 3 and not callable(space):
                values = values.flatten(1, -2)  # (n, sites, c): no map, its last dimension is classes
            if longest is not None and values.ndim == 3:
                values = aligned(values, reader.mask(inputs, values.shape[1]), longest)
            return (
                as_vectors(values, self.spatial_grid) if values.ndim > 3 else values.reshape(len(values), -1)
            )

        return read

    def output_space(self, context: QueryContext) -> Space:
        """The space as set, or the task's; the exact derivative cannot follow features by a function."""
        space = self.space or context.task.moves
        if self.estimator == "jvp" and space == "features" and callable(context.runner.given_head):
            raise ValueError(
                "estimator='jvp' needs head= as a layer's name; a function would not see the direction"
            )
        return space

    def perturbations(self, context: QueryContext, output: Readout) -> Perturbations:
        """Return the perturbations of the parameters that the `output` depends on and the settings allow."""
        layerwise, features = self.noise == "layerwise", self.output_space(context) == "features"
        allowed = allowance(self.parameters)
        chosen = [
            p
            for p in parameters(context.runner)
            if any(allowed(name, p.own) for name in p.aliases)
            and (not features or any(before_head(context.runner, name) for name in p.aliases))
            and not (layerwise and "bias" in p.name.rpartition(".")[2])
        ]
        moving = (
            reaching(context, output, chosen) or chosen
        )  # where none does, rows of zeros and a warning follow
        squares = [squared_length(p.own) for p in moving]
        if not any(squares):
            zero = "are all zero" if moving else "do not exist"
            hint = "; nothing comes before the head: space='logits' lets it move"
            names = [p.name for p in parameters(context.runner)]
            raise ValueError(
                f"the parameters to perturb {zero} (parameters={self.parameters!r}, noise={self.noise!r})"
                f"{hint if features and self.parameters is None else ''}; "
                f"the model has: {', '.join(names[:6]) + ', ...' * (len(names) > 6) or 'none'}"
            )
        return Perturbations(context, moving, squares, self.noise_scale * math.sqrt(sum(squares)), layerwise)

    def pools(self, context: QueryContext) -> tuple[Pool, ...]:
        """The pool, and the labeled set where k-center starts from it."""
        return context.pools if self.initial_centers == "labeled" else (context.pool,)

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Estimate K + 1 passes, and rows of K * d numbers or `projection_dim`."""
        pools = self.pools(context)
        with context.untracked():
            width = self.readout(context, *pools)(context.runner.example).shape[1]
        return perturbed_estimate(self, context, sum(map(len, pools)), width)

    def check_shardable(self, context: QueryContext) -> None:
        """Refuse a cache in one file, and rows of sequences, which are as wide as the longest of the pool."""
        if self.cache_path is not None:
            raise ValueError(
                "cache_path= is one file: on a cluster say engine=jostle.engines.Ray(cache_folder=...)"
            )
        if context.reader.padded:
            raise ValueError(
                f"{self.name} lays tokens side by side, as many as the pool's longest sequence has, which no shard "
                "knows: pass mask=False and sequences of one length, or space='features', or leave engine= out"
            )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.initial_centers == "labeled" and not selector(self.selector).uses_centers:
            raise ValueError(
                "initial_centers='labeled' needs a selector that starts from given rows, such as k-center; "
                f"{type(selector(self.selector)).__name__} does not look at them"
            )


@dataclass(frozen=True)
class Perturbations:
    """Directions u_1 .. u_K in the space of the parameters, each of length 1, drawn one at a time.

    A perturbation is a direction times `size` = noise_scale * ||theta||.
    """

    context: QueryContext
    moving: list[Parameter]
    squares: list[float]  # squared length of each, as the user has it
    size: float  # length of a perturbation
    layerwise: bool

    @property
    def entries(self) -> int:
        """P, the number of entries that move; a complex one counts twice."""
        return sum(p.own.numel() * (2 if p.own.is_complex() else 1) for p in self.moving)

    def draw(self, k: int, into: list[Tensor]) -> None:
        """Draw the k-th direction into tensors like the moving parameters."""
        fill_gaussian(into, lambda device: self.context.rng("jolt", k, device=device))
        if self.layerwise:  # each tensor's share is its own length, not its number of entries
            shares = [math.sqrt(square) for square in self.squares]
            total = math.sqrt(sum(share**2 for share in shares))
            lengths = [math.sqrt(squared_length(tensor)) or 1.0 for tensor in into]
            steps = [share / total / length for share, length in zip(shares, lengths, strict=True)]
        else:
            steps = [1 / math.sqrt(sum(squared_length(tensor) for tensor in into))] * len(into)
        for tensor, step in zip(into, steps, strict=True):
            tensor.mul_(step)

    @contextmanager
    def applied(self, k: int) -> Iterator[None]:
        """Hold the private copy at theta + size * u_k; restore the very bytes of theta afterwards."""
        try:
            self.draw(k, [p.copy for p in self.moving])  # in place: the user's own weights are the clean ones
            for p in self.moving:
                p.copy.mul_(self.size).add_(p.clean.to(p.copy))
            yield
        finally:
            for p in self.moving:
                p.restore()

    def direction(self, k: int) -> dict[str, Tensor]:
        """Return the k-th direction by parameter name, tied names sharing one tensor."""
        tensors = [torch.empty_like(p.copy) for p in self.moving]
        self.draw(k, tensors)
        return {name: t for p, t in zip(self.moving, tensors, strict=True) for name in p.names}


def allowance(which: Which) -> Callable[[str, Tensor], bool]:
    """A test on name and tensor; patterns are as in a shell, `layer4.*`."""
    if which is None:
        return lambda name, tensor: True
    if callable(which):
        return which
    patterns = [which] if isinstance(which, str) else list(which)
    return lambda name, tensor: any(fnmatchcase(name, pattern) for pattern in patterns)


def moves_features(context: QueryContext) -> bool:
    """Whether perturbations move the features of a `context`: some parameter comes before the head."""
    runner = context.runner
    return any(before_head(runner, name) for p in parameters(runner) for name in p.aliases)
