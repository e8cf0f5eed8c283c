"""The definition of each strategy, and what of it is checked; of trained auxiliary networks only what is named here.

Full definitions: all but the following. `vaal`, `sraal`: the order of picks by score and that a seed repeats them; the
uncertainty of sraal. `core-gcn`, `uncertain-gcn`: both layers of the graph network solve for some weights on a dense
matrix of the graph, and the picks follow. `ll4al`: the predictor's output, not its training. Draws (`random`,
`power-margin`, `badge`): frequencies over many seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch
from torch import Tensor
from torch.nn import functional as F

import jostle
from attacks.driver import check
from attacks.oracles import clusters, definitions, draws, greedy, recent, trained
from attacks.oracles.asking import ask, count, doubt, drawn_dropout, entropy, tied
from attacks.oracles.scene import ANY, CLASSES, SCORED, Scene, scene

Check = Callable[[Random, str], str]  # (chance, name of a strategy) -> what it was checked on


def reduced(values: Tensor, how: str) -> Tensor:
    return {"mean": values.mean, "sum": values.sum, "max": values.amax}[how](1)


def scored(of: Callable[[Tensor], Tensor]) -> Check:
    """A score of each site's distribution, reduced over sites."""

    def checked(chance: Random, name: str) -> str:
        s, how = scene(chance, SCORED), chance.choice(["mean", "sum", "max"])
        query = ask(name, s, count(chance, s), reduction=how, seed=chance.randrange(99))
        greedy.ranking(query, reduced(of(s.probabilities(s.pool)), how))
        return s.task

    return checked


def dropped(of: Callable[[Tensor], Tensor]) -> Check:
    """A score of T distributions with dropout, reduced over sites."""

    def checked(chance: Random, name: str) -> str:
        s = scene(chance, (*CLASSES, "multi-label", "sequence"), dropout=True)
        how, passes, seed = chance.choice(["mean", "sum", "max"]), chance.randint(2, 8), chance.randrange(99)
        found = drawn_dropout(name, s, count(chance, s), passes, reduction=how, seed=seed)
        if found is None:
            return "nothing dropped"
        greedy.ranking(found[0], reduced(of(found[1]), how))
        one_mask_for_all(s)
        return s.task

    return checked


def one_mask_for_all(s: Scene) -> None:
    """Each pass scales a feature by the same number for all examples (and tokens): 0 or 1 / (1 - rate)."""
    rate = s.plain[0][-1].p
    with torch.no_grad():
        clean = s.plain[0](s.pool)
    for each in s.net.tape.passes:
        if torch.equal(each.inputs, s.pool) and not torch.equal(each.hidden, clean):
            units, base = (
                x[:, 0] if s.task == "sequence" else x.flatten(0, -2) for x in (each.hidden, clean)
            )
            wanted = base * (units != 0).any(0) / (1 - rate)
            same = torch.allclose(units, wanted, rtol=1e-9, atol=1e-12)
            check(same, "dropout is not one mask for all examples")


def bald(q: Tensor) -> Tensor:
    return (entropy(q.mean(0)) - entropy(q).mean(0)).clamp(min=0)


def batch_bald(chance: Random, name: str) -> str:
    """The joint information of labels by enumeration."""
    s, passes = scene(chance, CLASSES, dropout=True), chance.randint(2, 6)
    found = drawn_dropout(name, s, count(chance, s, 3), passes, seed=0)
    if found is None:
        return "nothing dropped"
    query, q = found[0], found[1][:, :, 0]  # (T, n, c)

    def added(picks: list[int]) -> Tensor:
        joint = q.new_ones(passes, 1)
        for pick in picks:
            joint = (joint[:, :, None] * q[:, pick, None]).flatten(1)  # (T, combinations)
        before = entropy(joint.mean(0)[None])[0] - entropy(joint).mean()
        every = joint[:, None, :, None] * q[:, :, None]  # (T, n, combinations, c)
        every = every.flatten(2)
        return entropy(every.mean(0)) - entropy(every).mean(0) - before

    informative = [turn for turn in range(len(query)) if query.scores[turn] > 1e-9]
    part = list(query)[: len(informative)]
    greedy.stepwise(part, query.scores, added)
    return s.task


def egl(chance: Random, name: str) -> str:
    """Lengths of gradients by autograd, for every label."""
    s = scene(chance, CLASSES)
    p, h = s.probabilities(s.pool)[:, 0], s.features(s.pool)
    lengths = []
    for row, own in zip(h, p, strict=True):
        weight = torch.zeros(p.shape[1], h.shape[1], dtype=h.dtype, requires_grad=True)
        base = own.clamp(min=1e-300).log()
        total = 0.0
        for y in range(p.shape[1]):
            loss = F.cross_entropy((weight @ row + base)[None], torch.tensor([y]))
            (g,) = torch.autograd.grad(loss, weight)
            total += float(own[y] * g.norm())
        lengths.append(total)
    query, scores = ask(name, s, count(chance, s), seed=0), torch.tensor(lengths, dtype=torch.float64)
    greedy.stepwise(list(query), query.scores, lambda picks: scores, 1e-8 * float(h.norm(dim=1).max()))
    return s.task


def qbc(chance: Random, name: str) -> str:
    """Disagreement of given members."""
    s = scene(chance, ANY)
    thetas = [s.theta + 0.3 * torch.randn_like(s.theta) for _ in range(chance.randint(2, 4))]
    members = [definitions.plain_at(s, theta) for theta in thetas]
    query = ask(name, s, count(chance, s), members=members, seed=0)
    outputs = torch.stack([s.run(s.pool, theta)[1] for theta in thetas])
    if s.task == "regression":
        scores = (outputs - outputs.mean(0)).square().mean(0).flatten(1).mean(1)
    else:
        scores = bald(torch.stack([s.sites(each) for each in outputs])).mean(1)
    greedy.ranking(query, scores)
    return s.task


def coreset(chance: Random, name: str) -> str:
    s = scene(chance, ANY)
    query = ask(name, s, count(chance, s), labeled=s.labeled, seed=0)
    greedy.k_center(query, s.features(s.pool), s.features(s.known))
    return s.task


def herded(power: float | None, width: str) -> Check:
    """Kernel coverage of features, with and without a labeled set."""

    def checked(chance: Random, name: str) -> str:
        s = scene(chance, ANY)
        labeled = s.labeled if chance.random() < 0.7 else None
        query = ask(name, s, count(chance, s), labeled=labeled, seed=0)
        weights = torch.ones(len(s.pool), dtype=torch.float64)
        if power is not None and s.task != "regression":
            weights = doubt(s.probabilities(s.pool)).mean(1) ** power
        centers = None if labeled is None else s.features(s.known)
        greedy.herding(query, s.features(s.pool), weights, centers, width)
        return s.task

    return checked


def linear_herding(chance: Random, name: str) -> str:
    """Margin herding in which only the smallest margins can be picked."""
    s = scene(chance, SCORED)
    n, most = count(chance, s), chance.randint(3, 20)
    picker = jostle.selectors.Herding(width="median", candidates=1, min_candidates=most)
    query = ask(name, s, n, labeled=s.labeled, seed=0, selector=picker)
    weights = doubt(s.probabilities(s.pool)).mean(1) ** 2
    most = min(max(most, n), len(weights))
    if tied(weights, most):
        return "tie"
    able = weights >= weights.sort(descending=True).values[most - 1]
    greedy.herding(query, s.features(s.pool), weights, s.features(s.known), "median", able=able)
    return s.task


def output_space(s: Scene) -> Callable[[Tensor, Tensor], Tensor]:
    """What noise stability compares: probabilities, or features of a regression and of a segmentation."""
    if s.task in ("regression", "segmentation"):
        return lambda features, outputs: features
    if s.task in CLASSES:
        return lambda features, outputs: s.logits(outputs).softmax(1)
    return lambda features, outputs: (
        outputs.sigmoid() if s.task == "multi-label" else outputs.softmax(-1).flatten(1)
    )


def noise_stability(chance: Random, name: str) -> str:
    """Deviations under the perturbations that were seen, then farthest first, longest, or farthest directions."""
    s, k, scale = scene(chance, ANY), chance.randint(2, 6), chance.choice([1e-3, 1e-2])
    labeled = name == "noise-stability" and chance.random() < 0.4
    options = {"labeled": s.labeled, "initial_centers": "labeled"} if labeled else {}
    query = ask(name, s, count(chance, s), num_perturbations=k, noise_scale=scale, seed=3, **options)
    thetas, of = s.perturbed(k, scale), output_space(s)
    rows = s.deviations(s.pool, thetas, of, scale)
    if name == "noise-stability-relative":
        rows = rows / of(*s.run(s.pool)).norm(dim=1).clamp(min=1e-300)[:, None, None]
    rows = rows.flatten(1)
    slack = 1e-9 * float(rows.norm(dim=1).max())
    if name == "noise-stability-m":
        greedy.stepwise(list(query), query.scores, lambda picks: rows.norm(dim=1), slack)
    elif name == "noise-stability-d":
        x = greedy.unit(rows)

        def gaps(picks: list[int]) -> Tensor:
            return greedy.gaps(x, x[picks]) if picks else x[:, 0]  # the first is drawn

        greedy.stepwise(list(query), query.scores, gaps, 1e-5, start=1)
    else:
        centers = s.deviations(s.known, thetas, of, scale).flatten(1) if labeled else None
        greedy.k_center(query, rows, centers, slack)
    return s.task


def candidates(s: Scene, many: int) -> Tensor | None:
    """Places of the smallest margins, ascending; all of a regression; None where a tie decides."""
    if s.task == "regression":
        return torch.arange(len(s.pool))
    doubts = doubt(s.probabilities(s.pool)).mean(1)
    return None if tied(doubts, many) else doubts.sort(descending=True).indices[:many].sort().values


def relative_logits(s: Scene) -> Callable[[Tensor, Tensor], Tensor]:
    """Logits less their mean of classes; features of other tasks."""
    if s.task not in CLASSES:
        return lambda features, outputs: features
    return lambda features, outputs: s.logits(outputs) - s.logits(outputs).mean(1, keepdim=True)


def noise_herding(chance: Random, name: str) -> str:
    s, k = scene(chance, ANY), chance.randint(2, 5)
    n, each = count(chance, s, 5), chance.randint(1, 4)
    labeled = s.labeled if chance.random() < 0.7 else None
    query = ask(name, s, n, num_perturbations=k, candidates_per_pick=each, labeled=labeled, seed=1)
    kept, thetas, of = candidates(s, each * n), s.perturbed(k), relative_logits(s)
    if kept is None:
        return "tie"
    rows = s.deviations(s.pool[kept], thetas, of).flatten(1)
    centers = None if labeled is None else s.deviations(s.known, thetas, of).flatten(1)
    weights = torch.ones(len(kept), dtype=torch.float64)
    if s.task != "regression":
        weights = doubt(s.probabilities(s.pool[kept])).mean(1) ** 2
    greedy.herding(query, rows, weights, centers, "median", kept)
    return s.task


def flip_cover(chance: Random, name: str) -> str:
    s, k = scene(chance, (*CLASSES, "regression")), chance.randint(2, 5)
    n, each = count(chance, s, 5), chance.randint(2, 4)
    labeled = s.labeled if s.task == "regression" or chance.random() < 0.7 else None
    query = ask(name, s, n, num_perturbations=k, candidates_per_pick=each, labeled=labeled, seed=1)
    kept, thetas, of = candidates(s, each * n), s.perturbed(k), relative_logits(s)
    if kept is None:
        return "tie"
    moved = s.deviations(s.pool[kept], thetas, of)
    known = None if labeled is None else s.deviations(s.known, thetas, of)
    weights = torch.ones(len(kept), dtype=torch.float64)
    if s.task in CLASSES:
        logits = s.logits(s.outputs(s.known))
        step = None if known is None else definitions.bearable_step(logits, known, s.labels)
        weights = definitions.flip_chances(s.logits(s.outputs(s.pool[kept])), moved, step)
    noise = 1e-3 if s.task == "regression" else 0.05
    centers = None if known is None else known.flatten(1)
    greedy.explained_variance(query, moved.flatten(1), weights, centers, noise, kept)
    return s.task


def lcmd(chance: Random, name: str) -> str:
    s, k = scene(chance, (*CLASSES, "regression")), chance.randint(2, 6)
    query = ask(name, s, count(chance, s), sketch=k, labeled=s.labeled, seed=1)
    thetas = s.perturbed(k)

    def of(features: Tensor, outputs: Tensor) -> Tensor:
        return outputs if s.task == "regression" else outputs.amax(1, keepdim=True)

    rows, centers = (s.deviations(x, thetas, of).flatten(1) for x in (s.pool, s.known))
    greedy.lcmd(query, rows, centers, 1e-9 * float(rows.norm(dim=1).max()))
    return s.task


def prob_cover(chance: Random, name: str) -> str:
    s, delta = scene(chance, ANY), chance.uniform(0.1, 1.0)
    query = ask(name, s, count(chance, s), delta=delta, labeled=s.labeled, seed=0)
    greedy.cover(query, greedy.unit(s.features(s.pool)), greedy.unit(s.features(s.known)), delta)
    return s.task


def default(chance: Random, name: str) -> str:
    """The picks of the strategy that it stands for, which has an oracle of its own."""
    s = scene(chance, ANY)
    strategy = jostle.strategies.build("default")
    with strategy.context(s.net, s.pool, task=s.task, labeled=s.labeled, seed=2) as context:
        meant = strategy.resolve(context)
    check(meant.name in CHECKS, f"default is {meant.name}, which has no oracle")
    n = count(chance, s, 5)
    found = ask(name, s, n, labeled=s.labeled, seed=2)
    wanted = meant.select(s.net, s.pool, n, task=s.task, labeled=s.labeled, seed=2)
    check(list(found) == list(wanted), f"default picks {list(found)}, {meant.name} {list(wanted)}")
    return f"{s.task}, as {meant.name}"


CHECKS: dict[str, Check] = {
    "alfa-mix": clusters.alfa_mix,
    "badge": draws.badge,
    "bait": definitions.bait,
    "bait-binary": definitions.bait,
    "bald": dropped(bald),
    "batch-bald": batch_bald,
    "cal": recent.cal,
    "clue": recent.clue,
    "cluster-margin": clusters.cluster_margin,
    "core-gcn": trained.graph,
    "coreset": coreset,
    "default": default,
    "drop-query": clusters.drop_query,
    "egl": egl,
    "entropy": scored(entropy),
    "entropy-dropout": dropped(lambda q: entropy(q.mean(0))),
    "epig": recent.epig,
    "falcun": recent.falcun,
    "flip-cover": flip_cover,
    "gsx": recent.greedy_sampling,
    "igs": recent.greedy_sampling,
    "ldm-s": recent.ldm_s,
    "lcmd": lcmd,
    "least-confidence": scored(lambda p: 1 - p.amax(-1)),
    "linear-herding": linear_herding,
    "ll4al": trained.ll4al,
    "margin": scored(doubt),
    "margin-herding": herded(2.0, "median"),
    "max-herding": herded(None, "median"),
    "noise-herding": noise_herding,
    "noise-stability": noise_stability,
    "noise-stability-d": noise_stability,
    "noise-stability-m": noise_stability,
    "noise-stability-relative": noise_stability,
    "power-margin": draws.power_margin,
    "prob-cover": prob_cover,
    "qbc": qbc,
    "random": draws.random,
    "sraal": trained.autoencoder,
    "typiclust": clusters.typiclust,
    "uncertain-gcn": trained.graph,
    "uncertainty-herding": herded(1.0, "smallest"),
    "vaal": trained.autoencoder,
}
