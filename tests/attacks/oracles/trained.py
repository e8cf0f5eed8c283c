"""Strategies with a trained network of their own: what can be checked without training it again."""

from __future__ import annotations

import copy
from random import Random

import torch
from torch import Tensor, nn

import jostle
from attacks.driver import check
from attacks.oracles import greedy
from attacks.oracles.asking import ask, count
from attacks.oracles.scene import ANY, CLASSES, Scene, scene
from jostle.strategies.adversarial import uncertainty


def graph(chance: Random, name: str) -> str:
    """Both layers solve for some weights on the dense matrix of the graph, and the picks follow."""
    s = scene(chance, ANY)
    strategy = jostle.strategies.build(name, width=4, epochs=chance.randint(1, 40))
    n = count(chance, s)
    options = {"labeled": s.labeled, "task": s.task, "seed": 3, "progress": False}
    with strategy.context(s.net, s.pool, **options) as context:
        hidden, scores = strategy.fitted(context)
    x = torch.nn.functional.normalize(s.features(torch.cat([s.pool, s.known])))
    near = x @ x.T - torch.eye(len(x), dtype=x.dtype)
    sums = near.sum(0)
    sums = torch.where(sums.abs() < 1e-6, torch.where(sums < 0, -1e-6, 1e-6).to(sums), sums)
    if sums.abs().min() < 1e-3:
        return "columns that nearly vanish"
    matrix = near / sums[None] + torch.eye(len(x), dtype=x.dtype)
    solves(matrix @ hidden, scores[:, 0], "the second layer")
    for unit in hidden.T:
        alive = unit > 0
        if int(alive.sum()) > x.shape[1] + 3:
            solves((matrix @ x)[alive], unit[alive], "the first layer")
    query = strategy.select(s.net, s.pool, n, **options)
    size = len(s.pool)
    if name == "core-gcn":
        rows = torch.cat([hidden, scores], 1)
        greedy.k_center(query, rows[:size], rows[size:], 1e-9)
    else:
        greedy.ranking(query, -(scores[:size, 0].sigmoid() - 0.1).abs())
    return s.task


def solves(inputs: Tensor, outputs: Tensor, what: str) -> None:
    """Check that outputs are an affine function of the inputs."""
    wide = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=inputs.dtype)], 1)
    if len(wide) <= wide.shape[1]:
        return
    found = torch.linalg.lstsq(wide, outputs[:, None], driver="gelsd").solution
    rest = float((wide @ found - outputs[:, None]).abs().max())
    check(rest <= 1e-6 * (float(outputs.abs().max()) + 1e-3), f"{what} is off by {rest}")


def ll4al(chance: Random, name: str) -> str:
    """The predicted loss is that of the predictor on the layers, read by hooks of our own."""
    s = scene(chance, (*CLASSES, "regression", "multi-label"))
    strategy = jostle.strategies.build("ll4al", hidden=5)
    joined = strategy.join(s.net, s.pool[:2], seed=chance.randrange(99))
    query = strategy.select(joined.model, s.pool, count(chance, s), task=s.task, seed=0)
    copied = copy.deepcopy(joined.model)
    seen: dict[str, Tensor] = {}
    for layer in copied.layers:

        def keep(module: nn.Module, args: object, out: Tensor, layer: str = layer) -> None:
            seen[layer] = out.detach().flatten(2).mean(2) if out.ndim > 2 else out.detach().clone()

        copied.model.get_submodule(layer).register_forward_hook(keep)
    with torch.no_grad():
        copied.model(s.pool)
        pairs = zip(copied.layers, copied.predictor.branches, strict=True)
        hidden = [(seen[layer] @ each[0].weight.T + each[0].bias).clamp(min=0) for layer, each in pairs]
        scores = torch.cat(hidden, 1) @ copied.predictor.last.weight[0] + copied.predictor.last.bias
    greedy.ranking(query, scores)
    return s.task


def autoencoder(chance: Random, name: str) -> str:
    """Picks are the largest scores, and a seed repeats them."""
    s = scene(chance, ["classification"], images=True)
    settings = {"steps": 1, "batch": 4, "latent": 4, "encoder": "light"}
    options = {"labeled": s.labeled, "seed": chance.randrange(99)}
    strategy = jostle.strategies.build(name, **settings)
    scores = strategy.embed(s.net, s.pool, task=s.task, **options)
    assert isinstance(scores, Tensor)
    check(bool((scores >= 0).all()), "a score below 0")
    query = ask(name, s, count(chance, s), **settings, **options)
    greedy.stepwise(list(query), query.scores, lambda picks: scores.double().flatten(), 1e-4)
    if name == "sraal":
        least_variance(s)
    return s.task


def least_variance(s: Scene) -> None:
    """The uncertainty is 1 - m MINVar / Var, MINVar being smaller than the variance of any other distribution."""
    p = s.probabilities(s.pool)[:, 0]
    found = uncertainty(p)
    for own, value in zip(p, found, strict=True):
        c, m = len(own), float(own.max())
        others = torch.full((c,), (1 - m) / (c - 1), dtype=own.dtype)
        others[0] = m
        least, variance = (float(((each - 1 / c) ** 2).mean()) for each in (others, own))
        drawn = torch.rand(50, c - 1, dtype=own.dtype)
        drawn = drawn / drawn.sum(1, keepdim=True) * (1 - m)
        rest = torch.cat([torch.full((50, 1), m, dtype=own.dtype), drawn], 1)
        check(float(((rest - 1 / c) ** 2).mean(1).min()) >= least - 1e-12, "a smaller variance exists")
        wanted = 1.0 if variance < 1e-12 else 1 - m * least / variance
        check(abs(wanted - float(value)) < 1e-6, f"uncertainty {float(value)}, by definition {wanted}")
