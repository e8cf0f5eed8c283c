"""CoreGCN and UncertainGCN (Caramalau et al., CVPR 2021): a graph network tells labeled from unlabeled."""

from dataclasses import dataclass

from jostle.core import Choice, Embedded
from jostle.embeddings.features import GraphNetwork
from jostle.inference.context import QueryContext
from jostle.selectors import top_k
from jostle.strategies.registry import register

PAPER = "Caramalau et al., Sequential Graph Convolutional ModelRunner for Active Learning, CVPR 2021"
COST = "one forward pass over pool and labeled set, then 200 epochs of O((n + m) d width); no n x n matrix"
NEEDS = ("features", "labeled set", "extra training")


@register(
    "core-gcn",
    gist="k-center on a graph network's embedding",
    formula="k-center from the labeled set on [relu(A X W1 + b1), A relu(.) W2 + b2]",
    needs=NEEDS,
    cost=COST,
    paper=PAPER,
    when="any task with features, when coreset's plain distances mix what is near with what is alike",
)
@dataclass(frozen=True, kw_only=True)
class CoreGCN(GraphNetwork):
    """A graph network over pool and labeled set learns which of its nodes are labeled.
    Greedy k-center from the labeled nodes then works on what the network sees of each node.
    """


@register(
    "uncertain-gcn",
    gist="what a graph network is unsure to be labeled",
    formula="smallest |s_i - margin|, s = sigmoid(A relu(A X W1 + b1) W2 + b2)",
    needs=NEEDS,
    cost=COST,
    paper=PAPER,
    when="small batches; core-gcn keeps large ones diverse",
)
@dataclass(frozen=True, kw_only=True)
class UncertainGCN(GraphNetwork):
    """A graph network over pool and labeled set learns which of its nodes are labeled.
    It takes the examples whose score lies nearest a low margin: those it is surest are unlike the labeled ones.
    """

    selector: Choice = top_k
    margin: float = 0.1
    """The score looked for; 1 is labeled."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Minus the distance of each score to the margin."""
        scores, _ = context.split(self.fitted(context)[1])
        return Embedded(-(scores.sigmoid() - self.margin).abs())  # (n, 1)
