"""Answers until a goal is proven: 2,000 photographs of CIFAR-10 in five classes, a probe on frozen features.

`JOSTLE_DATA=folder python -m benchmarks.audit_trial` plays whole labeling projects without page or database. The goal
is an accuracy of 90 %. Two rules are compared, seed by seed:

* "prove": intervals by betting; alpha goes to candidates, which random questions follow, with a few picks among them.
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
from dataclasses import asdict, dataclass, replace
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
from jostle.labeling.audit import FORECAST_LIMIT, PROOF_SHARE, UPPER_SHARE
from jostle.labeling.audit.queue import proof_length
from jostle.labeling.training.encoders import LiteImages
from jostle.labeling.training.learners import SOFTMAX, fit_classifier
from jostle.statistics.agreement import kappa
from jostle.statistics.confidence import ALPHA, AuditSample, Interval, UpperBettor, exact_interval
from jostle.statistics.estimate import estimate_mean, estimate_new_data_error, new_data_interval
from jostle.statistics.proofs import answers_to_prove, is_candidate, spend_alpha

CLASSES = ("bird", "cat", "dog", "frog", "horse")
PHOTOS = 12_000  # of the training images, in their order; those of the five classes are used
BATCH, AUDIT_SHARE = 50, 0.15
POOL, MOST = 2000, 700  # examples of a project, others are new data; answers after which it ends
RANKED = 4 * BATCH  # picks of one ranking, audited examples among them
GOAL = 0.1  # largest error
REDRAWN = 150  # audits that tell the bias of an estimate
FREE, PICKED, AUDITED = range(3)


def photos() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features (n, 1280) and classes (n,) of photographs."""
    data = datasets.load("cifar10")
    numbers = [data.classes.index(name) for name in CLASSES]
    targets = data.train.targets[torch.arange(PHOTOS)].numpy()
    rows = torch.from_numpy(np.flatnonzero(np.isin(targets, numbers)))
    name = "photos-" + "-".join(map(str, sorted(numbers)))
    found = frozen.features(name, LiteImages(), frozen.as_contents(frozen.pixels(data, rows))).numpy()
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
    new_mean: float  # mean estimate of the error on new data over other audits of the same size
    forecast: int | None  # random answers that a proof was expected to take when it began
    proof_questions: int = 0  # questions of that proof, picks among them


class Project:
    """The state of one labeling project."""

    def __init__(self, rows: NDArray[np.float32], classes: NDArray[np.int64], arm: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(classes))
        self.rows, self.classes = rows[order[:POOL]], classes[order[:POOL]]
        self.new_rows, self.new_classes = rows[order[POOL:]], classes[order[POOL:]]
        self.audit_order = rng.permutation(POOL)
        self.ranking = [int(i) for i in rng.permutation(POOL)]  # the next picks, best first
        self.status = np.full(POOL, FREE)
        self.arm, self.seed = arm, seed
        self.picks: list[int] = []  # trained on, with audited examples that left
        self.asked, self.audited = 0, 0
        self.shared = 0  # audited as the usual share of a batch, without those of a proof
        self.candidates: list[bool] = []
        self.network: torch.nn.Module | None = None
        self.predicted: NDArray[np.int64] | None = None  # by the last model, (N,)

    @property
    def answers(self) -> int:
        """All answers so far."""
        return self.asked + self.audited

    @property
    def left(self) -> NDArray[np.bool_]:
        """Examples that the audit is a sample of, (N,)."""
        result: NDArray[np.bool_] = (self.status == FREE) | (self.status == AUDITED)
        return result

    def pick(self, n: int) -> None:
        """Answer n picks; audited examples that are ranked before them leave the audit and train."""
        goal = self.asked + n
        while self.ranking and self.asked < goal:
            i = self.ranking.pop(0)
            if self.status[i] in (FREE, AUDITED):
                self.asked += int(self.status[i] == FREE)
                self.status[i] = PICKED
                self.picks.append(i)

    def audit(self, n: int) -> None:
        """Answer the next n random questions."""
        drawn = [i for i in self.audit_order if self.status[i] == FREE][:n]
        self.status[drawn] = AUDITED
        self.audited += len(drawn)

    def train(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Train on the picks and rank the rest; probabilities of the pool (N, c), and of the picks, held out (m, c)."""
        targets = np.eye(int(self.classes.max()) + 1)[self.classes[self.picks]]
        seed = 1000 * self.seed + len(self.picks)
        self.network, held_out = fit_classifier(SOFTMAX, self.rows, np.array(self.picks), targets, seed)
        taken = np.flatnonzero(~self.left)
        x, y = torch.from_numpy(self.rows), torch.from_numpy(self.classes)
        query = strategies.build("default").select(
            self.network,
            x,
            min(RANKED, POOL - len(taken)),
            exclude=taken,
            labeled=TensorDataset(x[self.picks], y[self.picks]),
            task="classification",
            seed=seed,
            progress=False,
        )
        self.ranking = [int(i) for i in query.indices]
        return self.probabilities(self.rows), held_out

    def probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Probabilities (n, c) of the last model."""
        assert self.network is not None
        with torch.no_grad():
            logits = self.network(torch.from_numpy(rows)).double().numpy()
        result: NDArray[np.float64] = softmax(logits, axis=1)
        return result


class Measured:
    """One model, and the audit of what is left."""

    def __init__(self, project: Project) -> None:
        self.project = project
        probabilities, held_out = project.train()
        left, predicted = project.left, probabilities.argmax(axis=1)
        steady = None if project.predicted is None else kappa(project.predicted[left], predicted[left])
        project.predicted = predicted
        self.wrong = (predicted != project.classes).astype(np.float64)  # (N,)
        self.expected = 1 - probabilities.max(axis=1)  # (N,) the probe's confidence is calibrated
        self.held_out = (held_out.argmax(axis=1) != project.classes[project.picks]).astype(np.float64)
        new = project.probabilities(project.new_rows).argmax(axis=1)
        self.new_truth = float((new != project.new_classes).mean())
        project.candidates.append(is_candidate(self.expected[left], GOAL, steady))
        self.share = spend_alpha(project.candidates)[-1]
        self.best = self.clairvoyant()
        self.forecast: int | None = None

    def sample(self) -> tuple[AuditSample, NDArray[np.float64], NDArray[np.float64]]:
        """The audit so far, its errors in draw order, and the expected errors of all that is left."""
        left = self.project.left
        drawn = np.array(
            [i for i in self.project.audit_order if self.project.status[i] == AUDITED], dtype=np.int64
        )
        places = np.cumsum(left) - 1
        return AuditSample(places[drawn], int(left.sum())), self.wrong[drawn], self.expected[left]

    def interval(self) -> Interval:
        """Bounds on the error of the rest, by the arm's rule."""
        sample, drawn, expected = self.sample()
        if self.project.arm == "before":
            share = 6 * ALPHA / (math.pi * len(self.project.candidates)) ** 2
            return exact_interval(int(drawn.sum()), len(drawn), sample.population, share)
        return sample.interval(drawn, expected, alpha=self.share, upper_share=UPPER_SHARE)

    def clairvoyant(self) -> float:
        """Answers of a clairvoyant: the picks, and random answers until all of alpha proves the goal."""
        left = self.project.left
        order = [i for i in self.project.audit_order if left[i]]
        capital = UpperBettor(self.wrong[order], self.expected[order]).log_capital(GOAL)
        proven = np.flatnonzero((capital >= math.log(1 / ALPHA)) & (self.wrong[left].mean() <= GOAL))
        return float(len(self.project.picks) + proven[0] + 1) if len(proven) else math.inf

    def is_proven(self) -> bool:
        """Whether the bound has passed the goal, without the bound: that takes 44 times as long."""
        sample, drawn, expected = self.sample()
        capital = UpperBettor(drawn, sample.arrange(expected)).log_capital(GOAL)
        return bool(capital.max(initial=0.0) >= math.log(1 / (UPPER_SHARE * self.share)))

    def prove(self) -> None:
        """Ask random questions, a few picks among them, until the goal is proven or the questions are used up."""
        sample, drawn, expected = self.sample()
        forecast = answers_to_prove(
            drawn, sample.arrange(expected), GOAL, alpha=UPPER_SHARE * self.share, limit=FORECAST_LIMIT,
            picks_per_answer=1 / PROOF_SHARE - 1,
        )  # fmt: skip
        self.forecast = forecast.median
        pace = 0.0
        for _ in range(proof_length(forecast.median, first=sum(self.project.candidates) == 1)):
            if self.is_proven():
                return
            self.project.audit(1)
            pace += 1 / PROOF_SHARE - 1
            if pace >= 1:
                self.project.pick(1)
                pace -= 1

    def redrawn_estimate(self, known: NDArray[np.float64], count: int) -> float:
        """Mean estimate of the error on new data if the audit had drawn other examples: without its luck."""
        rng, left = np.random.default_rng(self.project.seed), self.project.left
        wrong, expected = self.wrong[left], self.expected[left]
        orders = [rng.permutation(len(wrong)) for _ in range(REDRAWN)]
        rest = [estimate_mean(wrong[order[:count]], expected[order]) for order in orders]
        return estimate_new_data_error(known, float(np.mean(rest)), len(wrong))

    def look(self) -> Look:
        """All figures of this model."""
        project, inside = self.project, self.interval()
        sample, drawn, expected = self.sample()
        since = np.array(project.picks[len(self.held_out) :], dtype=np.int64)  # answered after the training
        known, size = np.concatenate([self.held_out, self.wrong[since]]), sample.population
        estimate = estimate_mean(drawn, sample.arrange(expected))
        new = new_data_interval(known, sample.interval(drawn, expected, alpha=ALPHA / 2), size)
        return Look(
            project.arm, project.seed, project.answers, len(project.picks), len(sample.draws),
            project.candidates[-1], inside.high <= GOAL, float(self.wrong[project.left].mean()), inside.low,
            inside.high, estimate, self.new_truth, estimate_new_data_error(known, estimate, size), new.low, new.high,
            self.best, self.redrawn_estimate(known, len(drawn)), self.forecast,
        )  # fmt: skip


def play(rows: NDArray[np.float32], classes: NDArray[np.int64], seed: int) -> Iterator[Look]:
    """Both rules on one project: they ask the same until the first proof, and part there."""
    before = Project(rows, classes, "before", seed)
    prove: Project | None = None
    while before.answers < MOST:
        model = ask_batch(before)
        yield model.look()
        if prove is None:
            again = copy.copy(model)
            again.project = copy.deepcopy(before)
            again.project.arm = "prove"
            audited = again.project.audited
            yield (look := follow_up(again))
            if look.proven or again.project.audited > audited:
                prove = again.project
                yield from continue_proving(prove, look.proven)


def continue_proving(project: Project, proven: bool) -> Iterator[Look]:
    """The rest of a project with random questions after each candidate."""
    while not proven and project.answers < MOST:
        yield (look := follow_up(ask_batch(project)))
        proven = look.proven


def ask_batch(project: Project) -> Measured:
    """One batch of picks and random questions, and the model after it."""
    due = round(AUDIT_SHARE * (project.asked + project.shared + BATCH)) - project.shared
    project.pick(BATCH - due)
    project.audit(due)
    project.shared += due
    return Measured(project)


def follow_up(model: Measured) -> Look:
    """Random questions after a candidate, until it is proven or they are used up."""
    answered = model.project.answers
    if model.project.candidates[-1]:
        model.prove()
    asked = model.project.answers - answered
    return replace(model.look(), proof_questions=asked)


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
            proven = str(sum(map(math.isfinite, needed)))
            table.add_row(arm, str(len(runs)), proven, *(_count(n) for n in figures), str(missed))
    best = [min(look.best for look in looks if look.seed == seed) for seed in _seeds(looks)]
    figures = (float(np.median(best)), min(best), max(best))
    table.add_row("best possible", str(len(best)), str(len(best)), *(_count(n) for n in figures), "")
    yield table
    table = Table(
        "answers", "error of the rest", "on new data", "estimate", "bias", "bias, redrawn audits", "covered", "interval"
    )  # fmt: skip
    for answers in range(100, MOST + 1, 100):
        at = [look for look in looks if look.arm == "before" and look.answers == answers]
        if at:
            error, new, estimate, low, high = (
                float(np.mean([getattr(look, name) for look in at]))
                for name in ("error", "new_error", "new_estimate", "new_low", "new_high")
            )
            redrawn = float(np.mean([look.new_mean for look in at]))  # without the luck of the audits
            covered = sum(look.new_low <= look.new_error <= look.new_high for look in at)
            table.add_row(
                str(answers), f"{error:.1%}", f"{new:.1%}", f"{estimate:.1%}",
                f"{100 * (estimate - new):+.1f}", f"{100 * (redrawn - new):+.1f}",
                f"{covered} of {len(at)}", f"{low:.1%} to {high:.1%}",
            )  # fmt: skip
    yield table
    proofs = [look for look in looks if look.proven and look.forecast and look.proof_questions]
    table = Table(
        "proofs that random questions ended", "forecast: median", "random answers: median", "longer than forecast"
    )  # fmt: skip
    if proofs:
        asked = [PROOF_SHARE * look.proof_questions for look in proofs]
        longer = sum(took > (look.forecast or 0) for took, look in zip(asked, proofs, strict=True))
        middle = np.median([look.forecast or 0 for look in proofs]), np.median(asked)
        table.add_row(str(len(proofs)), f"{middle[0]:.0f}", f"{middle[1]:.0f}", f"{longer / len(proofs):.0%}")
    yield table


def _seeds(looks: Sequence[Look], arm: str | None = None) -> list[int]:
    return sorted({look.seed for look in looks if arm in (None, look.arm)})


def _count(answers: float) -> str:
    return f"{answers:.0f}" if math.isfinite(answers) else f"over {MOST:,}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_trial", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20), metavar=("FROM", "TO"))
    parser.add_argument("--out", type=Path, default=Path("runs/audit-trial.jsonl"), help="looks are added")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows, classes = photos()
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
