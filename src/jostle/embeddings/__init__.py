"""A request (model and pool) in, one row for each example out; any selector may follow."""

from typing import Any

from jostle.core import Embedding
from jostle.embeddings.committee import QueryByCommittee
from jostle.embeddings.deviations import Deviations
from jostle.embeddings.dropout import Bald, EntropyDropout
from jostle.embeddings.features import Features
from jostle.embeddings.gradients import ExpectedGradientLength, LastLayerGradients, SketchedGradients
from jostle.embeddings.graph import GraphNetwork
from jostle.embeddings.uncertainty import Entropy, LeastConfidence, Margin, Probabilities
from jostle.plumbing.catalogue import Catalogue, Entry

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

CATALOGUE: Catalogue[Embedding, Entry] = Catalogue(
    "embedding", "jostle.embeddings", Entry, makes=(Embedding, "a jostle.Embedding")
)
CATALOGUE.enter(
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
describe, names, register = CATALOGUE.entry, CATALOGUE.names, CATALOGUE.register


def build(name: str, /, **settings: Any) -> Embedding:
    """An embedding by name.

    Args:
        name: A name of the catalogue, or `file.py:name`, a class or function of your own that makes one.
        settings: Its settings, by keyword.
    """
    return CATALOGUE.build(name, settings)
