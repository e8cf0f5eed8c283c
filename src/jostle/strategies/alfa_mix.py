"""ALFA-Mix (Parvaneh et al., CVPR 2022): examples whose prediction flips when a little of another class is mixed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from jostle.core import Embedded, Estimate, Strategy
from jostle.inference.context import QueryContext
from jostle.inputs import Inputs, Pool
from jostle.rows.geometry import blocks
from jostle.selectors import Picks
from jostle.selectors.base import WORD, block_room
from jostle.selectors.clusters import k_means, unit_in_float64
from jostle.selectors.top_k import largest_first
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS

CAP_STEPS = {"closed": 0.2, "optimized": 0.03125}  # the authors'
LEAST_MIX = 1e-8
SURE = 1e-6  # a loss below which the gradient in single precision would be mostly rounding
BLOCK_ROWS = 4096  # rows sent through the head at once


@register(
    "alfa-mix",
    gist="predictions that mixing in another class flips",
    formula="z + cap / sqrt(d) ||z*_c - z|| g / ||g||, g = grad_z CE(head(z), argmax); k-means over those that flip",
    needs=("weights", "probabilities", "features", "labeled set"),
    cost="one forward pass, c head passes per step of the cap, k-means; the optimized form six times as many",
    paper="Parvaneh et al., Active Learning by Feature Mixing, CVPR 2022",
    when="classification with trustworthy features and few labels for each class",
)
@dataclass(frozen=True, kw_only=True)
class AlfaMix(Strategy):
    """An example is worth a label if mixing its features with a class's mean flips its prediction.
    Of those that flip, k-means over features at unit length gives one for each cluster.

    The closed form is the default: it is the paper's formula, needs no draws and one head pass for each class.
    The optimized form learns the mixture, as the authors' published command does. Shortfalls are drawn at random, first
    of those that flip: copies share a cluster. A score is 1 / the cap at which the example flipped, 0 if it did not.
    """

    ranges: ClassVar = {"form": tuple(CAP_STEPS), "cap_step": "(0, 1]"}
    serves = CLASS_TASKS
    why_not = "it flips the predicted class by mixing in other classes; use default"
    form: str = "closed"
    """How the mixture is found: "closed" or "optimized"."""
    cap_step: float | None = None
    """The cap on the mixture rises by this up to 1; None: 0.2, optimized 1/32."""
    steps: int = 5
    """Steps of Adam, in the optimized form."""
    lr: float = 0.1
    """The learning rate of Adam, a tenth of it in the last third."""

    def embedding(self, context: QueryContext) -> Embedded:
        """1 / the cap at which each prediction flips, 0 if none does, (n, 1)."""
        return Embedded(self.mixing(context).flips(self, context, len(context.pool)).unsqueeze(1))

    def query(self, context: QueryContext, n: int) -> Picks:
        """Find enough examples that flip, then one for each cluster of them."""
        with context.timed("embedding"):
            mixing = self.mixing(context)
            scores = mixing.flips(self, context, n)
        candidates = scores.nonzero()[:, 0]
        with context.selecting(n):
            picks = candidates[nearest_to_centers(mixing.features[candidates], n, context.seed)]
            left = torch.ones(len(scores), dtype=torch.bool)
            left[picks.cpu()] = False
            rest = left.nonzero()[:, 0]
            rest = rest[torch.randperm(len(rest), generator=context.rng("alfa-mix", "fill", device="cpu"))]
            rest = rest[(scores.cpu()[rest] == 0).byte().argsort(stable=True)]  # those that flip come first
            picks = torch.cat([picks, rest[: n - len(picks)].to(picks.device)])
            return Picks(picks, scores[picks].double())

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Features from one pass, mixtures of a block of them at a time, and k-means over those that flip."""
        d, turns = (
            math.prod(head_input(context)),
            math.ceil(1 / (self.cap_step or CAP_STEPS[self.form]) - 1e-9),
        )
        made = clustering_estimate(context, n, context.pools, d)
        item = context.row_type.itemsize
        return replace(
            made,
            rows=made.passes * (d + context.classes) * item,
            working=6 * BLOCK_ROWS * d * item,
            extra_work=f"up to {turns * context.classes:,} passes of the head",
        )

    def mixing(self, context: QueryContext) -> Mixing:
        """Features, predictions and the means of all classes."""
        context.needs_labeled("alfa-mix")
        head = head_function(context, "alfa-mix")
        targets = labeled_classes(context, "alfa-mix").to(context.device)

        def read(inputs: Inputs) -> tuple[Tensor, Tensor]:
            features, outputs = context.runner.features_and_outputs(inputs)
            return features.flatten(1), context.task.logits(outputs)

        features, outputs = context.compute(read, *context.pools, what="features and outputs")
        rows, known = context.split(features)
        assert known is not None
        anchors = class_means(known, targets, outputs.shape[1])
        return Mixing(head, rows, outputs[: len(rows)].argmax(1), anchors)


@dataclass(frozen=True)
class Mixing:
    """All that mixing needs."""

    head: Callable[[Tensor], Tensor]  # (k, d) -> (k, c)
    features: Tensor  # z (n, d)
    predicted: Tensor  # (n,)
    anchors: Tensor  # z*: a class's mean of labeled features (c, d)

    def flips(self, settings: AlfaMix, context: QueryContext, n: int) -> Tensor:
        """1 / the cap at which each prediction flips, (n,); the cap rises until more than n do, or all, or to 1."""
        step = settings.cap_step or CAP_STEPS[settings.form]
        scores = torch.zeros_like(self.features[:, 0])
        turns = math.ceil(1 / step - 1e-9)
        with context.progress("mixing", turns) as advance:
            for turn in range(1, turns + 1):
                cap = min(turn * step, 1.0)
                left = (scores == 0).nonzero()[:, 0]
                for part in left.split(BLOCK_ROWS):
                    closed = settings.form == "closed"
                    mixed = self.closed(part, cap) if closed else self.optimized(part, cap, settings, context)
                    for candidates in mixed:
                        with torch.no_grad():
                            flipped = self.head(candidates).argmax(1) != self.predicted[part]
                        scores[part[flipped]] = 1 / cap
                advance(1)
                if int(scores.count_nonzero()) > min(n, len(scores) - 1):
                    break
        return scores

    def closed(self, part: Tensor, cap: float) -> Iterator[Tensor]:
        """Mixtures with each class: a step up the loss, as long as the distance to the class's mean allows."""
        z = self.features[part]
        gradient = self.gradient(z, self.predicted[part])
        lengths = gradient.norm(dim=1, keepdim=True)
        upwards = gradient / torch.where(lengths > 0, lengths, 1)  # a saturated example does not move
        reach = cap / math.sqrt(z.shape[1])
        for anchor in self.anchors:
            yield z + reach * (anchor - z).norm(dim=1, keepdim=True) * upwards

    def gradient(self, z: Tensor, predicted: Tensor) -> Tensor:
        """The gradient of the predicted class's loss with respect to the features, (k, d).

        Of a sure prediction only the direction is right: p - 1 is rounding there, so the loss is divided by 1 - p.
        """
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            logits, winner = self.head(z), predicted[:, None]
            losses = F.cross_entropy(logits, predicted, reduction="none")
            others = logits.detach().scatter(1, winner, -torch.inf).softmax(1)  # shares of 1 - p
            divided = (others * (logits - logits.gather(1, winner))).sum(1)
            return torch.autograd.grad(torch.where(losses < SURE, divided, losses).sum(), z)[0]

    def optimized(
        self, part: Tensor, cap: float, settings: AlfaMix, context: QueryContext
    ) -> Iterator[Tensor]:
        """Mixtures with each class under the shares that Adam meets while it raises the loss."""
        z, predicted = self.features[part], self.predicted[part]
        for number, anchor in enumerate(self.anchors):
            draws = context.rng("alfa-mix", str(cap), number, int(part[0]))
            share = torch.randn(z.shape, generator=draws, device=z.device, dtype=z.dtype)
            share = (share * cap / 2 + cap / 2).clamp_(LEAST_MIX, cap).requires_grad_()
            adam = torch.optim.Adam([share], lr=settings.lr)
            for step in range(settings.steps):
                adam.param_groups[0]["lr"] = settings.lr * (1 if 3 * step < 2 * settings.steps else 0.1)
                with torch.enable_grad():
                    mixed = (1 - share) * z + share * anchor
                    loss = F.cross_entropy(self.head(mixed), predicted, reduction="sum")
                    (0.01 * share.norm(dim=1).sum() - loss).backward()
                yield mixed.detach()
                adam.step()
                adam.zero_grad()
                share.data.clamp_(LEAST_MIX, cap)
            yield ((1 - share) * z + share * anchor).detach()


def head_input(context: QueryContext) -> tuple[int, ...]:
    """The shape of one example's features as the head is given them."""
    with context.untracked():
        return tuple(context.runner.features(context.runner.example).shape[1:])


def head_function(context: QueryContext, method: str) -> Callable[[Tensor], Tensor]:
    """The function from features to logits; an error where the head is not all that follows the features."""
    runner, logits = context.runner, context.task.logits
    remedy = "name the module that turns features into outputs with head='...'"
    if callable(runner.given_head):
        raise ValueError(f"{method} sends changed features through the head, and got a function: {remedy}")
    module = runner.module.get_submodule(runner.head)
    with torch.no_grad():
        features, outputs = runner.features_and_outputs(runner.example)
        again = module(features.clone())  # a head may write into them
    if (
        not isinstance(again, Tensor)
        or again.numel() != outputs.numel()
        or not torch.allclose(logits(again).softmax(1), logits(outputs).softmax(1), atol=1e-4)
    ):
        raise ValueError(
            f"{method} needs the function from features to outputs, and {runner.head!r} of features "
            f"{tuple(features.shape)} is not the model's outputs {tuple(outputs.shape)}: {remedy}"
        )
    layout = features.shape[1:]
    return lambda rows: logits(module(rows.unflatten(1, layout).clone()))


def labeled_classes(context: QueryContext, method: str) -> Tensor:
    """Return the classes of the labeled set, (m,); raise an error unless each example has one of the model's.

    Args:
        context: The call, whose task has classes.
        method: The name of the strategy, for the error.
    """
    targets, classes = context.needs_labeled(method).targets(), context.classes
    whole = not targets.is_floating_point() or bool((targets == targets.round()).all())
    if targets.numel() != len(targets) or targets.is_complex() or not whole:
        raise ValueError(
            f"{method} needs one class per labeled example, a whole number; got {targets.dtype} of "
            f"{tuple(targets.shape)}"
        )
    numbers = context.task.class_numbers(targets).reshape(-1)
    if int(numbers.min()) < 0 or int(numbers.max()) >= classes:
        raise ValueError(
            f"labeled classes run from {int(numbers.min())} to {int(numbers.max())}, "
            f"and the model has {classes}: 0 to {classes - 1}"
        )
    return numbers


def class_means(features: Tensor, targets: Tensor, classes: int) -> Tensor:
    """The mean of each class's features, (c, d); of all features where a class has no example."""
    sums = features.new_zeros(classes, features.shape[1]).index_add_(0, targets, features)
    counts = targets.bincount(minlength=classes).unsqueeze(1)
    return torch.where(counts > 0, sums / counts.clamp(min=1), features.mean(0))


def clustering_estimate(context: QueryContext, n: int | None, pools: Sequence[Pool], d: int) -> Estimate:
    """Estimate one pass over `pools`, and clusters of at most all rows of the pool: d numbers each, in float64."""
    examples, size = sum(map(len, pools)), len(context.pool)
    room = (4 + 2 * WORD) * size * d + 6 * WORD * size + block_room(size, d) // 2
    what = f"features of {examples:,} examples, {d:,} numbers each, and clusters of them"
    return Estimate(passes=examples, selecting=0 if n is None else room, what=what)


def nearest_to_centers(features: Tensor, n: int, seed: int) -> Tensor:
    """The row nearest to the center of each k-means cluster, by direction; at most n and all distinct."""
    if not len(features):
        return torch.zeros(0, dtype=torch.int64, device=features.device)
    rows = unit_in_float64(features)
    cells, centers = k_means(rows, min(n, len(rows)), seed)
    gaps = rows.new_empty(len(rows))
    for part in blocks(len(rows), per_row=rows.shape[1]):
        gaps[part] = (rows[part] - centers[cells[part]]).norm(dim=1)
    order = largest_first(-gaps, seed)
    first = {int(cells[position]): int(position) for position in order.flip(0).tolist()}
    return torch.tensor([first[cell] for cell in sorted(first)], device=features.device)
