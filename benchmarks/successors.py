"""Train different models on the picks of stored runs: do labels that one model chose serve the next one too?

    python -m benchmarks.successors boosted results/arena-splice-cold.tar.xz --seeds 10 --out runs

writes runs/boosted-splice-cold, a folder like those of `jostle run`, with every second point of the curves. Runs that
are there are kept. `boosted` is scikit-learn's gradient-boosted forest, `wide` a network with about ten times the
weights. `selftrained` is the protocol's own network, which also learns from its surest answers on the pool; plain runs
lie beside it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import f1_score
from torch import Tensor, nn
from torch.nn import functional as F

from jostle.core import Joined
from jostle.experiments import load_results
from jostle.experiments.protocol import Protocol
from jostle.experiments.results import Results, Run
from jostle.experiments.setup import ExperimentSetup
from jostle.experiments.store import Cycle, RunFile
from jostle.rng import derive
from jostle.training.train import train
from jostle.utils.files import write_whole

FINALISTS = ("random", "default", "margin-herding", "alfa-mix", "badge", "margin")
SURE = 5  # examples of the pool for each labeled one that self-training learns from


@dataclass(frozen=True)
class Problem:
    """Labeled examples, unlabeled ones, and test inputs whose classes are to be told."""

    setup: ExperimentSetup
    inputs: Tensor
    targets: Tensor
    pool: Tensor
    test: Tensor
    seed: int

    def trained(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> nn.Module:
        """Train a network by the protocol's recipe."""
        recipe = self.setup.protocol.training
        if recipe is None:
            raise ValueError(f"{self.setup.protocol.name} has no table [training]")
        return train(
            Joined(model), inputs, targets, recipe, self.setup.task, seed=derive(self.seed, "training")
        )


def boosted(problem: Problem) -> Tensor:
    """Predict by a gradient-boosted forest; leaves of 5, since the default of 20 learns nothing from 20 labels."""
    forest = HistGradientBoostingClassifier(
        min_samples_leaf=5, early_stopping=False, random_state=problem.seed % 2**31
    )
    forest.fit(problem.inputs.numpy(), problem.targets.numpy())
    return torch.from_numpy(forest.predict(problem.test.numpy()))


def wide(problem: Problem) -> Tensor:
    """Predict by a network with two hidden layers of 512 and 256."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(problem.seed, "wide"))
        model = nn.Sequential(
            nn.Linear(problem.inputs.shape[1], 512),
            nn.ReLU(),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Linear(256, len(problem.setup.data.classes)),
        )
    return predict(problem.trained(model, problem.inputs, problem.targets), problem.test)


def selftrained(problem: Problem) -> Tensor:
    """Predict by a network that is trained again, with its surest answers on the pool as labels."""
    first = problem.trained(problem.setup.model(problem.seed), problem.inputs, problem.targets)
    with torch.no_grad():
        sure, answers = F.softmax(first(problem.pool), 1).max(1)
    surest = sure.topk(min(len(sure), SURE * len(problem.inputs))).indices
    inputs = torch.cat([problem.inputs, problem.pool[surest]])
    targets = torch.cat([problem.targets, answers[surest]])
    second = problem.trained(problem.setup.model(derive(problem.seed, "again")), inputs, targets)
    return predict(second, problem.test)


LEARNERS: Mapping[str, Callable[[Problem], Tensor]] = {
    "boosted": boosted,
    "wide": wide,
    "selftrained": selftrained,
}


def predict(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return the classes that a model predicts, (n,)."""
    with torch.no_grad():
        logits: Tensor = model(inputs)
    return logits.argmax(1)


def every_second(cycles: Sequence[Cycle]) -> list[Cycle]:
    """Return every second point of a run; each has the picks since the one before."""
    found = []
    for place, cycle in enumerate(cycles[::2]):
        before = cycles[2 * place - 1].picked if place else []
        found.append(replace(cycle, cycle=place, picked=[*before, *cycle.picked]))
    return found


def succeeded(setup: ExperimentSetup, run: Run, learner: Callable[[Problem], Tensor]) -> Iterator[Cycle]:
    """Yield the points of a run with a different model trained on its picks."""
    train_set, test = setup.data.train, setup.data.test
    inputs, targets = (torch.as_tensor(each) for each in (train_set.inputs, train_set.targets))
    truth, chosen = np.asarray(test.targets), torch.zeros(len(inputs), dtype=torch.bool)
    for cycle in every_second(run.cycles):
        chosen[cycle.picked] = True
        problem = Problem(
            setup, inputs[chosen], targets[chosen], inputs[~chosen], torch.as_tensor(test.inputs),
            derive(run.seed, "successor", cycle.cycle),
        )  # fmt: skip
        start = time.perf_counter()
        predicted = learner(problem).numpy()
        figures = {
            "accuracy": float((predicted == truth).mean()),
            "macro_f1": float(f1_score(truth, predicted, average="macro")),
        }
        yield replace(cycle, metrics=figures, train_seconds=round(time.perf_counter() - start, 4))


def write_runs(results: Results, kind: str, seeds: int, out: Path) -> Path:
    """Write the folder of one learner on the picks of one experiment."""
    protocol = Protocol.model_validate(results.protocol)
    setup = ExperimentSetup.load(protocol)
    folder = out / results.name.replace("arena", kind)
    told = {
        **results.manifest,
        "protocol": {**results.protocol, "rounds": protocol.rounds // 2, "name": folder.name},
        "command": ["python", "-m", "benchmarks.successors", kind, results.path.name, "--seeds", str(seeds)],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "manifest.json", json.dumps(told, indent=1) + "\n")
    labels = ("random", "default") if kind == "selftrained" else FINALISTS
    for number in range(seeds):
        for run in (results.of(label)[number] for label in labels):
            if kind == "selftrained":
                add(RunFile.of(folder, run.label, run.seed), every_second(run.cycles))
                add(RunFile.of(folder, f"{run.label}-{kind}", run.seed), succeeded(setup, run, selftrained))
            else:
                add(RunFile.of(folder, run.label, run.seed), succeeded(setup, run, LEARNERS[kind]))
        print(f"{folder.name}: seed {number + 1} of {seeds}", flush=True)
    return folder


def add(file: RunFile, cycles: Iterator[Cycle] | list[Cycle]) -> None:
    """Write the cycles of a run, unless it is there."""
    if not file.path.exists():
        file.path.parent.mkdir(parents=True, exist_ok=True)
        for cycle in list(cycles):  # all of them first: a run is there or it is not
            file.append(cycle)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write one folder for each experiment that was named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("learner", choices=LEARNERS)
    parser.add_argument("results", nargs="+", type=Path, help="experiments with networks on tables")
    parser.add_argument("--seeds", type=int, default=10, help="the first so many seeds (default: 10)")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where folders go (default: runs)")
    words = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for path in words.results:
        print(write_runs(load_results(path), words.learner, words.seeds, words.out))


if __name__ == "__main__":
    main()
