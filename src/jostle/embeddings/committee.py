"""A committee of networks: how much its members disagree on each example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from jostle.core import Choice, Embedded, Estimate
from jostle.embeddings.disagreement import jensen_shannon, variance
from jostle.embeddings.uncertainty import SiteScores
from jostle.inference.context import QueryContext
from jostle.inference.defaults import their_device
from jostle.inference.estimate import score_estimate
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs
from jostle.rng import derive
from jostle.selectors import top_k
from jostle.tasks import Regression


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
        return context.runner_of(model)
