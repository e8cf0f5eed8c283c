"""Monte Carlo dropout: T passes of a trained network, each with parts of it switched off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jostle.core import Choice, Embedded, Embedding, Estimate, score_estimate
from jostle.embeddings.committee import entropies, jensen_shannon
from jostle.embeddings.masks import Axis, Luck, Masks
from jostle.inference.context import QueryContext
from jostle.inference.runner import ModelRunner
from jostle.inputs import ExampleList, Inputs, count, mapped
from jostle.rng import derive, uniform_by_place
from jostle.rows.geometry import Reduction
from jostle.selectors import top_k
from jostle.tasks import CLASS_TASKS
from jostle.utils.names import unknown

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TOO_MANY_SITES = (
    "T passes over every pixel cost too much, and numbers have no distributions to compare; use qbc or "
    "noise-stability, or for a segmentation entropy"
)
HOLDERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@dataclass(frozen=True, kw_only=True)
class DropoutPasses(Embedding):
    """T dropout passes over each example; `rows(context, of)` applies `of` to their distributions.

    A pass has one mask for all examples, drawn from the call's seed: results do not depend on the batch size. Only
    dropout acts; BatchNorm stays in eval mode.
    """

    ranges: ClassVar = {"passes": "[2, inf)", "insert_dropout": "(0, 1)"}
    serves: ClassVar[tuple[str, ...]] = (*CLASS_TASKS, "multi-label", "sequence")
    why_not = TOO_MANY_SITES
    shardable = True

    selector: Choice = top_k
    passes: int = 50
    """T, how many passes there are."""
    insert_dropout: float | None = None
    """The rate of dropout inserted at scoring only, beside the model's own."""
    dropout_after: Sequence[str] | None = None
    """After which modules it is inserted, by pattern; None: convolutions in blocks, or stages."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dropout_after is not None and self.insert_dropout is None:
            raise ValueError(
                "dropout_after= says where dropout is inserted: give its rate with insert_dropout="
            )
        if isinstance(self.dropout_after, str):
            raise TypeError(
                f"dropout_after is a list of module names; got {self.dropout_after!r} (put it in a list)"
            )

    def rows(self, context: QueryContext, of: Callable[[Iterator[Tensor], Inputs], Tensor]) -> Tensor:
        """Apply `of` to T distributions (n, sites, c) of each micro-batch, given one after the other."""
        with self.sampling(context) as sampler:

            def read(inputs: Inputs) -> tuple[Tensor]:
                passes = (sampler.outputs(inputs, t).double() for t in range(self.passes))
                return (of(map(context.reader.distribution, passes), inputs),)

            rows = context.compute(read, what=f"{self.passes} dropout passes")[0]
        if not sampler.moved:
            raise ValueError(
                f"dropout made no difference to any output in {self.passes} passes: of narrow layers ask for more "
                f"passes, {REMEDY}"
            )
        return rows

    def row_estimate(self, context: QueryContext) -> Estimate:
        """A score for each example from T passes."""
        fewer = f"passes={max(2, self.passes // 5)}: rougher scores for a fifth of the passes"
        return replace(score_estimate(context, self.passes), suggestions=(fewer,))

    @contextmanager
    def sampling(self, context: QueryContext) -> Iterator[Sampler]:
        """A network whose dropout acts; an error if it has none. The network is eval-only again afterwards."""
        runner = context.runner
        sampler = Sampler(runner, Masks(luck_of(context)))
        with torch.no_grad(), ExitStack() as stack:
            sampler.wake(stack)
            if self.insert_dropout is not None:
                for name in insertion_points(runner, self.dropout_after, sampler.tensors):
                    hook = runner.module.get_submodule(name).register_forward_hook(self.inserted)
                    stack.callback(hook.remove)
            sampler.learn_axes()
            yield sampler

    def inserted(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        """Dropout after a module."""
        assert self.insert_dropout is not None
        return F.dropout(output, self.insert_dropout)


@dataclass(frozen=True, kw_only=True)
class DropoutScores(DropoutPasses):
    """One score for each example from T dropout passes."""

    reduction: Reduction = "mean"
    """How scores of tokens, pixels or labels become one: "mean", "sum" (long sequences count more) or "max"."""

    def scores(self, context: QueryContext, of: Callable[[Iterator[Tensor]], Tensor]) -> Tensor:
        """Reduce what `of` makes of T distributions (n, sites, c) over the sites: (n,)."""

        def read(passes: Iterator[Tensor], inputs: Inputs) -> Tensor:
            return context.reader.reduce_sites(of(passes), inputs, self.reduction)

        return self.rows(context, read)


@dataclass(frozen=True, kw_only=True)
class Bald(DropoutScores):
    """Take the examples on which dropout passes are each sure but disagree. This is the mutual information of the
    label and the weights: noise in the data, which all passes agree on, does not count.
    """

    def embedding(self, context: QueryContext) -> Embedded:
        """Mutual information."""
        return Embedded(self.scores(context, jensen_shannon))


@dataclass(frozen=True, kw_only=True)
class EntropyDropout(DropoutScores):
    """Take the examples whose distribution, averaged over dropout passes, is flattest. It adds up what the weights
    and what the data leave open.
    """

    def embedding(self, context: QueryContext) -> Embedded:
        """Entropy of the mean, not the mean of the entropies."""
        return Embedded(self.scores(context, lambda passes: entropies(passes)[0]))


class Sampler:
    """Outputs of a network under dropout, one pass for each number."""

    def __init__(self, runner: ModelRunner, masks: Masks) -> None:
        self.runner = runner
        self.masks = masks
        self.moved = False  # whether any two passes over the same inputs differed
        self.first = runner.example_outputs  # of pass 0; the trace is taken before anything is inserted

    def outputs(self, inputs: Inputs, number: int) -> Tensor:
        """Outputs of one pass; all passes over the same inputs come in order."""
        self.masks.begin(number)
        with self.masks:
            outputs = self.runner.outputs(inputs)
        if number == 0:
            self.first = outputs.clone()
        elif not self.moved:
            self.moved = not torch.equal(outputs, self.first)
        return outputs

    def wake(self, stack: ExitStack) -> None:
        """Find modules that ask for dropout only in training mode (attention does), and let them have it.

        Their flag alone is set, not that of the modules inside them.
        """
        with self.masks.following(self.runner.module):
            self.outputs(self.runner.example, 0)
        for part in self.masks.resting:
            part.training = True
            stack.callback(setattr, part, "training", False)

    @property
    def tensors(self) -> set[str]:
        """Modules that return a tensor, after which dropout can be inserted."""
        return {name for name, part in self.runner.module.named_modules() if part in self.masks.tensors}

    def learn_axes(self) -> None:
        """See where each mask meets the examples: in the dimension that doubles when the examples do."""
        example, shapes = self.runner.example, []
        for inputs in (example, doubled(example)):
            self.outputs(inputs, 0)
            shapes.append(self.masks.shapes)
        if not shapes[0]:
            kind = type(self.runner.original).__name__
            raise ValueError(f"{kind} has no dropout that acts, so all passes would be the same: {REMEDY}")
        found = [axis_of(one, two, count(example)) for one, two in zip(*shapes, strict=False)]
        self.masks.axes = {place: axis for place, axis in enumerate(found) if axis is not None}


def doubled(inputs: Inputs) -> Inputs:
    """A batch with every example twice; of a list of examples the list, not each of them."""
    if isinstance(inputs, ExampleList):
        return ExampleList([*inputs, *inputs])
    return mapped(lambda array: torch.cat([array, array]), inputs)


def luck_of(context: QueryContext) -> Luck:
    """Draws for the places of a pass; those of padded sequences do not depend on how long a batch is."""

    def drawn(shape: Sequence[int], number: int, place: int, device: torch.device) -> Tensor:
        rng = context.rng("dropout", number, place, device=device)
        return torch.rand(shape, generator=rng, device=device)

    def by_place(shape: Sequence[int], number: int, place: int, device: torch.device) -> Tensor:
        return uniform_by_place(shape, derive(context.seed, "dropout", number, place), device)

    masked = (
        context.reader.mask_in(context.runner.example) is not None
    )  # texts, each batch as long as its longest
    return by_place if context.reader.padded or (masked and not context.pool.in_arrays) else drawn


REMEDY = (
    "train the model with dropout, or insert dropout at scoring only with insert_dropout=0.3 "
    "(and dropout_after=[...] to say after which modules)"
)


def axis_of(one: torch.Size, two: torch.Size, examples: int) -> Axis | None:
    """The dimension that holds the examples, and its entries per example; None if none grew with them."""
    if len(one) != len(two):
        return 0, 1
    for dimension, (small, large) in enumerate(zip(one, two, strict=True)):
        if small != large:
            return dimension, small // examples if large == 2 * small and small % examples == 0 else 1
    return None


def insertion_points(runner: ModelRunner, given: Sequence[str] | None, tensors: set[str]) -> list[str]:
    """Modules after which dropout is inserted: as given by name or pattern, or by the network's structure.

    That is, the convolutions inside blocks, as in a ResNet, or without blocks every stage in front of the head.
    """
    if given is None:
        found = [name for name in block_convolutions(runner) or stages(runner, tensors) if name in tensors]
        if not found:
            raise ValueError(
                "found no layer in front of the head to insert dropout after: name some, dropout_after=[...]"
            )
        return found
    names = [name for name, _ in runner.module.named_modules() if name]
    chosen: list[str] = []
    for pattern in given:
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise unknown("module of dropout_after", pattern, names)
        chosen += [name for name in matching if name not in chosen]
    wrong = [name for name in chosen if name not in tensors]
    if wrong:
        raise ValueError(f"dropout_after names {', '.join(wrong)}, never called or returning no tensor")
    return chosen


def block_convolutions(runner: ModelRunner) -> list[str]:
    """Convolutions that a block holds itself, at least two of them; shortcuts lie deeper and are left out."""
    found: list[str] = []
    for name, module in runner.module.named_modules():
        whole = not name or is_or_holds(name, runner.head) or isinstance(module, HOLDERS)
        own = [f"{name}.{child}" for child, part in module.named_children() if isinstance(part, CONVOLUTIONS)]
        if not whole and len(own) > 1:
            found += own
    return [name for name in found if called_before_head(runner, name)]


def stages(runner: ModelRunner, tensors: set[str], inside: str = "") -> list[str]:
    """The largest parts with weights in front of the head, each of which returns a tensor."""
    found: list[str] = []
    for child, part in runner.module.get_submodule(inside).named_children():
        name = f"{inside}.{child}" if inside else child
        weighted = any(parameter.ndim > 1 for parameter in part.parameters())
        if is_or_holds(name, runner.head) or (weighted and name not in tensors):
            found += stages(runner, tensors, name)
        elif weighted and called_before_head(runner, name):
            found.append(name)
    return found


def is_or_holds(name: str, head: str) -> bool:
    """Whether a module is the head or has it inside."""
    return head == name or head.startswith(name + ".")


def called_before_head(runner: ModelRunner, name: str) -> bool:
    """Whether a module is called before the head."""
    return name in runner.order and runner.order[name] < runner.order[runner.head]
