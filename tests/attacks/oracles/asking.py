"""Calls of jostle on a scene, and scores of distributions."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import torch
from sklearn.cluster import KMeans
from torch import Tensor

import jostle
from attacks.driver import check
from attacks.oracles.scene import Scene
from jostle.rng import derive


def ask(name: str, s: Scene, n: int, **options: Any) -> jostle.Query:
    """The picks of a strategy, all passes of which are on the tape."""
    s.net.tape.passes.clear()
    s.net.tape.heads.clear()
    return jostle.select(name, s.net, s.pool, n, task=s.task, progress=False, **options)


def count(chance: Random, s: Scene, most: int = 8) -> int:
    """How many to pick."""
    return chance.randint(1, min(most, len(s.pool)))


def entropy(p: Tensor) -> Tensor:
    """In nats."""
    return -(p * p.clamp(min=1e-300).log()).sum(-1)


def doubt(p: Tensor) -> Tensor:
    """One less the margin."""
    best = p.sort(-1, descending=True).values
    return 1 - (best[..., 0] - best[..., 1])


def drawn_dropout(
    name: str, s: Scene, n: int, passes: int, **options: Any
) -> tuple[jostle.Query, Tensor] | None:
    """The picks of a strategy with dropout and the distributions of its passes; None where nothing was dropped."""
    try:
        query = ask(name, s, n, passes=passes, **options)
    except ValueError as few:
        check("dropout made no difference" in str(few), str(few))
        return None
    return query, s.dropout_passes(passes)


def k_means(rows: Tensor, k: int, seed: int, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """scikit-learn's clusters under the seed that jostle derives: only the seed is jostle's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than clusters
        made = KMeans(k, n_init=1, random_state=derive(seed, "k-means") % 2**32)
        made.fit(rows.numpy(), sample_weight=None if weights is None else weights.numpy())
    return torch.from_numpy(made.labels_).long(), torch.from_numpy(made.cluster_centers_)


def tied(scores: Tensor, most: int) -> bool:
    """Whether rounding or the seed decides which are the largest so many scores."""
    order = scores.sort(descending=True).values
    return most < len(order) and float(order[most - 1] - order[most]) < 1e-9
