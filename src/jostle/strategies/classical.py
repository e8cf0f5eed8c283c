"""Scores of single examples: chance, uncertainty, expected gradients and disagreement."""

from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate
from jostle.embeddings.committee import QueryByCommittee
from jostle.embeddings.dropout import Bald, EntropyDropout
from jostle.embeddings.gradients import ExpectedGradientLength
from jostle.embeddings.uncertainty import (
    DISTRIBUTIONS,
    NO_CLASSES,
    Entropy,
    LeastConfidence,
    Margin,
    SiteScores,
    small_margin,
)
from jostle.inference.context import QueryContext
from jostle.selectors import top_k, uniform
from jostle.selectors.top_k import gumbel, log_power
from jostle.strategies.registry import register

ONE_PASS = "one forward pass"  # nosec B105  # no password


@register(
    "random",
    gist="drawn uniformly",
    formula="the first n of a random order of the pool",
    cost="none: the model does not run",
    paper="",
    when="as the yardstick: a method that does not beat it is not worth its cost",
)
@dataclass(frozen=True, kw_only=True)
class Random(Embedding):
    """Draw examples uniformly without replacement. A longer list with the same seed begins with the shorter one."""

    selector: Choice = uniform

    def embedding(self, context: QueryContext) -> Embedded:
        """Rows that say nothing."""
        return Embedded(torch.zeros(len(context.pool), 1, device="cpu"))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Nothing to speak of: the model does not run."""
        return Estimate(passes=0, rows=4 * len(context.pool))


register(
    "entropy",
    gist="the flattest predictions",
    formula="H(p) = -sum_y p_y ln p_y, largest first; the mean over pixels, labels or tokens",
    needs=("probabilities",),
    cost=ONE_PASS,
    paper="Shannon, A Mathematical Theory of Communication, 1948; Settles, Active Learning Literature Survey, 2009",
    when="probabilities can be trusted and batches are small: near copies score alike and are taken together",
)(Entropy)

register(
    "margin",
    gist="the two likeliest classes nearly tied",
    formula="1 - (p_(1) - p_(2)), largest first; the mean over pixels, labels or tokens",
    needs=("probabilities",),
    cost=ONE_PASS,
    paper="Scheffer et al., Active Hidden Markov Models for Information Extraction, IDA 2001",
    when="many classes: it looks at the two that compete, and ignores how the rest is spread",
)(Margin)


@register(
    "power-margin",
    gist="drawn with chances that fall with the margin",
    formula="ln(1 - (p_(1) - p_(2))) + Gumbel noise, largest first: drawn without replacement by 1 - margin",
    needs=("probabilities",),
    cost=ONE_PASS,
    paper="Kirsch et al., Stochastic Batch Acquisition: A Simple Baseline for Deep Active Learning, TMLR 2023",
    when="large batches at the price of margin: chance keeps near copies apart",
)
@dataclass(frozen=True, kw_only=True)
class PowerMargin(SiteScores):
    """Draw examples with chances that fall with their margins. A batch is then less alike than the smallest margins.

    Gumbel noise on the logarithm of a score gives draws in proportion to it. The selector `stochastic` draws by any
    other score: `compose("entropy", selector="stochastic(kind=softrank)")`.
    """

    serves = DISTRIBUTIONS
    why_not = NO_CLASSES
    selector: Choice = top_k
    power: float = 1.0
    """Chances are 1 - margin to this power; 0 is random, a large one is margin."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Logarithms of the scores, with noise."""
        return self.embedding_with(context, context.score(small_margin, "margins", self.reduction))

    def embedding_with(self, context: QueryContext, scores: Tensor) -> Embedded:
        """Logarithms of `scores`, with noise."""
        noise = gumbel(scores, context.rng("power-margin", device="cpu"))
        return Embedded(log_power(scores, self.power) + noise)


register(
    "least-confidence",
    gist="the least likely best guess",
    formula="1 - max_y p_y, largest first; the mean over pixels, labels or tokens",
    needs=("probabilities",),
    cost=ONE_PASS,
    paper="Lewis and Gale, A Sequential Algorithm for Training Text Classifiers, SIGIR 1994",
    when="only the winning class matters, as with accuracy",
)(LeastConfidence)

register(
    "egl",
    gist="the largest expected gradient of the last layer",
    formula="sum_y p_y |grad_W loss(x, y)| = |h| sum_y p_y |p - e_y|, W the last layer's weights (not its bias)",
    needs=("probabilities", "features"),
    cost=ONE_PASS,
    paper="Settles et al., Multiple-Instance Active Learning, NeurIPS 2007",
    when="one example at a time, and the length of features means something; badge is its form for batches",
)(ExpectedGradientLength)


COST = "T forward passes"

register(
    "bald",
    gist="dropout passes that are sure but disagree",
    formula="H(mean_t q_t) - mean_t H(q_t) over T dropout passes q_t, largest first",
    needs=("probabilities", "dropout"),
    cost=COST,
    paper="Houlsby et al., Bayesian Active Learning for Classification and Preference Learning, 2011; "
    "Gal et al., Deep Bayesian Active Learning with Image Data, ICML 2017",
    when="the network was trained with dropout, or insert_dropout=0.3 as in the noise-stability paper's code",
)(Bald)

register(
    "entropy-dropout",
    gist="the flattest predictions, averaged over dropout",
    formula="H(mean_t q_t) over T dropout passes q_t, largest first",
    needs=("probabilities", "dropout"),
    cost=COST,
    paper="Gal et al., Deep Bayesian Active Learning with Image Data, ICML 2017 (maximum entropy)",
    when="beside bald, to see whether passes that disagree say more than passes that are unsure",
)(EntropyDropout)

register(
    "qbc",
    gist="networks from different seeds that disagree",
    formula="H(mean_m p_m) - mean_m H(p_m), the Jensen-Shannon divergence of M members; the mean over pixels, "
    "labels or tokens; for numbers their variance",
    needs=("extra training",),
    cost="M - 1 trainings and M forward passes; without trainings if members are given",
    paper="Seung et al., Query by Committee, COLT 1992; Kuo et al., Cost-Sensitive Active Learning for "
    "Intracranial Hemorrhage Detection, MICCAI 2018",
    when="training is cheap, or an ensemble exists anyway",
)(QueryByCommittee)
