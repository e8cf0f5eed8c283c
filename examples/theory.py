"""Two claims about noise stability, as figures and tables: what K buys, and what zeta costs.

    python examples/theory.py                       # scikit-learn's digits, half a minute
    python examples/theory.py --dataset mnist       # the paper's own network, some minutes

concentration.png  squared row lengths close in on the squared gradient as 1/sqrt(K)
zeta.png           small perturbations are right in exact arithmetic and drown in float32's rounding
"""

import argparse
import copy
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap

import jostle
from jostle import datasets, models
from jostle.experiments.page import blank, png, styled

BLUE, RED, GREY = "#0f6fc6", "#d1480a", "#868d96"
NETWORKS = {"digits": "digits-cnn", "mnist": "mnist-cnn"}


@dataclass(frozen=True)
class Scale:
    """How much is computed."""

    epochs: int = 50
    labels: int = 100
    pool: int = 600
    picks: int = 50
    perturbations: int = 30  # for zeta, the paper's K
    draws: int = 2048  # for concentration: so many perturbations, grouped by K
    examples: int = 40  # for concentration
    zetas: tuple[float, ...] = tuple(10.0**power for power in range(-8, 2))


QUICK = Scale(
    epochs=2, labels=40, pool=40, picks=5, perturbations=3, draws=32, examples=4, zetas=(1e-6, 1e-3, 1.0)
)


def trained(dataset, scale, seed=0):
    """A network trained on a few labels, as in an early cycle, and inputs it has not seen."""
    data = datasets.load(dataset)
    rng = torch.Generator().manual_seed(seed)
    labeled, pool = torch.randperm(len(data.train), generator=rng).split(
        [scale.labels, len(data.train) - scale.labels]
    )
    model = models.build(NETWORKS[dataset], seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(scale.epochs):
        for batch in labeled[torch.randperm(scale.labels, generator=rng)].split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data.train.inputs[batch]), data.train.targets[batch]).backward()
            optimizer.step()
    return model.eval(), data.train.inputs[pool[: scale.pool]]


def ticks(axis, values, words):
    """Ticks at these values only, in plain words."""
    axis.set_ticks(list(values), [words(value) for value in values])
    axis.set_ticks([], minor=True)


def power_of_ten(value):
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


# What K buys


def confidence(logits):
    """A scalar output, so that the theory has one number for all examples: the largest probability."""
    return logits.softmax(1).amax(1, keepdim=True)  # (n, 1)


def squared_gradients(model, pool):
    """||grad f||^2 of every example by autograd."""
    theta = {name: p.detach() for name, p in model.named_parameters()}
    gradients = vmap(
        jacrev(lambda theta, x: confidence(functional_call(model, theta, x[None]))[0]), (None, 0)
    )
    return sum(g.flatten(1).square().sum(1) for g in gradients(theta, pool).values())  # (n,)


def concentration(model, pool, scale):
    """For every K the ratios of estimated to true squared gradients, (n, groups), and what theory says of them."""
    model, pool = copy.deepcopy(model).double(), pool[: scale.examples].double()
    rows = jostle.deviations(
        model, pool, num_perturbations=scale.draws, noise_scale=1e-6, space=confidence, seed=0
    )  # (n, draws)
    ratios = rows.square() * scale.draws / squared_gradients(model, pool)[:, None]
    P = sum(p.numel() for p in model.parameters())
    found = []
    for K in (2**power for power in range(int(math.log2(scale.draws)) - 2)):
        grouped = ratios.view(len(pool), -1, K).mean(2)  # (n, draws / K)
        found.append((K, grouped, math.sqrt(2 * (P - 1) / ((P + 2) * K))))
    return found


@styled
def draw_concentration(found):
    """Ratios narrowing around 1, and their error beside the theory's line."""
    figure = blank(8.4, 3.3)
    left, right = figure.subplots(1, 2)
    counts = [K for K, _, _ in found]
    theory = np.array([error for _, _, error in found])
    for low, high, alpha in ((0.05, 0.95, 0.18), (0.25, 0.75, 0.3)):
        band = [(float(r.quantile(low)), float(r.quantile(high))) for _, r, _ in found]
        label = f"{round(100 * (high - low))} % of estimates"
        left.fill_between(counts, *np.transpose(band), color=BLUE, alpha=alpha, lw=0, label=label)
    left.plot(counts, 1 + theory, color=RED, lw=1.2, label="1 ± theory's standard deviation")
    left.plot(counts, 1 - theory, color=RED, lw=1.2)
    left.axhline(1, color=GREY, lw=0.8)
    left.set(
        xscale="log", xlabel="K, number of perturbations", ylabel="squared row length / squared gradient"
    )
    left.set(ylim=(0, 4))
    measured = [float((r - 1).square().mean().sqrt()) for _, r, _ in found]
    right.plot(counts, theory, color=RED, lw=1.2, label="theory: √(2(P−1) / ((P+2)K))")
    right.plot(counts, measured, "o", color=BLUE, ms=5, label="measured")
    right.axvline(30, color=GREY, lw=0.8, ls=":")
    right.text(34, theory[0], "K = 30,\nthe paper's", color=GREY, va="top", fontsize=8.5)
    right.set(xscale="log", yscale="log", xlabel="K, number of perturbations", ylabel="relative error (rms)")
    ticks(right.yaxis, (0.1, 0.2, 0.5, 1), "{:g}".format)
    for axes in (left, right):
        ticks(axes.xaxis, counts[::2], "{:d}".format)
        axes.grid()
        axes.legend(frameon=False, fontsize=8.5, loc="upper right" if axes is left else "lower left")
    figure.tight_layout()
    return figure


# What zeta costs


@dataclass(frozen=True)
class Effect:
    """One zeta in one precision, against the exact derivative under the same perturbations."""

    zeta: float
    row_error: float  # median over examples of ||row - exact|| / ||exact||
    overlap: float  # fraction of k-center's picks that the exact derivative's rows give too


def effects(model, pool, scale, dtype):
    """Rows and picks at every zeta, compared with those of the exact derivative."""
    model, pool = copy.deepcopy(model).to(dtype), pool.to(dtype)
    exact = jostle.deviations(model, pool, num_perturbations=scale.perturbations, estimator="jvp", seed=0)
    wanted = set(jostle.k_center(exact, scale.picks).tolist())
    for zeta in scale.zetas:
        rows = jostle.deviations(model, pool, num_perturbations=scale.perturbations, noise_scale=zeta, seed=0)
        errors = (rows - exact).norm(dim=1) / exact.norm(dim=1)
        picks = set(jostle.k_center(rows, scale.picks).tolist())
        yield Effect(zeta, float(errors.median()), len(picks & wanted) / scale.picks)


def woken(model, pool, scale):
    """For every zeta the fraction of resting ReLUs that a perturbation switches on, in float64."""
    model, pool = copy.deepcopy(model).double(), pool[:200].double()
    seen = []
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].flatten(1) > 0))
    theta = {name: p.detach() for name, p in model.named_parameters()}
    length = math.sqrt(sum(float(p.square().sum()) for p in theta.values()))
    direction = {name: torch.randn(p.shape, dtype=p.dtype) for name, p in theta.items()}
    unit = math.sqrt(sum(float(d.square().sum()) for d in direction.values()))

    @torch.no_grad()
    def active(zeta):
        seen.clear()
        perturbed = {name: p + zeta * length / unit * direction[name] for name, p in theta.items()}
        functional_call(model, perturbed, pool)
        return torch.cat(seen, 1)

    resting = ~active(0.0)
    return [float(active(zeta)[resting].double().mean()) for zeta in scale.zetas]


@styled
def draw_zeta(by_precision, awake):
    """Row error, agreement of picks and woken ReLUs over zeta."""
    figure = blank(10.2, 3.3)
    panels = figure.subplots(1, 3)
    for (name, found), color, marker in zip(by_precision.items(), (RED, BLUE), "os", strict=True):
        zetas = [effect.zeta for effect in found]
        panels[0].plot(zetas, [e.row_error for e in found], marker=marker, ms=4, color=color, label=name)
        panels[1].plot(zetas, [100 * e.overlap for e in found], marker=marker, ms=4, color=color, label=name)
    panels[2].plot(zetas, [100 * fraction for fraction in awake], marker="D", ms=4, color=GREY)
    titles = (
        "error of a row, relative (median)",
        "picks shared with the exact derivative, %",
        "resting ReLUs that wake up, %",
    )
    for axes, title in zip(panels, titles, strict=True):
        axes.axvspan(1e-4, 1e-2, color=GREY, alpha=0.16, lw=0)
        axes.set(xscale="log", xlabel="ζ, size of the perturbation relative to the weights")
        ticks(axes.xaxis, [10.0**power for power in range(-8, 2, 3)], power_of_ten)
        axes.set_title(title, fontsize=9.5, loc="left")
        axes.grid()
    panels[0].set(yscale="log")
    ticks(panels[0].yaxis, [10.0**power for power in range(-8, 2, 2)], power_of_ten)
    panels[1].set(ylim=(-3, 103))
    panels[0].legend(frameon=False, loc="lower right")
    panels[1].text(1e-3, 3, "good in\nthe paper", ha="center", fontsize=8.5)
    figure.tight_layout()
    return figure


def report(found, by_precision, awake):
    """The same numbers as text."""
    yield "     K   error   theory"
    for K, ratios, theory in found:
        yield f"{K:6d}  {float((ratios - 1).square().mean().sqrt()):6.3f}   {theory:6.3f}"
    yield ""
    yield "   zeta   row error float32  float64   shared picks float32  float64   woken ReLUs"
    for single, double, fraction in zip(*by_precision.values(), awake, strict=True):
        yield (
            f"{single.zeta:7.0e} {single.row_error:19.1e} {double.row_error:8.1e}"
            f" {single.overlap:22.0%} {double.overlap:8.0%} {fraction:13.3%}"
        )


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("theory"), help="folder for the figures")
    parser.add_argument("--dataset", choices=NETWORKS, default="digits", help="what the network learns")
    parser.add_argument("--quick", action="store_true", help="seconds instead of half a minute, for a test")
    options = parser.parse_args(arguments)
    scale = QUICK if options.quick else Scale()
    torch.manual_seed(0)
    model, pool = trained(options.dataset, scale)
    found = concentration(model, pool, scale)
    precisions = {"float32": torch.float32, "float64": torch.float64}
    by_precision = {name: list(effects(model, pool, scale, dtype)) for name, dtype in precisions.items()}
    awake = woken(model, pool, scale)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "concentration.png").write_bytes(png(draw_concentration(found)))
    (options.out / "zeta.png").write_bytes(png(draw_zeta(by_precision, awake)))
    print(*report(found, by_precision, awake), sep="\n")
    print(f"\nfigures in {options.out}/")


if __name__ == "__main__":
    main()
