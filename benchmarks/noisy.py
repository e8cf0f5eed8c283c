"""Tables in which one label of ten is wrong, as data sets to run: the answers of careless people.

`jostle run benchmarks/protocols/noise-satimage-cold.toml`. The labels that measure are right.
"""

from dataclasses import replace

import torch

from jostle import datasets
from jostle.datasets.data import Data
from jostle.rng import generator

SHARE = 0.1  # of the labels to be asked for


def satimage() -> Data:
    """Soil in satellite images (KEEL satimage, 6 classes)."""
    return with_wrong_labels("keel:satimage")


def splice() -> Data:
    """Splice junctions of DNA (KEEL splice, 3 classes)."""
    return with_wrong_labels("keel:splice")


def with_wrong_labels(name: str) -> Data:
    """Give a share of the training labels a wrong class, the same in every run."""
    data = datasets.named(name, None, {})
    draws = generator(0, "wrong labels", name)
    targets, classes = torch.as_tensor(data.train.targets).clone(), len(data.classes)
    wrong = torch.randperm(len(targets), generator=draws)[: round(SHARE * len(targets))]
    step = torch.randint(1, classes, (len(wrong),), generator=draws)
    targets[wrong] = (targets[wrong] + step) % classes
    return replace(data, name=f"{data.name}-noise", train=replace(data.train, targets=targets))
