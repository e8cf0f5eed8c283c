"""Outputs are logits unless a call says that they are probabilities, and labels must fit them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import jostle

POOL = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))


def network(width: int, *after: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    first = nn.Linear(6, width)
    first.weight.data *= 5  # as sure as a trained one
    return nn.Sequential(first, *after)


class Tokens(nn.Module):
    """Probabilities for each of five tokens, or for each of 5 x 1 pixels."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear, self.dim = nn.Linear(6, 3), dim

    def forward(self, x: Tensor) -> Tensor:
        logits = self.linear(x.unsqueeze(1).repeat(1, 5, 1) * torch.arange(1, 6)[:, None])  # (n, 5, 3)
        return (logits if self.dim == -1 else logits.transpose(1, 2).unsqueeze(3)).softmax(self.dim)


CASES = {
    "binary": (network(1), network(1, nn.Sigmoid())),
    "multi-label": (network(3), network(3, nn.Sigmoid())),
    "classification": (network(3), network(3, nn.Softmax(1))),
}


@pytest.mark.parametrize("task", CASES)
@pytest.mark.parametrize("strategy", ["entropy", "noise-stability"])
def test_probabilities_pick_what_their_logits_pick(task: str, strategy: str) -> None:
    logits, probabilities = CASES[task]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = jostle.select(strategy, probabilities, POOL, n=5, seed=0, task=task, outputs="probabilities")
        expected = jostle.select(strategy, logits, POOL, n=5, seed=0, task=task)
    assert told.indices.tolist() == expected.indices.tolist()


@pytest.mark.parametrize(
    ("task", "model"),
    [
        *((task, models[1]) for task, models in CASES.items()),
        ("sequence", Tokens(-1)),
        ("segmentation", Tokens(1)),
    ],
)
def test_every_classification_task_warns_of_probabilities_and_names_the_fix(
    task: str, model: nn.Module
) -> None:
    with pytest.warns(UserWarning, match="outputs='probabilities'"):
        jostle.select("entropy", model, POOL, n=5, seed=0, task=task)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jostle.select("entropy", model, POOL, n=5, seed=0, task=task, outputs="logits")


def test_one_probability_is_that_of_yes() -> None:
    found = jostle.select("entropy", CASES["binary"][1], POOL, n=5, seed=0, outputs="probabilities")
    doubt = (CASES["binary"][1](POOL)[:, 0] - 0.5).abs()
    assert set(found.indices.tolist()) == set(doubt.topk(5, largest=False).indices.tolist())


def test_outputs_beyond_probabilities_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1; got -.*Use outputs='logits'"):
        jostle.select("entropy", network(3), POOL, n=5, outputs="probabilities")
    with pytest.raises(ValueError, match="'logits', 'probabilities' or a function"):
        jostle.select("entropy", network(3), POOL, n=5, outputs="softmax")


@pytest.mark.parametrize(
    ("width", "labels", "task"),
    [
        (1, torch.tensor([0, 1, 1, 0]), "binary"),
        (3, torch.tensor([[0, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0]]), "multi-label"),
    ],
)
def test_labels_tell_the_task_where_outputs_do_not(width: int, labels: Tensor, task: str) -> None:
    call: dict[str, Any] = {"model": network(width), "pool": POOL, "n": 5, "seed": 0}
    told = jostle.select("entropy", labeled=TensorDataset(POOL[:4], labels), **call)
    assert told.indices.tolist() == jostle.select("entropy", task=task, **call).indices.tolist()
    with pytest.raises(ValueError, match="not available for regression"):
        jostle.select("entropy", labeled=TensorDataset(POOL[:4], torch.randn(4, width)), **call)
