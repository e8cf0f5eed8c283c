"""Strategies that draw: frequencies over many seeds, and what is said of each pick."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import jostle
from attacks.driver import check
from attacks.oracles import greedy
from attacks.oracles.asking import ask, count, doubt
from attacks.oracles.scene import ANY, CLASSES, SCORED, Scene, scene

SEEDS = 60  # of a frequency


def badge(chance: Random, name: str) -> str:
    """The longest gradient first; each next pick is said to be as far from those before as it is, and drawn by that."""
    s = scene(chance, CLASSES)
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
    first = int(squares[:5].argmax())
    weights = greedy.gaps(rows[:5], rows[[first]]) ** 2
    if float(squares[:5].sort(descending=True).values[:2].diff().abs()) < 1e-9 or not weights.sum():
        return s.task
    frequencies("badge", s, weights, turn=1)
    return s.task


def power_margin(chance: Random, name: str) -> str:
    s, power = scene(chance, SCORED), chance.choice([0.5, 1.0, 2.0])
    few = s.pool[:5]
    logs = power * doubt(s.probabilities(few)).mean(1).clamp(min=torch.finfo(torch.float64).tiny).log()
    weights = logs.softmax(0)  # all alike where the model is sure of all
    frequencies("power-margin", s, weights, power=power)
    return s.task


def random(chance: Random, name: str) -> str:
    s, seed = scene(chance, ANY), chance.randrange(99)
    long, short = ask("random", s, 7, seed=seed), ask("random", s, 3, seed=seed)
    check(list(long)[:3] == list(short), "a longer list does not begin with the shorter one")
    frequencies("random", s, torch.ones(5))
    return s.task


def frequencies(name: str, s: Scene, weights: Tensor, turn: int = 0, **options: Any) -> None:
    """Check how often each of the first examples is drawn: six standard deviations, one false alarm in 10^8."""
    call = {"task": s.task, **options}
    picks = [jostle.select(name, s.net, s.pool[:5], turn + 1, seed=seed, **call) for seed in range(SEEDS)]
    counts = torch.bincount(torch.tensor([list(query)[turn] for query in picks]), minlength=5).double()
    chances = (weights / weights.sum()).double()
    apart = (counts - SEEDS * chances).abs()
    allowed = 6 * (SEEDS * chances * (1 - chances)).sqrt() + 1.5
    check(bool((apart <= allowed).all()), f"drawn {counts.tolist()}, expected {(SEEDS * chances).tolist()}")
