"""Chance, and scores of very sure predictions."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import jostle
from jostle.embeddings.gradients import expected_gradient_length
from jostle.strategies import build


class Count(list[int]):
    """Copies count together."""

    def __deepcopy__(self, memo: Any) -> "Count":
        return self


class Same(nn.Module):
    """Gives back its inputs, so that a pool is its own logits; counts the examples that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Count([0])

    def forward(self, x: Tensor) -> Tensor:
        self.seen[0] += len(x)
        return x


def scores(name: str, logits: Tensor, **options: Any) -> Tensor:
    rows = build(name).embed(Same(), logits, seed=0, **options)
    assert isinstance(rows, Tensor)
    return rows.double()


def test_sure_and_uniform_predictions_bound_every_score() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [2000.0, -2000.0, 0.0, 0.0]])
    for name, most in (("entropy", math.log(4)), ("margin", 1.0), ("least-confidence", 0.75)):
        torch.testing.assert_close(scores(name, logits), torch.tensor([most, 0.0]).double())


def test_gradient_lengths_of_nearly_sure_predictions_keep_their_order() -> None:
    logits = torch.tensor([[8.0, 0.0, 0.0], [12.0, 0.0, 0.0], [16.0, 0.0, 0.0]]).double()
    lengths = expected_gradient_length(logits.softmax(1), torch.ones(3, 1))
    assert lengths[0] > 10 * lengths[1] > 100 * lengths[2] > 0


def test_random_does_not_run_the_model() -> None:
    model = Same()
    query = jostle.select("random", model, torch.randn(50, 3), n=20, seed=1)
    assert model.seen[0] == 0
    assert len(set(query.indices)) == 20
    assert np.isnan(query.scores).all()
