"""What a cycle would take at a protocol's full size, from a run of a small part of it."""

from jostle.core import Strategy
from jostle.embeddings import QueryByCommittee
from jostle.experiments.protocol import Protocol, load
from jostle.experiments.results import Results
from jostle.experiments.setup import build_strategy
from jostle.experiments.statistics import times
from jostle.strategies.adversarial import Autoencoding


def full_cycle(results: Results) -> dict[str, float]:
    """Seconds of a cycle, training and selection, at the size of the protocol that jostle has under this name."""
    small = Protocol.model_validate(results.protocol)
    whole = load(small.name)
    training = min(run.costs("train_seconds")[0] for run in results.runs)
    longer = trained_examples(whole) / trained_examples(small)
    cycles = {}
    for each in times(results):
        used, full = (build_strategy(size.strategies[each.label]) for size in (small, whole))
        scoring = max(0.0, each.best - training * other_members(used))
        growth = images_seen(whole, full) / images_seen(small, used)
        cycles[each.label] = training * longer * (1 + other_members(full)) + scoring * growth
    return cycles


def trained_examples(size: Protocol) -> float:
    """Examples that a network sees in its training."""
    epochs = size.training.epochs if size.training else 1
    return size.initial * epochs


def other_members(strategy: Strategy) -> int:
    """Networks that a selection trains like the model itself."""
    return strategy.committee - 1 if isinstance(strategy, QueryByCommittee) else 0


def images_seen(size: Protocol, strategy: Strategy) -> float:
    """What a selection's time grows with: the candidates, or, taking nearly all of it, an autoencoder's training."""
    candidates = float(size.candidates)  # labeled examples and picks are taken to grow with them
    if isinstance(strategy, Autoencoding):
        return float(strategy.number_of_steps(int(size.initial + candidates)) * strategy.batch)
    return candidates
