"""Definitions of EPIG, CAL, CLUE, FALCUN, greedy sampling and LDM-S.

Of `falcun` and `ldm-s`, which draw, the value that each pick is said to have is checked; of `falcun` the frequency of
the first pick too, and of `ldm-s` that the first has the smallest metric.
"""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor

from attacks.driver import check
from attacks.oracles import greedy
from attacks.oracles.asking import ask, count, doubt, entropy, k_means
from attacks.oracles.draws import frequencies
from attacks.oracles.scene import CLASSES, SCORED, scene
from jostle.rng import generator
from jostle.strategies.falcun import ContrastiveDraws
from jostle.strategies.ldm_s import SCALES


def epig(chance: Random, name: str) -> str:
    """Mutual information of a label with that of every target, pair by pair."""
    s, k = scene(chance, (*CLASSES, "regression")), chance.randint(2, 5)
    s.pool = s.pool[:16]
    query = ask("epig", s, count(chance, s), samples=k, noise_scale=0.1, seed=1)
    outputs = [s.run(s.pool, theta)[1] for theta in s.perturbed(k, 0.1)]
    scores = torch.zeros(len(s.pool), dtype=torch.float64)
    if s.task == "regression":
        f = torch.stack(outputs, 1)[:, :, 0]
        f = f - f.mean(1, keepdim=True)  # (n, K)
        noise = float(f.square().mean())
        if noise == 0:
            return "nothing moves"
        for i, own in enumerate(f):
            for other in f:
                shared = float((own * other).mean()) ** 2
                spreads = [float(each.square().mean()) + noise for each in (own, other)]
                rho2 = shared / (spreads[0] * spreads[1])
                scores[i] -= 0.5 * torch.log(torch.tensor(1 - rho2, dtype=torch.float64)) / len(f)
    else:
        p = torch.stack([s.sites(each)[:, 0] for each in outputs], 1)  # (n, K, c)
        for i, own in enumerate(p):
            for other in p:
                joint = (own[:, :, None] * other[:, None]).mean(0)
                scores[i] += entropy(own.mean(0)) + entropy(other.mean(0)) - entropy(joint.flatten())
        scores = (scores / len(p)).clamp(min=0)
    greedy.ranking(query, scores)
    return s.task


def cal(chance: Random, name: str) -> str:
    """Divergences from the nearest labeled examples, one by one."""
    s, k = scene(chance, CLASSES), chance.randint(1, 10)
    query = ask("cal", s, count(chance, s), neighbors=k, labeled=s.labeled, seed=0)
    h, known = s.features(s.pool), s.features(s.known)
    p, q = s.probabilities(s.pool)[:, 0], s.probabilities(s.known)[:, 0]
    scores = []
    for own, mine in zip(h, p, strict=True):
        apart = (known - own).norm(dim=1).sort()
        if k < len(known) and float(apart.values[k] - apart.values[k - 1]) < 1e-9:
            return "tie"
        near = apart.indices[:k]
        log = mine.clamp(min=torch.finfo(torch.float64).tiny).log()
        scores.append(torch.stack([-entropy(q[each]) - (q[each] * log).sum() for each in near]).mean())
    greedy.ranking(query, torch.stack(scores))
    return s.task


def clue(chance: Random, name: str) -> str:
    """scikit-learn's weighted clusters under the seed that jostle derives, then the nearest to each center."""
    s, heat = scene(chance, SCORED), chance.choice([1.0, 0.5])
    n = count(chance, s)
    query = ask("clue", s, n, temperature=heat, seed=5)
    q = s.probabilities(s.pool) ** (1 / heat)
    weights, h = entropy(q / q.sum(-1, keepdim=True)).mean(1), s.features(s.pool)
    weights = weights if weights.any() else torch.ones_like(weights)
    cells, centers = k_means(h, n, 5, weights)
    total = torch.zeros(n, dtype=torch.float64).index_add_(0, cells, weights)
    if n > 1 and float(total.sort().values.diff().min()) < 1e-9:
        return "tie"
    order = total.sort(descending=True).indices.tolist()
    for turn, cell in enumerate(order):
        gaps = -(h - centers[cell]).norm(dim=1)
        gaps[list(query)[:turn]] = -torch.inf
        own = float(gaps[list(query)[turn]])
        check(own >= float(gaps.max()) - 1e-9, f"pick {turn} is not nearest to its center: {own}")
        check(abs(float(total[cell]) - query.scores[turn]) < 1e-6, f"cell of {float(total[cell])}")
    return s.task


def falcun(chance: Random, name: str) -> str:
    """The sum of doubt and distance to the batch, when each was drawn."""
    s, gamma = scene(chance, SCORED), chance.choice([1.0, 10.0])
    picker = ContrastiveDraws(gamma=gamma)
    query = ask("falcun", s, count(chance, s), selector=picker, seed=chance.randrange(99))
    p = s.probabilities(s.pool).mean(1)
    u, picks = doubt(p), list(query)
    for turn, pick in enumerate(picks):
        check(abs(float(sums(p, u, picks[:turn])[pick]) - query.scores[turn]) < 1e-6, f"pick {turn}")
    if chance.random() < 0.2:
        few = p[:5]
        weights = sums(few, doubt(few), []) ** gamma
        weights = weights if weights.sum() > 0 else torch.ones_like(weights)
        frequencies("falcun", s, weights, selector=picker)
    return s.task


def sums(p: Tensor, u: Tensor, picks: list[int]) -> Tensor:
    """u + d of all that are left."""
    d = u if not picks else torch.minimum(u, (p[:, None] - p[picks][None]).abs().sum(2).amin(1))
    left = torch.ones(len(p), dtype=torch.bool)
    left[picks] = False
    low, high = float(d[left].min()), float(d[left].max())
    return u + ((d - low) / (high - low) if high > low else torch.zeros_like(d))


def greedy_sampling(chance: Random, name: str) -> str:
    """The farthest by features, times the distance of numbers in igs."""
    s = scene(chance, ["regression"])
    labeled = s.labeled if name == "igs" or chance.random() < 0.6 else None
    query = ask(name, s, count(chance, s), labeled=labeled, seed=0)
    h, f = s.run(s.pool)
    known = s.features(s.known)

    def value(picks: list[int]) -> Tensor:
        if labeled is None and not picks:
            return -(h - h.mean(0)).norm(dim=1)
        rows = torch.cat([known[: len(known) if labeled else 0], h[picks]])
        apart = (h[:, None] - rows[None]).norm(dim=2)
        if name == "igs":
            apart = apart * (f - torch.cat([s.labels, f[picks, 0]])[None]).abs()
        return apart.amin(1)

    greedy.stepwise(list(query), query.scores, value)
    return "labeled" if labeled else "nothing labeled"


def ldm_s(chance: Random, name: str) -> str:
    """The metric under noise drawn again from the same generator; the first pick has the smallest."""
    s, seed, patience = scene(chance, CLASSES), chance.randrange(99), chance.randint(1, 3)
    query = ask("ldm-s", s, count(chance, s), patience=patience, seed=seed)
    h, head, draws = s.features(s.pool), s.plain[1], generator(seed, "ldm-s", "noise")
    clean = s.logits(s.outputs(s.pool)).argmax(1)
    metric = torch.ones(len(h), dtype=torch.float64)
    for scale in SCALES:
        idle = 0
        while idle < patience:
            w, b = (
                torch.randn(part.shape, generator=draws).double() * scale for part in (head.weight, head.bias)
            )
            with torch.no_grad():
                flips = s.logits(h @ (head.weight + w).T + head.bias + b).argmax(1) != clean
            share = float(flips.double().mean())
            better = [i for i in range(len(h)) if flips[i] and metric[i] > share]
            metric[better] = share
            idle = 0 if better else idle + 1
    greedy.valued(query, metric)
    check(metric[next(iter(query))] == metric.min(), "the first pick has not the smallest metric")
    return s.task
