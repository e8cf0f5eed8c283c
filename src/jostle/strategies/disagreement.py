"""Strategies that ask several opinions: dropout passes of one network, or a committee of networks."""

from jostle.embeddings.committee import QueryByCommittee
from jostle.embeddings.dropout import SERVED, Bald, EntropyDropout
from jostle.strategies.registry import ANY_TASK, register

__all__ = ["Bald", "EntropyDropout", "QueryByCommittee"]

COST = "T forward passes"

register(
    "bald",
    gist="dropout passes that are sure but disagree",
    formula="H(mean_t q_t) - mean_t H(q_t) over T dropout passes q_t, largest first",
    needs=("probabilities", "dropout"),
    tasks=SERVED,
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
    tasks=SERVED,
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
    tasks=ANY_TASK,
    cost="M - 1 trainings and M forward passes; without trainings if members are given",
    paper="Seung et al., Query by Committee, COLT 1992; Kuo et al., Cost-Sensitive Active Learning for "
    "Intracranial Hemorrhage Detection, MICCAI 2018",
    when="training is cheap, or an ensemble exists anyway",
)(QueryByCommittee)
