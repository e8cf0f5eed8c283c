"""Strategies that cluster: what flips, what is unsure, and which member of a cluster is taken."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import torch
from torch import Tensor

from attacks.driver import check
from attacks.oracles import greedy
from attacks.oracles.asking import ask, count, doubt, k_means, tied
from attacks.oracles.greedy import unit
from attacks.oracles.scene import ANY, CLASSES, SCORED, scene


def nearest_of_each(picks: list[int], able: Tensor, features: Tensor, n: int, seed: int) -> None:
    """Check that the first picks are the member of each cluster that is nearest to its center, of all that are able."""
    rows = unit(features[able])
    cells, centers = k_means(rows, min(n, len(rows)), seed)
    apart = (rows - centers[cells]).norm(dim=1)
    places = able.tolist()
    picks = picks[: len(cells.unique())]  # copies leave clusters empty, and others are drawn
    check(set(picks) <= set(places), "what does not flip comes before what does")
    taken = [int(cells[places.index(pick)]) for pick in picks]
    check(len(set(taken)) == len(taken), f"two picks of one cluster: {taken}")
    for pick, cell in zip(picks, taken, strict=True):
        own = float(apart[places.index(pick)])
        check(own <= float(apart[cells == cell].min()) + 1e-9, f"{pick} is not nearest to its center: {own}")


def alfa_mix(chance: Random, name: str) -> str:
    """Mixtures in closed form, cap by cap."""
    s = scene(chance, CLASSES)
    n, step = count(chance, s), chance.choice([None, 0.1, 0.5])
    query = ask("alfa-mix", s, n, labeled=s.labeled, cap_step=step, seed=5)
    z, head = s.features(s.pool), s.plain[1]
    predicted = s.logits(s.outputs(s.pool)).argmax(1)
    known = s.features(s.known)
    c = 2 if s.task == "binary" else s.classes
    means = [known[s.labels == y].mean(0) if bool((s.labels == y).any()) else known.mean(0) for y in range(c)]
    weights = torch.cat([0 * head.weight, head.weight]) if s.task == "binary" else head.weight
    others = s.logits(s.outputs(s.pool)).scatter(1, predicted[:, None], -torch.inf).softmax(1)
    # of the loss, over 1 - p: a sure example has one too
    gradient = (others @ weights - weights[predicted]).detach()
    scores = torch.zeros(len(z), dtype=torch.float64)
    step = step or 0.2
    for turn in range(1, math.ceil(1 / step - 1e-9) + 1):
        cap = min(turn * step, 1.0)
        with torch.no_grad():
            for mean in means:
                reach = cap / math.sqrt(z.shape[1]) * (mean - z).norm(dim=1, keepdim=True)
                flips = s.logits(head(z + reach * unit(gradient))).argmax(1) != predicted
                scores[flips & (scores == 0)] = 1 / cap
        if int((scores > 0).sum()) > min(n, len(scores) - 1):
            break
    able = scores.nonzero()[:, 0]
    greedy.valued(query, scores)
    if len(able):
        nearest_of_each(list(query), able, z, n, 5)
    return s.task


def drop_query(chance: Random, name: str) -> str:
    """Flips under the features that were seen to be dropped."""
    s = scene(chance, CLASSES)
    n, passes, rate = count(chance, s), chance.randint(1, 5), chance.choice([0.5, 0.75])
    query = ask("drop-query", s, n, passes=passes, rate=rate, seed=5)
    z, head = s.features(s.pool), s.plain[1]
    of_pool = [x for x, _ in s.net.tape.heads if x.shape == z.shape]
    dropped = of_pool[-passes:]
    clean = s.logits(s.outputs(s.pool)).argmax(1)
    flips = torch.zeros(len(z), dtype=torch.float64)
    for x in dropped:
        right = torch.isclose(x, z / (1 - rate), rtol=1e-9, atol=1e-12) | (x == 0)
        check(bool(right.all()), "a feature is neither dropped nor scaled")
        with torch.no_grad():
            flips += s.logits(head(x)).argmax(1) != clean
    kept = torch.stack(dropped) != 0
    share, spread = float(kept.double().mean()), math.sqrt(rate * (1 - rate) / kept.numel())
    alive = float((z != 0).double().mean())
    check(abs(share - (1 - rate) * alive) <= 7 * spread + 1e-9, f"{share} of the features were kept")
    flips /= passes
    able = (flips > 0.5).nonzero()[:, 0]
    first = list(query)[: min(n, len(able))]
    check(all(flips[pick] > 0.5 for pick in first), "what does not flip comes before what does")
    if len(able):
        nearest_of_each(first, able, z, n, 5)
    rest = list(query)[len(first) :]
    left = sorted((float(flips[i]) for i in range(len(z)) if i not in first), reverse=True)
    check([float(flips[pick]) for pick in rest] == left[: len(rest)], "the rest is not by flips")
    greedy.valued(query, flips, 1e-6)
    return s.task


def average_linkage(rows: Tensor, clusters: int) -> list[set[int]]:
    """Merge the two clusters of the smallest mean distance until so many are left."""
    found = [{i} for i in range(len(rows))]
    apart = (rows[:, None] - rows[None]).norm(dim=2)
    while len(found) > clusters:
        pairs = [(a, b) for a in range(len(found)) for b in range(a)]
        a, b = min(pairs, key=lambda ab: float(apart[list(found[ab[0]])][:, list(found[ab[1]])].mean()))
        found[b] |= found.pop(a)
    return found


def cluster_margin(chance: Random, name: str) -> str:
    """The smallest margins; clusters take turns, the smallest first."""
    s = scene(chance, SCORED)
    s.pool = s.pool[:20]
    n, spare, size = count(chance, s), chance.choice([1.0, 1.25, 2.0]), chance.randint(2, 6)
    query = ask("cluster-margin", s, n, spare=spare, cluster_size=size, seed=0)
    doubts = doubt(s.probabilities(s.pool)).mean(1)
    most = math.ceil(spare * n)
    limit = float(doubts.sort(descending=True).values[:most][-1])
    check(all(float(doubts[pick]) >= limit - 1e-9 for pick in query), "a margin that is too large")
    if tied(doubts, most):
        return "tie"
    kept = set(doubts.sort(descending=True).indices[:most].tolist())
    cells = average_linkage(s.features(s.pool), math.ceil(len(s.pool) / size))
    left = [cell & kept for cell in cells if cell & kept]
    sizes = {id(cell): len(cell) for cell in left}
    turn: list[set[int]] = []
    for pick in query:
        if not turn:
            turn = [cell for cell in left if cell]
        cell = next((cell for cell in turn if pick in cell), set())
        check(bool(cell), f"{pick}: its cluster had its turn, or it is none of the smallest margins")
        smallest = min(sizes[id(each)] for each in turn)
        check(sizes[id(cell)] == smallest, "a larger cluster came before a smaller")
        cell.remove(pick)
        turn = [each for each in turn if each is not cell]
    return s.task


def typicality(rows: Tensor, neighbors: int) -> Tensor:
    """1 / the mean squared distance to the nearest half of the others, at most so many."""
    squared = (rows[:, None] - rows[None]).square().sum(2)
    near = min(neighbors, len(rows) // 2)
    means = [each.sort().values[1 : near + 1].mean() for each in squared]  # the first is the row itself
    return 1 / (torch.stack(means) + 1e-5)


def typiclust(chance: Random, name: str) -> str:
    """Clusters without labels first, larger ones first; in each the most typical example."""
    s = scene(chance, ANY)
    n = count(chance, s)
    labeled: Any = s.labeled if chance.random() < 0.6 else None
    query = ask("typiclust", s, n, labeled=labeled, seed=5)
    rows = s.features(s.pool)
    points = rows if labeled is None else torch.cat([rows, s.features(s.known)])
    m = len(points) - len(rows)
    k = min(m + n, 500, len(points))
    cells, _ = k_means(points, k, 5)
    sizes = [int((cells == cell).sum()) for cell in range(k)]
    chosen = [int((cells[len(rows) :] == cell).sum()) for cell in range(k)]
    members = {cell: set((cells[: len(rows)] == cell).nonzero()[:, 0].tolist()) for cell in range(k)}
    large = [cell for cell in range(k) if members[cell] and sizes[cell] > 5]
    small = [cell for cell in range(k) if members[cell] and 1 < sizes[cell] <= 5]
    turn: list[int] = []
    for pick in query:
        if not turn:
            turn = [cell for cell in large if members[cell]] or [cell for cell in small if members[cell]]
        if not turn:
            return f"{s.task}, single examples"  # in the order of their typicality among all
        cell = int(cells[pick])
        check(cell in turn, f"{pick}: its cluster had its turn, or is too small")
        rank = {each: (chosen[each], -sizes[each]) for each in turn}
        check(rank[cell] == min(rank.values()), f"cluster {cell} {rank[cell]} before {min(rank.values())}")
        inside = sorted(members[cell])
        if len(inside) > 1:
            found = typicality(rows[inside], 20)
            own = float(found[inside.index(pick)])
            check(own >= float(found.max()) * (1 - 1e-6), f"{pick} is not the most typical: {own}")
        members[cell].remove(pick)
        turn.remove(cell)
    return s.task
