"""Every method by name, and `compose`: `select("noise-stability", model, pool, n=100)`."""

from jostle.core import Query, Strategy
from jostle.embeddings import (
    Bald,
    Entropy,
    EntropyDropout,
    ExpectedGradientLength,
    LeastConfidence,
    Margin,
    QueryByCommittee,
)
from jostle.strategies.adversarial import SRAAL, VAAL
from jostle.strategies.alfa_mix import AlfaMix
from jostle.strategies.badge import Badge
from jostle.strategies.bait import Bait
from jostle.strategies.batch_bald import BatchBald
from jostle.strategies.cal import Cal
from jostle.strategies.classical import PowerMargin, Random
from jostle.strategies.composition import compose
from jostle.strategies.default import Default
from jostle.strategies.drop_query import DropQuery
from jostle.strategies.epig import Epig
from jostle.strategies.falcun import Falcun
from jostle.strategies.features import Clue, ClusterMargin, CoreSet, ProbCover, TypiClust
from jostle.strategies.flip_cover import FlipCover
from jostle.strategies.gcn import CoreGCN, UncertainGCN
from jostle.strategies.greedy_sampling import GreedySampling
from jostle.strategies.herding import LinearHerding, MaxHerding, NoiseHerding, UncertaintyHerding
from jostle.strategies.lcmd import LCMD
from jostle.strategies.ldm_s import LdmS
from jostle.strategies.learning_loss import LearningLoss
from jostle.strategies.noise_stability import NoiseStability, deviations
from jostle.strategies.registry import REGISTRY as REGISTRY
from jostle.strategies.registry import Entry, build, describe, names, register
from jostle.strategies.selection import select

__all__ = [
    "LCMD",
    "SRAAL",
    "VAAL",
    "AlfaMix",
    "Badge",
    "Bait",
    "Bald",
    "BatchBald",
    "Cal",
    "Clue",
    "ClusterMargin",
    "CoreGCN",
    "CoreSet",
    "Default",
    "DropQuery",
    "Entropy",
    "EntropyDropout",
    "Entry",
    "Epig",
    "ExpectedGradientLength",
    "Falcun",
    "FlipCover",
    "GreedySampling",
    "LdmS",
    "LearningLoss",
    "LeastConfidence",
    "LinearHerding",
    "Margin",
    "MaxHerding",
    "NoiseHerding",
    "NoiseStability",
    "PowerMargin",
    "ProbCover",
    "Query",
    "QueryByCommittee",
    "Random",
    "Strategy",
    "TypiClust",
    "UncertainGCN",
    "UncertaintyHerding",
    "build",
    "compose",
    "describe",
    "deviations",
    "names",
    "register",
    "select",
]
