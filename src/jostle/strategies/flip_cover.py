"""FlipCover: jolts say which predictions noise would flip and which outputs move together; cover the former."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Costs, Embedded
from jostle.embeddings.deviations import Deviations
from jostle.embeddings.movements import jolted, movement_costs, movements
from jostle.inputs import Pool
from jostle.scoring.request import Request
from jostle.scoring.selecting import selecting
from jostle.selectors import ExplainedVariance, Picks
from jostle.selectors.base import WORD
from jostle.strategies.candidates import Shortlist, Shortlisting
from jostle.strategies.catalogue import register
from jostle.strategies.labels import labelled_classes
from jostle.tasks import CLASS_TASKS

SERVES = (*CLASS_TASKS, "regression")
WHY = "it follows one prediction per example; use margin-herding or noise-stability"
LOSS = 0.05  # of the labelled set's accuracy that jolts may cost
REGRESSION_NOISE = 1e-3
REGRESSION_JOLTS = 30
DOUBLINGS, HALVINGS = 60, 30


@register(
    "flip-cover",
    gist="what noise flips, covered by how outputs move",
    formula="argmax_i sum_j w_j C_ij^2 / (C_ii + s2), repeated; w = chance that noise flips j, C = correlation of "
    "movements given the labelled set and the picks",
    needs=("weights", "probabilities", "labelled set"),
    tasks=SERVES,
    cost="one forward pass, K over the 20 n smallest margins and the labelled set, then O(n K c) per pick",
    paper="of this package: noise stability (Li et al., AAAI 2024) as weight and kernel of a Gaussian process",
    when="jolts are affordable and labels are few; on regression it needs no margins",
)
@dataclass(frozen=True, kw_only=True)
class FlipCover(Shortlisting):
    """One set of jolts gives a weight, how likely noise flips a prediction, and a kernel, how strongly two examples'
    outputs move together. Each pick explains most of the flip-weighted variance that labels and picks leave.

    Noise is as strong as the labelled set bears: the largest step that costs a twentieth of the accuracy there.
    Without a labelled set the step is that at which half of the kept predictions are likelier than not to flip. In a
    regression all examples weigh alike, and features move in place of logits.
    """

    weighs: ClassVar[bool] = False  # what counts is the chance of a flip

    jolts: int | None = None
    """K; None: 20, and 30 for a regression."""
    noise: float | None = None
    """The s2, the variance of a label around its value; None: 0.05, and 0.001 for a regression."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jolts is not None and self.jolts < 1:
            raise ValueError(f"jolts is at least 1; got {self.jolts}")
        if self.noise is not None:
            ExplainedVariance(self.noise)  # a variance that cannot be shows now

    def embedding(self, request: Request) -> Embedded:
        """The chance that noise flips each prediction, (n,); 1 in a regression."""
        request.check_task("flip-cover", SERVES, WHY)
        everyone = torch.arange(len(request.pool), device="cpu")
        return Embedded(self.moves(request, everyone).weights)

    def shortlist(
        self, request: Request, size: int, n: int, of_smallest: Callable[[int], Shortlist]
    ) -> Shortlist:
        """Those of the smallest margins, of a task that has one prediction for each example."""
        request.check_task("flip-cover", SERVES, WHY)
        return super().shortlist(request, size, n, of_smallest)

    def among(self, request: Request, short: Shortlist, n: int) -> Picks:
        """Jolt the candidates, and cover what may flip."""
        kept = short.places
        with request.timed("embedding"):
            moves = self.moves(request, kept)
        with selecting(request, n):
            picks = self.picker(request).pick(
                moves.rows, n, centers=moves.labelled, weights=moves.weights, seed=request.seed
            )
            return picks.at(kept)

    def jolted(self, request: Request) -> Deviations:
        """As many jolts as suit the task of the `request`."""
        few = 20 if request.task.name != "regression" else REGRESSION_JOLTS
        return jolted(request, self.jolts or few)

    def picker(self, request: Request) -> ExplainedVariance:
        """Explained variance, with the noise that suits the task of the `request`."""
        regression = request.task.name == "regression"
        return ExplainedVariance(self.noise or (REGRESSION_NOISE if regression else 0.05))

    def costs(self, request: Request, n: int | None) -> Costs:
        """One pass over the pool, then movements of the candidates and of the labelled set."""
        size, known = len(request.pool), sum(map(len, request.pools[1:]))
        regression = request.task.name == "regression"
        kept = size if n is None else self.candidate_count(request, size, n)
        jolts = self.jolts or (REGRESSION_JOLTS if regression else 20)
        made = movement_costs(request, jolts, kept + known)
        margins = self.looked_at(request, size, kept)
        outputs = 0 if regression else kept + known  # the clean logits, once more
        explained = 3 * WORD * min(known, made.width) ** 2  # by the labelled set
        room = 0 if n is None else self.picker(request).room(kept, made.width, n) + explained
        return replace(made, passes=made.passes + margins + outputs, selecting=room)

    def moves(self, request: Request, kept: Tensor) -> Moves:
        """Movements of candidates and labelled set under the same jolts, and the candidates' weights."""
        candidates = request.pool.take(kept)
        both = (candidates, *request.pools[1:])
        if request.task.name == "regression":
            rows = movements(request, self.jolts or REGRESSION_JOLTS, *both)
            known = rows[len(kept) :]
            return Moves(rows[: len(kept)], known if len(known) else None, rows.new_ones(len(kept)))
        targets = None
        if request.labeled is not None and len(request.labeled):
            targets = labelled_classes(request, "flip-cover")  # refused before anything is jolted
        jolts = self.jolts or 20
        moved = movements(request, jolts, *both).unflatten(1, (jolts, -1))  # (n + m, K, c)
        logits = self.logits(request, *both)
        step = None if targets is None else bearable(logits[len(kept) :], moved[len(kept) :], targets)
        weights = flip_chances(logits[: len(kept)], moved[: len(kept)], step)
        labelled = None if targets is None else moved[len(kept) :].flatten(1)
        return Moves(moved[: len(kept)].flatten(1), labelled, weights)

    def logits(self, request: Request, *both: Pool) -> Tensor:
        """Clean logits, (n + m, c)."""
        (outputs,) = request.compute(
            lambda inputs: (request.task.logits(request.network.outputs(inputs)),), *both, what="outputs"
        )
        return outputs.double()


@dataclass(frozen=True)
class Moves:
    """What the jolts told."""

    rows: Tensor  # (n, K c)
    labelled: Tensor | None  # (m, K c)
    weights: Tensor  # (n,)


def bearable(logits: Tensor, moved: Tensor, targets: Tensor) -> float:
    """The largest step at which the jolted labelled set keeps 95 % of its accuracy, over both signs."""
    targets = targets.to(logits.device)[:, None]
    goal = (1 - LOSS) * float((logits.argmax(1, keepdim=True) == targets).double().mean())

    def accuracy(step: float) -> float:
        signs = (logits[:, None] + sign * step * moved for sign in (1, -1))
        return sum(float((each.argmax(2) == targets).double().mean()) for each in signs) / 2

    low, high = 0.0, 1e-6
    for _ in range(DOUBLINGS):
        if accuracy(high) < goal:
            break
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if accuracy(middle) >= goal else (low, middle)
    return low or high


def flip_chances(logits: Tensor, moved: Tensor, step: float | None) -> Tensor:
    """2 (1 - Phi(gap / (step rms movement of the gap))) at the nearest rival, (n,); without a step, such that the
    median example's gap is moved by as much as it is wide.
    """
    top = logits.argmax(1, keepdim=True)  # (n, 1)
    gaps = logits.gather(1, top) - logits  # (n, c)
    own = moved.gather(2, top[:, :, None].expand(-1, moved.shape[1], 1))  # (n, K, 1)
    spread = (own - moved).square().mean(1).sqrt()  # (n, c)
    limits = torch.finfo(spread.dtype)
    steps = gaps / spread.clamp(min=limits.tiny)
    steps = steps.clamp(max=limits.max)  # what never moves is not infinitely far
    nearest = steps.scatter(1, top, torch.inf).amin(1)  # steps to the nearest rival
    if step is None:
        step = float(nearest.median())
    scaled = nearest / max(step, torch.finfo(nearest.dtype).tiny)
    return torch.erfc(scaled / 2**0.5)
