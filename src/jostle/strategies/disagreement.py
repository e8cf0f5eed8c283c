"""Strategies that ask several opinions: dropout passes of one network, or a committee of networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from jostle.core import Choice, Embedded, Embedding
from jostle.embeddings.disagreement import entropies, jensen_shannon, variance
from jostle.embeddings.dropout import DropoutPasses
from jostle.inputs import Inputs
from jostle.rng import derive
from jostle.scoring.network import Network
from jostle.scoring.request import Request
from jostle.selectors import top_k
from jostle.strategies.catalogue import ANY_TASK, register
from jostle.tasks import CLASS_TASKS, Regression

WHY_NOT = (
    "T passes over every pixel cost too much, and numbers have no distributions to compare; use qbc or "
    "noise-stability, or for a segmentation entropy"
)
SERVED = (*CLASS_TASKS, "multi-label", "sequence")
COST = "T forward passes"


@register(
    "bald",
    gist="dropout passes that are sure but disagree",
    formula="H(mean_t q_t) - mean_t H(q_t) over T dropout passes q_t, largest first",
    needs=("probabilities", "dropout"),
    tasks=SERVED,
    cost=COST,
    paper="Houlsby et al., Bayesian Active Learning for Classification and Preference Learning, 2011; "
    "Gal et al., Deep Bayesian Active Learning with Image Data, ICML 2017",
    when="the network was trained with dropout, or insert_dropout=0.3 as in the noise-stability paper's code",
)
@dataclass(frozen=True, kw_only=True)
class Bald(DropoutPasses):
    """Take the examples on which dropout passes are each sure but disagree. This is the mutual information of the
    label and the weights: noise in the data, which all passes agree on, does not count.
    """

    def embedding(self, request: Request) -> Embedded:
        """Mutual information."""
        request.check_task("bald", SERVED, WHY_NOT)
        return Embedded(self.rows(request, lambda passes: jensen_shannon(passes).mean(1)))


@register(
    "entropy-dropout",
    gist="the flattest predictions, averaged over dropout",
    formula="H(mean_t q_t) over T dropout passes q_t, largest first",
    needs=("probabilities", "dropout"),
    tasks=SERVED,
    cost=COST,
    paper="Gal et al., Deep Bayesian Active Learning with Image Data, ICML 2017 (maximum entropy)",
    when="beside bald, to see whether passes that disagree say more than passes that are unsure",
)
@dataclass(frozen=True, kw_only=True)
class EntropyDropout(DropoutPasses):
    """Take the examples whose distribution, averaged over dropout passes, is flattest. It adds up what the weights
    and what the data leave open.
    """

    def embedding(self, request: Request) -> Embedded:
        """Entropy of the mean, not the mean of the entropies."""
        request.check_task("entropy-dropout", SERVED, WHY_NOT)
        return Embedded(self.rows(request, lambda passes: entropies(passes)[0].mean(1)))


@register(
    "qbc",
    gist="networks from different seeds that disagree",
    formula="H(mean_m p_m) - mean_m H(p_m), the Jensen-Shannon divergence of M members; the mean over pixels, "
    "labels or tokens; for numbers their variance",
    needs=("extra training",),
    tasks=ANY_TASK,
    cost="M - 1 trainings and M forward passes; without trainings if members are given",
    paper="Seung et al., Query by Committee, COLT 1992; Kuo et al., Cost-Sensitive Active Learning for "
    "Intracranial Hemorrhage Detection, MICCAI 2018",
    when="training is cheap, or an ensemble exists anyway",
)
@dataclass(frozen=True, kw_only=True)
class QueryByCommittee(Embedding):
    """Train several networks on the same labelled set from different seeds, and take the examples on which they
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

    def embedding(self, request: Request) -> Embedded:
        """Disagreement of the members."""
        numbers = isinstance(request.task, Regression)
        members = self.networks(request)

        def read(inputs: Inputs) -> tuple[Tensor]:
            outputs = (member.outputs(member.prepared(inputs)) for member in members)
            if numbers:
                return (variance(outputs),)
            return (jensen_shannon(request.distribution_of(values.double()) for values in outputs).mean(1),)

        return Embedded(request.compute(read, what=f"{len(members)} members")[0])

    def networks(self, request: Request) -> list[Network]:
        """Private copies of the members, trained where none were given."""
        if self.members is None:
            networks = [request.network, *self.trained(request)]
        else:
            networks = [self.private(member, request) for member in self.members]
        shapes = {tuple(network.example_outputs.shape) for network in networks}
        if len(shapes) > 1:
            raise ValueError(f"members must give outputs of one shape; got {sorted(shapes)}")
        return networks

    def trained(self, request: Request) -> Iterator[Network]:
        """All members but the first, each from a seed of its own."""
        if request.fit is None:
            raise ValueError(
                "qbc needs a committee: pass fit=, a function (dataset, seed) -> trained model, "
                "or members=[...], the trained models"
            )
        dataset = request.needs_labeled("qbc").dataset
        with request.progress("training the committee", self.committee - 1) as advance:
            for member in range(1, self.committee):
                model = request.fit(dataset, derive(request.seed, "committee", member))
                yield self.private(model, request)
                advance(1)

    def private(self, model: nn.Module, request: Request) -> Network:
        """A copy of a member, in eval mode, where the request computes."""
        if not isinstance(model, nn.Module):
            raise TypeError(f"a member of a committee is a torch.nn.Module; got {type(model).__name__}")
        return request.network_of(model)
