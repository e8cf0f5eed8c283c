"""A network, a fit and data of one's own, of every task; mistakes end in a sentence before anything is written."""

from pathlib import Path

import pytest
import torch
from commands import run_cli
from tiny import OWN as TINY
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


MISTAKES = {
    "1297 training examples, but the budget is 6010": "--set pick=2000 --set candidates=all",
    "train.csv": "--dataset ames --data .",
    "unknown setting of tiny.py:Own 'depth'": "--strategies tiny.py:Own(depth=3)",
    "the network mlp cannot be trained": "--strategies tiny.py:Own(num_perturbations=3) --set model.use=mlp",
    "points in tiny.py is list; expected a function or a class": "--strategies tiny.py:points",
    "tiny.py:data made tuple; expected a jostle.Strategy": "--strategies tiny.py:data",
    "Raising does not work in tiny: KeyError: 'color' (": "--strategies tiny.py:Raising",
    "'data'? (known: Own, Raising, data)": "--dataset tiny.py:dat",
    "tiny.py:data(rows='abc'): ": "--dataset tiny.py:data(rows=abc)",
    "unknown setting of tiny.py:data 'color'": "--dataset tiny.py:data(color=abc)",
    "unknown model 'resnet'": "--set model.use=resnet",
    "depth": "--set model.depth=3",
    "--seeds takes a number": "--seeds 0",
    "a model by fit own.py:fit_nothing cannot be trained on digits: TypeError": "--fit own.py:fit_nothing",
    "fit own.py:fit_badly takes (dataset); expected (dataset, seed), and model": "--fit own.py:fit_badly",
    "unknown setting of own.py:fit 'epoch'; did you mean 'epochs'?": "--fit own.py:fit(epoch=3)",
    "fit is a function of your own, file.py:function; got 'adam'": "--fit adam",
    "unknown function in own.py 'nothing'": "--fit own.py:nothing",
    "ll4al does not work in tiny: it takes part in training": "--fit own.py:fit --strategies ll4al",
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_users_mistake_ends_with_2_and_writes_nothing(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str
):
    monkeypatch.delenv("JOSTLE_DATA", raising=False)
    monkeypatch.chdir(own)
    (own / "tiny.py").write_text(TINY)
    assert run_cli("run", tiny_file(own), "--out-dir", own / "runs", *MISTAKES[said].split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert "Traceback" not in error
    assert not (own / "runs").exists()


TASKS = """
import torch
from torch import nn
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
    y[:, 4] = torch.where(x[:, 4] > 4, -100, y[:, 4])  # padding
    return Data("tokens", "sequence", Split(x[:60], y[:60]), Split(x[60:], y[60:]), ("a", "b", "c"))

class Tagger(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.embed, self.head = nn.Embedding(10, 8), nn.Linear(8, classes)
    def forward(self, x):
        return self.head(self.embed(x))

def tagger(classes, seed=0):
    torch.manual_seed(seed)
    return Tagger(classes)
"""


@pytest.mark.parametrize(
    ("name", "model", "metrics"),
    [
        ("labels", "mlp", {"macro_f1", "micro_f1", "exact_match"}),
        ("tokens", "{}/tasks.py:tagger", {"token_accuracy", "macro_f1"}),
    ],
)
def test_experiments_of_other_tasks(tmp_path: Path, name: str, model: str, metrics: set[str]):
    (tmp_path / "tasks.py").write_text(TASKS)
    changes = (
        f"dataset={tmp_path}/tasks.py:{name}",
        f"model={{use = '{model.format(tmp_path)}'}}",
        "rounds=1",
    )
    protocol = tiny(tmp_path, *changes, "every_class=true", "initial=2", "test=all", "candidates=all")
    bench = ExperimentSetup.load(protocol)
    for seed in range(4):  # the initial set holds every class
        targets = bench.data.train.targets[initial_set(bench, seed)]
        assert (targets.any(0).sum() if name == "labels" else len(targets[targets >= 0].unique())) == 3
    assert not run_experiment(protocol, tmp_path / "runs", [0]).failures
    for cycles in numbers(tmp_path / "runs").values():
        assert [set(cycle["metrics"]) for cycle in cycles] == [metrics, metrics]
        assert len(cycles[1]["picked"]) == 4
