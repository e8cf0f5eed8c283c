"""BatchBALD against the joint entropy written out, and its relation to BALD."""

import math

import numpy as np
import torch
from torch import Tensor

from jostle.embeddings.committee import jensen_shannon
from jostle.strategies.batch_bald import JointInformation


def opinions(n: int, passes: int, c: int, seed: int = 0) -> Tensor:
    """Distributions that a random linear model gives, one set of weights for each pass: (n, T, c)."""
    draws = torch.Generator().manual_seed(seed)
    weights = torch.randn(passes, 4, c, generator=draws, dtype=torch.float64)
    inputs = torch.randn(n, 4, generator=draws, dtype=torch.float64)
    return torch.einsum("nd,tdc->ntc", inputs, weights).softmax(-1)


def test_drawn_combinations_approach_all_of_them() -> None:
    rows = opinions(40, 20, 3, 1)
    exact = JointInformation(exact=3**6).pick(rows, 6)
    drawn = JointInformation(exact=1, samples=20_000).pick(rows, 6, seed=0)
    assert drawn.positions[0] == exact.positions[0]
    np.testing.assert_allclose(drawn.scores, exact.scores, atol=0.02)
    assert abs(drawn.scores - exact.scores)[1:].max() > 1e-7  # it was a sample
    again = JointInformation(exact=1, samples=20_000).pick(rows, 6, seed=0)
    assert (drawn.positions == again.positions).all()
    assert (drawn.scores == again.scores).all()


def test_labels_tell_the_logarithm_of_the_passes_at_most_and_the_rest_goes_by_bald() -> None:
    told = torch.eye(2, dtype=torch.float64)[None]  # a label that says which of two passes it was
    rows = torch.cat([opinions(8, 2, 2, 6), told, opinions(8, 2, 2, 7)])
    picks = JointInformation().pick(rows, 17)
    alone = jensen_shannon(rows.unbind(1))
    assert picks.positions.tolist() == alone.argsort(descending=True).tolist()
    assert picks.positions[0] == 8
    np.testing.assert_allclose(picks.scores, [math.log(2)] + [0.0] * 16, atol=1e-12)
