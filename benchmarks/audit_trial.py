"""Answers until a goal is proven: 2,000 photographs of CIFAR-10 in five classes, a probe on frozen features.

`JOSTLE_DATA=folder python -m benchmarks.audit_trial` plays whole labeling projects without page or database. The goal
is an accuracy of 90 %. Two rules are compared, seed by seed:

* "prove": intervals by betting; alpha goes to candidates; a candidate is followed by up to 100 random questions.
* "before": the exact interval of release 0.2, 15 % random questions, and 6 / (pi r)^2 of alpha for the r-th model.

The best possible is what a clairvoyant needs who knows which model to prove, and spends all of alpha on it. Other
photographs tell the true accuracy on new data.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.special import softmax
from torch.utils.data import TensorDataset

from benchmarks import frozen
from jostle import datasets, strategies
from jostle.labeling.contents import Content
from jostle.labeling.encoders import LiteImages
from jostle.labeling.probe import Softmax, fit_classifier
from jostle.statistics.confidence import ALPHA, AuditSample, Interval, UpperBettor, exact_interval
from jostle.statistics.estimate import estimate_mean, estimate_new_data_error, new_data_interval
from jostle.statistics.proofs import is_candidate, spend_alpha

CLASSES = ("bird", "cat", "dog", "frog", "horse")
PHOTOS = 12_000  # of the training images, in their order; those of the five classes are used
POOL, BATCH, AUDIT_SHARE = 2000, 50, 0.15
GOAL = 0.1  # largest error
PROOF_QUESTIONS = 100  # random questions after a candidate, at most
UPPER_SHARE = 0.9  # of a model's alpha: for the bound that proves
MAX_ANSWERS = 700
FREE, PICKED, AUDITED, WANTED = range(4)  # WANTED: audited, then picked; neither trains nor measures


def photos(classes: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features (n, 1280) and classes (n,)."""
    data = datasets.load("cifar10")
    numbers = [data.classes.index(name) for name in classes]
    targets = data.train.targets[torch.arange(PHOTOS)].numpy()
    rows = torch.from_numpy(np.flatnonzero(np.isin(targets, numbers)))
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (data.mean, data.std))
    pixels = ((torch.as_tensor(data.train.inputs[rows]) * std + mean) * 255).round().byte()
    contents = [Content("image", str(row), data=frozen.as_png(image)) for row, image in enumerate(pixels)]
    name = "photos-" + "-".join(map(str, sorted(numbers)))
    found = frozen.features(name, LiteImages(), contents).numpy()
    return found, np.searchsorted(sorted(numbers), targets[rows.numpy()])


@dataclass(frozen=True)
class Look:
    """One model of one project, measured with all answers so far."""

    arm: str
    seed: int
    answers: int  # when the model was proven, or when its questions ended
    picks: int
    audited: int
    candidate: bool
    proven: bool
    error: float  # of the rest, by the truth
    low: float
    high: float
    estimate: float
    new_error: float  # on new data, by the truth
    new_estimate: float
    new_low: float
    new_high: float
    best: float  # answers of somebody who would stake all of alpha on this model


class Project:
    """The state of one labeling project."""

    def __init__(self, rows: NDArray[np.float32], classes: NDArray[np.int64], arm: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(classes))
        self.rows, self.classes = rows[order[:POOL]], classes[order[:POOL]]
        self.new_rows, self.new_classes = rows[order[POOL:]], classes[order[POOL:]]
        self.audit_order, self.first_order = rng.permutation(POOL), rng.permutation(POOL)
        self.status = np.full(POOL, FREE)
        self.arm, self.seed = arm, seed
        self.picks: list[int] = []
        self.audited = 0
        self.shared = 0  # audited as the usual share of a batch, without those of a proof
        self.candidates: list[bool] = []
        self.network: torch.nn.Module | None = None

    @property
    def answers(self) -> int:
        """All answers so far."""
        return len(self.picks) + self.audited

    def pick(self, n: int) -> None:
        """Answer n picks; audited examples among the picks leave the audit."""
        if self.network is None:
            ranked = [int(i) for i in self.first_order if self.status[i] == FREE]
        else:
            taken = np.flatnonzero((self.status == PICKED) | (self.status == WANTED))
            x, y = torch.from_numpy(self.rows), torch.from_numpy(self.classes)
            query = strategies.build("default").select(
                self.network,
                x,
                min(n + 40, POOL - len(taken)),
                exclude=taken,
                labeled=TensorDataset(x[self.picks], y[self.picks]),
                task="classification",
                seed=1000 * self.seed + len(self.picks),
                progress=False,
            )
            ranked = [int(i) for i in query.indices]
        goal = len(self.picks) + n
        for i in ranked:
            if len(self.picks) == goal:
                return
            if self.status[i] == AUDITED:
                self.status[i] = WANTED
            else:
                self.status[i] = PICKED
                self.picks.append(i)

    def audit(self, n: int) -> None:
        """Answer the next n random questions."""
        drawn = [i for i in self.audit_order if self.status[i] == FREE][:n]
        self.status[drawn] = AUDITED
        self.audited += len(drawn)

    def train(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Train on the picks; probabilities of the pool (N, c), and those of the picks without themselves (m, c)."""
        targets = np.eye(int(self.classes.max()) + 1)[self.classes[self.picks]]
        seed = 1000 * self.seed + len(self.picks)
        trained = fit_classifier(Softmax(), self.rows, np.array(self.picks), targets, seed)
        self.network = trained.probe
        return self.probabilities(self.rows), trained.held_out

    def probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Probabilities (n, c) of the last model."""
        assert self.network is not None
        with torch.no_grad():
            logits = self.network(torch.from_numpy(rows)).double().numpy()
        result: NDArray[np.float64] = softmax(logits, axis=1)
        return result


class Measured:
    """One model and the audit of what it left."""

    def __init__(self, project: Project) -> None:
        self.project = project
        probabilities, held_out = project.train()
        wrong = (probabilities.argmax(axis=1) != project.classes).astype(np.float64)
        self.left = (project.status == FREE) | (project.status == AUDITED)
        self.errors = wrong[self.left]
        self.expected = 1 - probabilities.max(axis=1)[self.left]  # the probe's confidence is calibrated
        self.truth = float(self.errors.mean())
        wanted = wrong[project.status == WANTED]  # not trained on, so their errors count as they are
        picked = (held_out.argmax(axis=1) != project.classes[project.picks]).astype(np.float64)
        self.known_errors = np.concatenate([picked, wanted])
        new = project.probabilities(project.new_rows).argmax(axis=1)
        self.new_truth = float((new != project.new_classes).mean())
        project.candidates.append(is_candidate(self.expected, GOAL))
        self.share = spend_alpha(project.candidates)[-1]
        place = np.cumsum(self.left) - 1
        self.order = place[[i for i in project.audit_order if self.left[i]]]  # all, audited or not

    def sample(self) -> AuditSample:
        """The audit so far."""
        count = int((self.project.status == AUDITED).sum())
        return AuditSample(self.order[:count], int(self.left.sum()))

    def interval(self) -> Interval:
        """Bounds on the error of the rest, by the arm's rule."""
        sample = self.sample()
        drawn = self.errors[sample.draws]
        if self.project.arm == "before":
            share = 6 * ALPHA / (math.pi * len(self.project.candidates)) ** 2
            return exact_interval(int(drawn.sum()), len(drawn), sample.population, share)
        return sample.interval(drawn, self.expected, alpha=self.share, upper_share=UPPER_SHARE)

    def best(self) -> float:
        """Answers of a clairvoyant: the picks, and random answers until all of alpha proves the goal."""
        capital = UpperBettor(self.errors[self.order], self.expected[self.order]).log_capital(GOAL)
        proven = np.flatnonzero((capital >= math.log(1 / ALPHA)) & (self.truth <= GOAL))
        return float(len(self.project.picks) + proven[0] + 1) if len(proven) else math.inf

    def look(self) -> Look:
        """All figures of this model."""
        project, sample, inside = self.project, self.sample(), self.interval()
        drawn, left = self.errors[sample.draws], int(self.left.sum())
        estimate = estimate_mean(drawn, sample.arrange(self.expected))
        half = sample.interval(drawn, self.expected, alpha=ALPHA / 2)
        new = new_data_interval(self.known_errors, half, left)
        return Look(
            project.arm, project.seed, project.answers, len(project.picks), len(sample.draws),
            project.candidates[-1], inside.high <= GOAL, self.truth, inside.low, inside.high, estimate, self.new_truth,
            estimate_new_data_error(self.known_errors, estimate, left), new.low, new.high, self.best(),
        )  # fmt: skip


def play(rows: NDArray[np.float32], classes: NDArray[np.int64], seed: int) -> Iterator[Look]:
    """Both rules on one project: they ask the same until the first candidate, and part there."""
    before = Project(rows, classes, "before", seed)
    prove: Project | None = None
    while before.answers < MAX_ANSWERS:
        model = ask_batch(before)
        yield model.look()
        if prove is None:
            again = copy.copy(model)
            again.project = copy.deepcopy(before)
            again.project.arm = "prove"
            yield (look := follow_up(again))
            if look.candidate or look.proven:
                prove = again.project
                yield from continue_proving(prove, look.proven)


def continue_proving(project: Project, proven: bool) -> Iterator[Look]:
    """The rest of a project with random questions after each candidate."""
    while not proven and project.answers < MAX_ANSWERS:
        yield (look := follow_up(ask_batch(project)))
        proven = look.proven


def ask_batch(project: Project) -> Measured:
    """One batch of picks and random questions, and the model after it."""
    due = round(AUDIT_SHARE * (len(project.picks) + project.shared + BATCH)) - project.shared
    project.pick(BATCH - due)
    project.audit(due)
    project.shared += due
    return Measured(project)


def follow_up(model: Measured) -> Look:
    """Random questions after a candidate, until it is proven or they are used up."""
    questions = PROOF_QUESTIONS if model.project.candidates[-1] else 0
    while questions and model.interval().high > GOAL:
        model.project.audit(1)
        questions -= 1
    return model.look()


def summary(looks: Sequence[Look]) -> Iterator[Table]:
    """Tables of what came out."""
    table = Table(
        "rule", "projects", "proven", "answers: median", "smallest", "largest", "projects with a miss"
    )
    for arm in ("prove", "before"):
        runs = [
            [look for look in looks if (look.arm, look.seed) == (arm, seed)] for seed in _seeds(looks, arm)
        ]
        needed = [next((float(look.answers) for look in run if look.proven), math.inf) for run in runs]
        missed = sum(any(not look.low <= look.error <= look.high for look in run) for run in runs)
        if runs:
            figures = (float(np.median(needed)), min(needed), max(needed))
            table.add_row(
                arm, str(len(runs)), str(sum(map(math.isfinite, needed))), *map(_count, figures), str(missed)
            )
    best = [min(look.best for look in looks if look.seed == seed) for seed in _seeds(looks)]
    figures = (float(np.median(best)), min(best), max(best))
    table.add_row("best possible", str(len(best)), str(len(best)), *map(_count, figures), "")
    yield table
    table = Table(
        "answers", "error of the rest", "on new data", "estimate", "bias", "bias of a census", "covered", "interval"
    )  # fmt: skip
    for answers in range(100, MAX_ANSWERS + 1, 100):
        at = [look for look in looks if look.arm == "before" and look.answers == answers]
        if at:
            error, new, estimate, low, high = (
                float(np.mean([getattr(look, name) for look in at]))
                for name in ("error", "new_error", "new_estimate", "new_low", "new_high")
            )
            # were the whole rest audited: what remains is the bias of cross-validation on the picks
            census = np.mean([(1 - look.picks / POOL) * (look.error - look.estimate) for look in at])
            covered = sum(look.new_low <= look.new_error <= look.new_high for look in at)
            table.add_row(
                str(answers), f"{error:.1%}", f"{new:.1%}", f"{estimate:.1%}",
                f"{100 * (estimate - new):+.1f}", f"{100 * (estimate + census - new):+.1f}",
                f"{covered} of {len(at)}", f"{low:.1%} to {high:.1%}",
            )  # fmt: skip
    yield table


def _seeds(looks: Sequence[Look], arm: str | None = None) -> list[int]:
    return sorted({look.seed for look in looks if arm in (None, look.arm)})


def _count(answers: float) -> str:
    return f"{answers:.0f}" if math.isfinite(answers) else f"over {MAX_ANSWERS:,}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_trial", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20), metavar=("FROM", "TO"))
    parser.add_argument("--classes", default=",".join(CLASSES), help="five names of CIFAR-10, by commas")
    parser.add_argument("--out", type=Path, default=Path("runs/audit-trial.jsonl"), help="looks are added")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows, classes = photos(arguments.classes.split(","))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    known = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    looks = [Look(**json.loads(line)) for line in known]
    for seed in sorted(set(range(*arguments.seeds)) - {look.seed for look in looks}):
        found = list(play(rows, classes, seed))
        with arguments.out.open("a") as file:
            file.write("".join(json.dumps(asdict(look)) + "\n" for look in found))
        looks += found
    for table in summary(looks):
        Console(width=110).print(table)


if __name__ == "__main__":
    main()
