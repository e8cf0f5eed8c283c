"""Every task measures itself: the oracle is scikit-learn, and batches make no difference."""

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle.strategies import Random
from jostle.tasks import TASKS, VOID, Task
from jostle.training.train import evaluate

N = 40


def batches(outputs: Tensor, targets: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(outputs.split(size), targets.split(size), strict=True))


def test_evaluating_255_classes_and_more_counts_them_all():
    class Always(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(nn.functional.one_hot(torch.tensor(255), 300).float())

        def forward(self, x: Tensor) -> Tensor:
            return self.bias.expand(len(x), 300)

    targets = torch.tensor([255, 255, 255, 7])
    found = evaluate(Always(), torch.zeros(4, 2), targets, TASKS["classification"])
    truth = {"average": "macro", "labels": list(range(300)), "zero_division": 0}
    assert found["accuracy"] == 0.75
    assert found["macro_f1"] == pytest.approx(f1_score(targets, torch.full((4,), 255), **truth))


@pytest.mark.parametrize("size", [1, 7, N])
def test_labels_are_measured_as_by_scikit_learn(size: int):
    outputs, targets = torch.randn(N, 3), torch.randint(0, 2, (N, 3))
    found = TASKS["multi-label"].metrics(batches(outputs, targets.float(), size))
    predicted = (outputs > 0).long()
    assert found == {
        "macro_f1": pytest.approx(f1_score(targets, predicted, average="macro")),
        "micro_f1": pytest.approx(f1_score(targets, predicted, average="micro")),
        "exact_match": pytest.approx(accuracy_score(targets, predicted)),
    }


@pytest.mark.parametrize("size", [1, 7, N])
def test_tokens_are_measured_without_the_padding(size: int):
    outputs, targets = torch.randn(N, 5, 4), torch.randint(0, 4, (N, 5))
    targets[:, 3:] = -100
    found = TASKS["sequence"].metrics(batches(outputs, targets, size))
    true, predicted = targets[:, :3].flatten(), outputs.argmax(-1)[:, :3].flatten()
    assert found == {
        "token_accuracy": pytest.approx(accuracy_score(true, predicted)),
        "macro_f1": pytest.approx(f1_score(true, predicted, average="macro")),
    }


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("classification", torch.tensor([0, 2]), torch.tensor([0, 3])),
        ("segmentation", torch.tensor([[0, VOID, 2]]), torch.tensor([[0, 254]])),
        ("sequence", torch.tensor([[0, 2, -100]]), torch.tensor([[0, -1]])),
        ("multi-label", torch.tensor([[0.0, 1, 1]]), torch.tensor([[0.0, 1, 2]])),
        ("multi-label", torch.tensor([[0.0, 1, 1]]), torch.tensor([[0.0, 1]])),
        ("binary", torch.tensor([[0.0], [1]]), torch.tensor([[0.0], [2]])),
        ("binary", torch.tensor([0, 1]), torch.tensor([[0, 1]])),
        ("regression", torch.tensor([-7.5]), torch.tensor([torch.nan])),
    ],
)
def test_targets_that_are_none_are_refused(name: str, good: Tensor, bad: Tensor):
    TASKS[name].check_targets(good, 3)
    with pytest.raises(ValueError, match=r"labels run from|expected 0 or 1|targets are NaN"):
        TASKS[name].check_targets(bad, 3)


def test_a_task_of_ones_own_needs_metrics_only_where_they_are_asked_for():
    class Own(Task):
        name = "own"

        def probabilities(self, outputs: Tensor) -> Tensor:
            return outputs.softmax(1)

        def distribution(self, outputs: Tensor) -> Tensor:
            return outputs.softmax(1).unsqueeze(1)

        def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return outputs[:, 0]

    pool = TensorDataset(torch.randn(6, 2))
    assert len(Random().select(nn.Linear(2, 2), pool, 2, task=Own())) == 2
    with pytest.raises(NotImplementedError, match="'own' does not say how good"):
        Own().metrics([])
