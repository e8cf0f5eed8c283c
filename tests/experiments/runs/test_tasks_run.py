"""Multi-label tables and sequences of tokens are experiments like any other."""

from pathlib import Path

import pytest
from tiny import numbers, tiny

from jostle.experiments.experiment import run_experiment

MINE = """
import numpy as np
import torch
from torch import nn

def tokens():
    x = np.random.default_rng(0).integers(0, 9, (80, 5))
    y = x % 3
    y[::2, -1] = -100  # padding
    return torch.from_numpy(x), y, torch.from_numpy(x[:20]), y[:20]

class Tagger(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 8), nn.Linear(8, classes)
    def forward(self, x):
        return self.head(self.embed(x))

def tagger(classes, seed=0):
    torch.manual_seed(seed)
    return Tagger(classes)
"""


@pytest.mark.parametrize(
    ("dataset", "model", "metrics"),
    [
        ("csv:{}/labels.csv(target=[wide, high])", "mlp", {"macro_f1", "micro_f1", "exact_match"}),
        ("{}/mine.py:tokens", "{}/mine.py:tagger", {"token_accuracy", "macro_f1"}),
    ],
)
def test_experiments_of_other_tasks(tmp_path: Path, dataset: str, model: str, metrics: set[str]):
    (tmp_path / "mine.py").write_text(MINE)
    rows = [f"{i % 13},{i % 7},{int(i % 13 > 6)},{int(i % 7 > 3)}" for i in range(80)]
    (tmp_path / "labels.csv").write_text("\n".join(["x,y,wide,high", *rows]))
    changes = [
        f"dataset={dataset.format(tmp_path)}",
        f"model={{use = '{model.format(tmp_path)}'}}",
        "rounds=1",
    ]
    protocol = tiny(tmp_path, *changes, "candidates=all", "test=all")
    plan = run_experiment(protocol, tmp_path / "runs", [0])
    assert not plan.failures
    for cycles in numbers(tmp_path / "runs").values():
        assert [set(cycle["metrics"]) for cycle in cycles] == [metrics, metrics]
        assert len(cycles[1]["picked"]) == 4
