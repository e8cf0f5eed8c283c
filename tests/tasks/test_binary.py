"""One logit of yes against no: a classification into two, for each way in which outputs are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from jostle.strategies import build
from jostle.tasks import TASKS

N, M = 40, 12
X, KNOWN = torch.randn(N, 1, 8, 8), torch.randn(M, 1, 8, 8)
LABELS = torch.arange(M) % 2
QUICK: dict[str, dict[str, Any]] = {
    "bald": {"passes": 4},
    "qbc": {"committee": 3},
}


class OneLogit(nn.Module):
    def __init__(self, squeeze: bool = False) -> None:
        super().__init__()
        self.squeeze = squeeze
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3))
        self.head = nn.Linear(36, 1)

    def forward(self, x: Tensor) -> Tensor:
        yes = self.head(self.body(x))
        return yes.squeeze(1) if self.squeeze else yes


class TwoLogits(nn.Module):
    """The same model with a logit of 0 for no."""

    def __init__(self, model: OneLogit) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        yes = self.model(x).reshape(-1, 1)
        return torch.cat([torch.zeros_like(yes), yes], 1)


def query(name: str, model: nn.Module, task: str, labels: Tensor, wrap: bool = False, **settings: Any) -> Any:
    def fit(dataset: Any, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        fresh = OneLogit(getattr(model, "squeeze", False))
        return TwoLogits(fresh) if wrap else fresh

    strategy = build(name, **QUICK.get(name, {}), **settings)
    joined = strategy.join(model, X[:2], 0).model
    known = TensorDataset(KNOWN, labels)
    return strategy.select(joined, X, 9, labeled=known, fit=fit, task=task, seed=0)


@pytest.mark.parametrize("squeeze", [False, True], ids=["(n, 1)", "(n,)"])
@pytest.mark.parametrize("name", ["entropy", "noise-stability", "badge", "bald", "qbc", "bait", "ll4al"])
def test_picks_are_those_of_the_same_model_with_two_logits(name: str, squeeze: bool) -> None:
    model = OneLogit(squeeze)
    one = query(name, model, "binary", LABELS.float().unsqueeze(1))
    two = query(name, TwoLogits(model), "classification", LABELS, wrap=True)
    assert one.indices.tolist() == two.indices.tolist()
    np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.parametrize(
    "labels", [LABELS, LABELS.float(), LABELS.float().unsqueeze(1)], ids=["int", "float", "(m, 1)"]
)
@pytest.mark.parametrize("name", ["alfa-mix", "drop-query"])
def test_a_head_of_one_logit_flips_no_and_yes(name: str, labels: Tensor) -> None:
    one, two = OneLogit(), OneLogit()
    two.body.load_state_dict(one.body.state_dict())
    two.head = nn.Linear(36, 2)
    with torch.no_grad():
        two.head.weight.copy_(torch.cat([torch.zeros(1, 36), one.head.weight]))
        two.head.bias.copy_(torch.cat([torch.zeros(1), one.head.bias]))
    a, b = query(name, one, "binary", labels), query(name, two, "classification", LABELS)
    assert a.indices.tolist() == b.indices.tolist()
    assert a.scores.any()


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_losses_and_metrics(shape: tuple[int, ...]) -> None:
    task, outputs, targets = TASKS["binary"], torch.randn(N), torch.randint(0, 2, (N,))
    expected = F.binary_cross_entropy_with_logits(outputs, targets.float(), reduction="none")
    torch.testing.assert_close(task.losses(outputs.view(shape), targets.float().view(shape)), expected)
    assert task.distribution(outputs.view(shape)).shape == (N, 1, 2)
    torch.testing.assert_close(task.probabilities(outputs.view(shape))[:, 1], outputs.sigmoid())
    found = task.metrics([(outputs.view(shape), targets.view(shape))])
    assert found == {
        "accuracy": pytest.approx(accuracy_score(targets, outputs > 0)),
        "f1": pytest.approx(f1_score(targets, outputs > 0)),
    }
