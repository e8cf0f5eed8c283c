"""Strategies that draw: frequencies over many seeds, and what is said of each pick."""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor
from torch.nn import functional as F

import jostle
from attacks.driver import check
from attacks.oracles import greedy
from attacks.oracles.asking import ask, count, doubt
from attacks.oracles.scene import CLASSES, scene

SCORED = (*CLASSES, "segmentation", "multi-label", "sequence")
SEEDS = 60  # of a frequency


def badge(chance: Random) -> str:
    """The longest gradient first; each next pick is said to be as far from those before as it is, and drawn by that."""
    s = scene(chance, chance.choice(CLASSES))
    p, h = s.probabilities(s.pool)[:, 0], s.features(s.pool)
    guess = F.one_hot(p.argmax(1), p.shape[1])
    rows = ((p - guess)[:, :, None] * h[:, None]).flatten(1)
    query = ask("badge", s, count(chance, s), seed=chance.randrange(99))
    squares = rows.square().sum(1)
    greedy.stepwise(list(query)[:1], query.scores, lambda picks: squares, 1e-9 * float(squares.max()))
    for turn in range(1, len(query)):
        own = greedy.gaps(rows, rows[list(query)[:turn]])[list(query)[turn]] ** 2
        check(abs(float(own) - query.scores[turn]) <= 1e-6 * float(squares.max()) + 1e-20, f"gap {own}")
    if chance.random() < 0.8:
        return s.task
    few, seeds = s.pool[:5], range(SEEDS)
    first = int(squares[:5].argmax())
    weights = greedy.gaps(rows[:5], rows[[first]]) ** 2
    if float(squares[:5].sort(descending=True).values[:2].diff().abs()) < 1e-9 or not weights.sum():
        return s.task
    drawn = [list(jostle.select("badge", s.net, few, 2, task=s.task, seed=seed))[1] for seed in seeds]
    frequencies(drawn, weights)
    return s.task


def power_margin(chance: Random) -> str:
    s, power = scene(chance, chance.choice(SCORED)), chance.choice([0.5, 1.0, 2.0])
    few = s.pool[:5]
    logs = power * doubt(s.probabilities(few)).mean(1).clamp(min=torch.finfo(torch.float64).tiny).log()
    weights = logs.softmax(0)  # all alike where the model is sure of all
    drawn = [
        next(iter(jostle.select("power-margin", s.net, few, 1, task=s.task, power=power, seed=seed)))
        for seed in range(SEEDS)
    ]
    frequencies(drawn, weights)
    return s.task


def random(chance: Random) -> str:
    s, seed = scene(chance, chance.choice((*SCORED, "regression"))), chance.randrange(99)
    long, short = ask("random", s, 7, seed=seed), ask("random", s, 3, seed=seed)
    check(list(long)[:3] == list(short), "a longer list does not begin with the shorter one")
    drawn = [next(iter(jostle.select("random", s.net, s.pool[:5], 1, seed=seed))) for seed in range(SEEDS)]
    frequencies(drawn, torch.ones(5))
    return s.task


def frequencies(drawn: list[int], weights: Tensor) -> None:
    """Six standard deviations: one false alarm in 10^8."""
    chances = (weights / weights.sum()).double()
    counts = torch.bincount(torch.tensor(drawn), minlength=len(weights)).double()
    apart = (counts - len(drawn) * chances).abs()
    allowed = 6 * (len(drawn) * chances * (1 - chances)).sqrt() + 1.5
    check(
        bool((apart <= allowed).all()), f"drawn {counts.tolist()}, expected {(len(drawn) * chances).tolist()}"
    )
