"""Parts of the benchmark: wrong labels, examples of no class, an oracle, and models that learn from stored picks."""

from pathlib import Path

import pytest
import torch
from benchmarks import noisy, oracle, strangers, successors
from synthetic_runs import write_runs
from torch import nn
from torch.utils.data import TensorDataset

from jostle import datasets
from jostle.experiments import load_results
from jostle.selectors import Picks


def test_one_label_of_ten_is_wrong_and_those_that_measure_are_right() -> None:
    clean, data = datasets.load("digits"), noisy.with_wrong_labels("digits")
    wrong = torch.as_tensor(clean.train.targets) != torch.as_tensor(data.train.targets)
    assert int(wrong.sum()) == round(0.1 * len(wrong))
    assert torch.equal(torch.as_tensor(clean.test.targets), torch.as_tensor(data.test.targets))


def test_examples_of_no_class_are_neither_tested_nor_learned_from_nor_shown_to_a_strategy() -> None:
    data = strangers.with_strangers("digits")
    every = torch.arange(len(data.train))
    share = (data.train.targets[every] == strangers.CLASSES).double().mean()
    assert 0.15 < float(share) < 0.25
    assert int(data.test.targets[torch.arange(len(data.test))].max()) == strangers.CLASSES - 1
    labeled = TensorDataset(torch.randn(20, 3), torch.arange(20) % 10 // 1)
    with strangers.Known().context(nn.Linear(3, 8), torch.randn(5, 3), labeled=labeled) as context:
        assert context.labeled is not None
        assert context.labeled.targets().tolist() == [*range(8), *range(8)]


def test_the_oracle_takes_the_batch_of_the_most_accurate_model(monkeypatch: pytest.MonkeyPatch) -> None:
    data = datasets.load("digits")
    rows = torch.as_tensor(data.train.inputs).flatten(1)
    table = datasets.Data(
        "rows",
        "classification",
        datasets.Split(rows, data.train.targets),
        datasets.Split(rows[:50], data.train.targets[torch.arange(50)]),
        data.classes,
    )
    batches = [Picks(torch.tensor([place, place + 1]), torch.zeros(2)) for place in (0, 2, 4)]
    seen: list[int] = []

    class Answer(nn.Module):
        """Always right after the second batch, else of one class."""

        def __init__(self, right: bool) -> None:
            super().__init__()
            self.right = right

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            truth = (
                torch.as_tensor(table.test.targets) if self.right else torch.zeros(len(x), dtype=torch.int64)
            )
            return nn.functional.one_hot(truth, 10).float()

    def fit(dataset: TensorDataset, seed: int) -> nn.Module:
        seen.append(len(dataset))
        return Answer(torch.equal(dataset.tensors[0][-2:], rows[[2, 3]]))

    monkeypatch.setattr(oracle, "load", lambda name: table)
    monkeypatch.setattr(oracle, "proposals", lambda context, n: iter(batches))
    labeled = TensorDataset(rows[10:14], torch.as_tensor(table.train.targets)[10:14])
    query = oracle.BestOf().select(
        nn.Linear(64, 10), rows[:10], 2, labeled=labeled, fit=fit, task="classification"
    )
    assert query.indices.tolist() == [2, 3]
    assert seen == [6, 6, 6]


def test_every_strategy_proposes_a_batch_from_the_pool_and_one_from_half_of_it() -> None:
    labeled = TensorDataset(torch.randn(6, 4), torch.arange(6) % 3)
    with oracle.BestOf().context(nn.Linear(4, 3), torch.randn(40, 4), labeled=labeled, seed=0) as context:
        found = [picks.positions.tolist() for picks in oracle.proposals(context, 3)]
    assert len(found) == 2 * len(oracle.PROPOSERS)
    assert all(len(set(batch)) == 3 and max(batch) < 40 for batch in found)


def test_a_successor_learns_from_the_stored_picks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curves = {label: [[0.1, 0.2, 0.3]] for label in successors.FINALISTS}
    protocol = {
        "dataset": {"use": "digits"},
        "model": {"use": "digits-cnn"},
        "training": {"epochs": 1, "batch": 32, "optimizer": "adam", "lr": 1e-3},
        "initial": 20,
        "pick": 20,
        "rounds": 2,
    }
    results = load_results(write_runs(tmp_path / "arena-digits", curves, **protocol))
    learned: list[int] = []

    def remembered(problem: successors.Problem) -> torch.Tensor:
        learned.append(len(problem.inputs))
        assert len(problem.inputs) + len(problem.pool) == len(problem.setup.data.train)
        return torch.zeros(len(problem.test), dtype=torch.int64)

    monkeypatch.setattr(successors, "LEARNERS", {"wide": remembered})
    written = load_results(successors.write_runs(results, "wide", 1, tmp_path))
    assert written.name == "wide-digits"
    assert written.counts == (20, 60)
    assert written.runs[0].cycles[1].picked == list(range(20, 60))
    assert learned == [20, 60] * len(successors.FINALISTS)
    successors.write_runs(results, "wide", 1, tmp_path)
    assert len(learned) == 2 * len(successors.FINALISTS)  # what is there is kept
