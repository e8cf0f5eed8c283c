"""How much several opinions on an example differ: those of dropout passes, or of a committee's members."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from jostle.embeddings.uncertainty import entropy


def entropies(opinions: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Entropy of the mean opinion, and mean entropy of the opinions, from distributions (..., c).

    Opinions are added up as they come: no more than one is held at a time.
    """
    total = expected = torch.zeros(())
    count = 0
    for p in opinions:
        p = p.double()
        total, expected, count = total + p, expected + entropy(p), count + 1
    if not count:
        raise ValueError("there is no opinion to compare")
    return entropy(total / count), expected / count


def jensen_shannon(opinions: Iterable[Tensor]) -> Tensor:
    """Jensen-Shannon divergence of distributions (..., c): entropy of the mean less mean entropy.

    With dropout passes for opinions it is BALD's mutual information; it lies in [0, ln min(opinions, c)].
    """
    of_mean, expected = entropies(opinions)
    return (of_mean - expected).clamp(min=0)


def variance(opinions: Iterable[Tensor]) -> Tensor:
    """Variance of numbers (n, ...) over the opinions, averaged over the numbers of each example: (n,)."""
    rows = [outputs.double().reshape(len(outputs), -1) for outputs in opinions]
    values = torch.stack(rows)  # (opinions, n, numbers)
    return values.var(0, unbiased=False).mean(1)
