"""A network, a fit and data of one's own, of every task: experiments from the first line to the report."""

from pathlib import Path

import pytest
import torch
from commands import run_cli
from tiny import numbers, tiny, tiny_file

from jostle.experiments import store as manifests
from jostle.experiments.experiment import run_experiment
from jostle.experiments.loop import initial_set
from jostle.experiments.setup import ExperimentSetup, fit_model

OWN = '''
import torch
from torch import nn
from torch.utils.data import DataLoader
from helper import width

class Net(nn.Module):
    def __init__(self, classes, channels, hidden=width()):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))

def fit(dataset, seed: int, model: nn.Module, epochs: int = 2):
    """Trains what it is given; shuffles as the global generator says."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(epochs):
        for x, y in DataLoader(dataset, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model

def fit_alone(dataset, seed):
    torch.manual_seed(seed)
    return fit(dataset, seed, Net(10, 1))

def fit_nothing(dataset, seed):
    return 3

def fit_badly(dataset):
    return Net(10, 1)
'''
HELPER = "def width(): return 16\n"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


@pytest.mark.parametrize("fit", ["fit", "fit_alone"])
def test_a_fit_of_ones_own_trains_and_repeats(own: Path, fit: str):
    protocol = tiny(own, "rounds=1", f"fit={own}/own.py:{fit}")
    bench = ExperimentSetup.load(protocol)
    split = bench.data.train
    state = torch.get_rng_state()
    one, two, other = (
        fit_model(bench, None, split.inputs[:20], split.targets[:20], seed, True) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert not one.training
    first, second, third = (
        torch.cat([p.flatten() for p in model.parameters()]) for model in (one, two, other)
    )
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert not torch.equal(first, third)


def test_a_fit_of_ones_own_is_an_experiment_that_goes_on_and_is_recorded(own: Path):
    settings = (
        "rounds=2",
        f"fit={{use='{own}/own.py:fit', epochs=3}}",
        "strategies={random={}, qbc={committee=2}}",
    )
    whole = run_experiment(tiny(own, *settings), own / "whole", [0])
    assert not whole.failures
    run_experiment(tiny(own, *settings), own / "parts", [0])
    path = own / "parts/qbc/0.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    run_experiment(tiny(own, *settings), own / "parts", [0])
    assert numbers(own / "parts") == numbers(own / "whole")
    recorded = manifests.read_manifest(own / "whole")
    assert recorded is not None
    assert recorded["protocol"]["fit"] == {"use": f"{own}/own.py:fit", "epochs": 3}
    assert list(recorded["files"]) == ["fit", "fit (helper.py)"]
    (own / "helper.py").write_text("def width(): return 17\n")
    with pytest.raises(manifests.ChangedError, match=r"sha256 of the file of fit \(helper\.py\)"):
        run_experiment(tiny(own, *settings), own / "whole", [0])
    recipe = run_experiment(tiny(own, "rounds=2", settings[2]), own / "recipe", [0])
    assert not recipe.failures
    assert numbers(own / "recipe")["random/0"] != numbers(own / "whole")["random/0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--fit", "own.py:fit_nothing"],
            "a model by fit own.py:fit_nothing cannot be trained on digits: TypeError",
        ),
        (
            ["--fit", "own.py:fit_badly"],
            "fit own.py:fit_badly takes (dataset); expected (dataset, seed), and model",
        ),
        (["--fit", "own.py:fit(epoch=3)"], "unknown setting of own.py:fit 'epoch'; did you mean 'epochs'?"),
        (["--fit", "adam"], "fit is a function of your own, file.py:function; got 'adam'"),
        (["--fit", "own.py:nothing"], "unknown function in own.py 'nothing'"),
        (
            ["--fit", "own.py:fit", "--strategies", "ll4al"],
            "ll4al does not work in tiny: it takes part in training",
        ),
    ],
)
def test_mistakes_in_a_fit(
    own: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
):
    monkeypatch.chdir(own)
    assert run_cli("run", tiny_file(own), "--out-dir", own / "runs", *words) == 2
    assert said in capsys.readouterr().err
    assert not (own / "runs").exists()


TASKS = """
import torch
from jostle.datasets import Data, Split

def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))

def labels():
    x = numbers(90, 6)
    y = x[:, :3] > 0.3
    return x[:60], y[:60], x[60:], y[60:]

def tokens():
    x = (10 * numbers(90, 5).abs()).long().clamp(0, 9)
    y = x % 3
    y[:, 4] = torch.where(x[:, 4] > 4, -100, y[:, 4])
    return Data("tokens", "sequence", Split(x[:60], y[:60]), Split(x[60:], y[60:]), ("a", "b", "c"))
"""


@pytest.mark.parametrize(("name", "classes"), [("labels", 3), ("tokens", 3)])
def test_the_initial_set_holds_every_class_of_any_task(tmp_path: Path, name: str, classes: int):
    (tmp_path / "own.py").write_text(TASKS)
    changes = (
        f"dataset.use={tmp_path}/own.py:{name}",
        "every_class=true",
        "initial=2",
        "test=all",
        "candidates=all",
    )
    bench = ExperimentSetup.load(tiny(tmp_path, *changes))
    for seed in range(4):
        targets = bench.data.train.targets[initial_set(bench, seed)]
        seen = targets.any(0).sum() if name == "labels" else len(targets[targets >= 0].unique())
        assert seen == classes
