"""BAIT, flip chances and other definitions, by explicit matrices and loops."""

from __future__ import annotations

import copy
import math
from random import Random

import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from attacks.driver import check
from attacks.oracles.asking import ask, count
from attacks.oracles.scene import CLASSES, Scene, scene


def plain_at(s: Scene, theta: Tensor) -> nn.Module:
    """A copy of the network, not recorded, with these parameters."""
    made = copy.deepcopy(s.plain)
    vector_to_parameters(theta, made.parameters())
    return made


def bait(chance: Random, name: str) -> str:
    """Greedy additions and removals, the trace computed anew by explicit inverses for every example at every step."""
    s = scene(chance, (*CLASSES, "regression"))
    s.pool = s.pool[:16]
    n, lam = count(chance, s, 3), chance.choice([0.01, 1.0])
    query = ask(name, s, n, labeled=s.labeled, regularization=lam, seed=0)
    everything = torch.cat([s.pool, s.known])
    size, m = len(s.pool), len(s.known)
    h = s.features(everything)
    if s.task == "regression":
        roots = h[:, None]  # (n + m, 1, d)
    elif name == "bait-binary":
        top = s.probabilities(everything)[:, 0].amax(1)
        roots = ((top * (1 - top)).sqrt()[:, None] * h)[:, None]
    else:
        p = s.probabilities(everything)[:, 0]
        away = torch.eye(p.shape[1], dtype=p.dtype) - p[:, None]  # (n + m, c, c)
        roots = (p.sqrt()[:, :, None] * away)[:, :, :, None] * h[:, None, None]  # (n + m, c, c, d)
        roots = roots.flatten(2)
    each = roots.mT @ roots  # (n + m, cd, cd)
    target, known = each.mean(0), each[size:].mean(0)
    matrix = lam * torch.eye(len(target), dtype=target.dtype) + known * (m / (m + n))
    own = each[:size] * (n / (m + n))

    def trace(at: Tensor) -> float:
        return float((torch.linalg.inv(at) * target.T).sum())

    def close(a: float, b: float) -> bool:
        return abs(a - b) <= 1e-9 * abs(a) + 1e-14 * trace(matrix)

    chosen: list[int] = []
    scores: list[float] = []
    for _ in range(min(2 * n, size)):
        gains = [-math.inf if i in chosen else trace(matrix) - trace(matrix + own[i]) for i in range(size)]
        best = max(range(size), key=gains.__getitem__)
        if close(gains[best], sorted(gains)[-2]):
            return "near tie"
        chosen.append(best)
        scores.append(gains[best])
        matrix = matrix + own[best]
    kept = list(chosen)
    while len(kept) > n:
        losses = {i: trace(matrix - own[i]) - trace(matrix) for i in kept}
        worst = min(losses, key=losses.__getitem__)
        if close(losses[worst], sorted(losses.values())[1]):
            return "near tie"
        kept.remove(worst)
        matrix = matrix - own[worst]
    check(list(query) == kept, f"picked {list(query)}, by definition {kept} of {chosen}")
    for pick, score in zip(query, query.scores, strict=True):
        wanted = scores[chosen.index(pick)]
        right = abs(score - wanted) <= 1e-6 * abs(wanted) + 1e-12 * trace(matrix)
        check(right, f"score {score}, by definition {wanted}")
    return s.task


def bearable_step(logits: Tensor, moved: Tensor, labels: Tensor) -> float:
    """The largest step, found by doubling and halving, at which 95 % of the accuracy is left over both signs."""
    right = float((logits.argmax(1) == labels).double().mean())

    def left(step: float) -> float:
        found = [((logits[:, None] + sign * step * moved).argmax(2) == labels[:, None]) for sign in (1, -1)]
        return float(torch.stack(found).double().mean())

    low, high = 0.0, 1e-6
    while left(high) >= 0.95 * right and high < 1e12:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) >= 0.95 * right else (low, middle)
    return low or high


def flip_chances(logits: Tensor, moved: Tensor, step: float | None) -> Tensor:
    """Chance of two sides that noise of this step closes the gap to the nearest rival, one example at a time."""
    nearest = []
    for own, moves in zip(logits, moved, strict=True):  # (c,), (K, c)
        top = int(own.argmax())
        steps = []
        for rival in range(len(own)):
            if rival != top:
                spread = float((moves[:, top] - moves[:, rival]).square().mean().sqrt())
                steps.append(float(own[top] - own[rival]) / max(spread, 2.3e-308))
        nearest.append(min(steps))
    step = sorted(nearest)[(len(nearest) - 1) // 2] if step is None else step
    chances = [math.erfc(each / max(step, 2.3e-308) / math.sqrt(2)) for each in nearest]
    return torch.tensor(chances, dtype=torch.float64)
