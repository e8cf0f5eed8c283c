"""A committee of networks: how much its members disagree on each example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from jostle.core import Choice, Embedded, Estimate, score_estimate
from jostle.embeddings.uncertainty import SiteScores, entropy
from jostle.inference.context import QueryContext
from jostle.inference.isolation import their_device
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs
from jostle.rng import derive
from jostle.selectors import top_k
from jostle.tasks import Regression


def entropies(opinions: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Entropy of the mean opinion, and mean entropy of the opinions, from distributions (..., c).

    Opinions are added up as they come: no more than one is held at a time.
    """
    total = expected = torch.zeros(())
    count = 0
    for p in opinions:
        p = p.double()
        total, expected, count = total + p, expected + entropy(p), count + 1
    if not count:
        raise ValueError("there is no opinion to compare")
    return entropy(total / count), expected / count


def jensen_shannon(opinions: Iterable[Tensor]) -> Tensor:
    """Jensen-Shannon divergence of distributions (..., c): entropy of the mean less mean entropy.

    With dropout passes for opinions it is BALD's mutual information; it lies in [0, ln min(opinions, c)].
    """
    of_mean, expected = entropies(opinions)
    return (of_mean - expected).clamp(min=0)


def variance(opinions: Iterable[Tensor]) -> Tensor:
    """Variance of numbers (n, ...) over the opinions, averaged over the numbers of each example: (n,)."""
    rows = [outputs.double().reshape(len(outputs), -1) for outputs in opinions]
    values = torch.stack(rows)  # (opinions, n, numbers)
    return values.var(0, unbiased=False).mean(1)


@dataclass(frozen=True, kw_only=True)
class QueryByCommittee(SiteScores):
    """Train several networks on the same labeled set from different seeds, and take the examples on which they
    disagree. The given model is the first member; `members` brings a whole committee instead of training one.
    """

    selector: Choice = top_k
    committee: int = 5
    """M, the number of members, the given model included."""
    members: Sequence[nn.Module] | None = None
    """The whole committee, trained: the given model counts only if listed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.committee if self.members is None else len(self.members)
        if size < 2:
            raise ValueError(f"a committee has at least 2 members; got {size}")

    def embedding(self, context: QueryContext) -> Embedded:
        """Disagreement of the members."""
        numbers = isinstance(context.task, Regression)
        members = self.networks(context)

        def read(inputs: Inputs) -> tuple[Tensor]:
            outputs = (member.outputs(member.prepared(inputs)) for member in members)
            if numbers:
                return (variance(outputs),)
            distributions = (context.reader.distribution(values.double()) for values in outputs)
            return (context.reader.reduce_sites(jensen_shannon(distributions), inputs, self.reduction),)

        return Embedded(context.compute(read, what=f"{len(members)} members")[0])

    def row_estimate(self, context: QueryContext) -> Estimate:
        """A score for each example from M members."""
        size = self.committee if self.members is None else len(self.members)
        trained = f"the training of {size - 1} further networks" if self.members is None else ""
        return replace(score_estimate(context, size), extra_work=trained)

    def networks(self, context: QueryContext) -> list[ModelRunner]:
        """Private copies of the members, trained where none were given."""
        if self.members is None:
            networks = [context.runner, *self.trained(context)]
        else:
            networks = [self.private(member, context) for member in self.members]
        shapes = {tuple(runner.example_outputs.shape) for runner in networks}
        if len(shapes) > 1:
            raise ValueError(f"members must give outputs of one shape; got {sorted(shapes)}")
        return networks

    def trained(self, context: QueryContext) -> Iterator[ModelRunner]:
        """All members but the first, each from a seed of its own."""
        fit = context.options.get("fit")
        if fit is None:
            raise ValueError(
                "qbc needs a committee: pass fit=, a function (dataset, seed) -> trained model, "
                "or members=[...], the trained models"
            )
        dataset = context.needs_labeled("qbc").dataset
        with context.progress("training the committee", self.committee - 1) as advance:
            for member in range(1, self.committee):
                with their_device():
                    model = fit(dataset, derive(context.seed, "committee", member))
                yield self.private(model, context)
                advance(1)

    def private(self, model: nn.Module, context: QueryContext) -> ModelRunner:
        """A copy of a member, in eval mode, where the context computes."""
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"a member of a committee is a torch.nn.Module; got {type(model).__name__}: of arrays of "
                "probabilities leave model and pool out, select('qbc', members=arrays, n=n)"
            )
        return context.runner_on(context.device, model, context.runner.example)
