"""A context (model and pool) in, one row for each example out; any selector may follow."""

from typing import Any

from jostle.core import Embedding
from jostle.embeddings.committee import QueryByCommittee
from jostle.embeddings.deviations import Deviations
from jostle.embeddings.dropout import Bald, EntropyDropout
from jostle.embeddings.features import Features, GraphNetwork
from jostle.embeddings.gradients import ExpectedGradientLength, LastLayerGradients, SketchedGradients
from jostle.embeddings.uncertainty import Entropy, LeastConfidence, Margin, Probabilities
from jostle.utils.registry import Entry, Registry

__all__ = [
    "Bald",
    "Deviations",
    "Entropy",
    "EntropyDropout",
    "ExpectedGradientLength",
    "Features",
    "GraphNetwork",
    "LastLayerGradients",
    "LeastConfidence",
    "Margin",
    "Probabilities",
    "QueryByCommittee",
    "SketchedGradients",
    "build",
    "describe",
    "names",
    "register",
]

REGISTRY: Registry[Embedding, Entry] = Registry(
    "embedding", "jostle.embeddings", Entry, makes=(Embedding, "a jostle.Embedding")
)
REGISTRY.enter(
    {
        "features": Features,
        "probabilities": Probabilities,
        "deviations": Deviations,
        "last-layer-gradients": LastLayerGradients,
        "sketched-gradients": SketchedGradients,
        "graph": GraphNetwork,
        "entropy": Entropy,
        "margin": Margin,
        "least-confidence": LeastConfidence,
        "egl": ExpectedGradientLength,
        "bald": Bald,
        "entropy-dropout": EntropyDropout,
        "qbc": QueryByCommittee,
    }
)
describe, names, register = REGISTRY.entry, REGISTRY.names, REGISTRY.register


def build(name: str, /, **settings: Any) -> Embedding:
    """An embedding by name.

    Args:
        name: A name of the registry, or `file.py:name`, a class or function of your own that makes one.
        settings: Its settings, by keyword.
    """
    return REGISTRY.build(name, settings)
