"""The picture of the idea: a classifier's boundary under perturbations, and every example moving as its output does.

    python -m tools.picture docs/figures/jostle.svg

Nothing in it is drawn by hand: boundaries are those of the perturbed network, an example swings as far as its row is
long, and the ringed ones are what noise stability picks.
"""

import sys
from pathlib import Path

import contourpy
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.func import functional_call

import jostle
from jostle.utils.files import write_whole

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, LOW, HIGH = -1.9, 2.9, -0.95, 1.45  # what the picture shows of the plane
BLUE, VERMILION, GREY = "#3d8fd9", "#e0561a", "#8a929c"  # seen on white and on black
LABELED, POOL, PICKS, BOUNDARIES = 12, 150, 8, 14
SWING = 11.0  # pixels that the example with the longest row moves
SHAKE = 0.3  # of the perturbations whose boundaries are shown; the rows are those of the default scale


def trained(x: Tensor, y: Tensor) -> nn.Module:
    """A small network that has learned a few labels."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    with torch.no_grad():
        next(model.parameters()).mul_(4)  # so that the boundary may bend
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(400):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()


def perturbed(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """The weights after one perturbation of the size that is shown."""
    rng = torch.Generator().manual_seed(seed)
    weights = {name: p.detach() for name, p in model.named_parameters()}
    noise = {name: torch.randn(w.shape, generator=rng) for name, w in weights.items()}
    lengths = [sum(float(t.square().sum()) for t in part.values()) ** 0.5 for part in (weights, noise)]
    return {name: w + SHAKE * lengths[0] / lengths[1] * noise[name] for name, w in weights.items()}


def boundary(model: nn.Module, weights: dict[str, Tensor]) -> str:
    """The line along which both classes are as likely, as a path in pixels."""
    across, down = np.meshgrid(np.linspace(LEFT, RIGHT, 60), np.linspace(LOW, HIGH, 30))
    plane = torch.tensor(np.stack([across, down], -1), dtype=torch.float32).reshape(-1, 2)
    with torch.no_grad():
        logits = functional_call(model, weights, plane)
    margin = (logits[:, 1] - logits[:, 0]).reshape(across.shape).numpy()
    lines = contourpy.contour_generator(across, down, margin).lines(0.0)
    return " ".join(
        "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in pixels(np.asarray(line))) for line in lines
    )


def pixels(points: NDArray[np.floating]) -> NDArray[np.floating]:
    """Places of the plane as places of the picture."""
    return (points - [LEFT, HIGH]) * [WIDTH / (RIGHT - LEFT), HEIGHT / (LOW - HIGH)]


def picture() -> str:
    """The whole picture as SVG."""
    inputs, targets = make_moons(LABELED + POOL, noise=0.16, random_state=1)
    x, y = torch.tensor(inputs, dtype=torch.float32), torch.tensor(targets)
    model, pool = trained(x[:LABELED], y[:LABELED]), x[LABELED:]
    lengths = jostle.deviations(model, pool, seed=0).norm(dim=1)
    swings = (SWING * lengths / lengths.max()).tolist()
    picked = set(jostle.NoiseStability().select(model, pool, n=PICKS, seed=0).indices.tolist())
    lines = [boundary(model, perturbed(model, seed)) for seed in range(BOUNDARIES)]
    examples = [
        example(place, swing, number, number in picked)
        for number, (place, swing) in enumerate(zip(pixels(pool.numpy()), swings, strict=True))
    ]
    known = [square(place, int(label)) for place, label in zip(pixels(x[:LABELED].numpy()), y, strict=False)]
    return "\n".join([HEAD, *(curve(path, k) for k, path in enumerate(lines)), *known, *examples, "</svg>\n"])


def curve(path: str, order: int) -> str:
    """One boundary, which shows up in its turn."""
    return f'<path class="edge" style="animation-delay:{order * 0.5 - 9:.1f}s" d="{path}"/>'


def example(place: NDArray[np.floating], swing: float, number: int, picked: bool) -> str:
    """An unlabeled example, swinging in a direction of its own; a ring around it if it is picked."""
    turn = number * 2.399963  # radians; a golden angle never repeats
    move = f"--x:{swing * np.cos(turn):.1f}px;--y:{swing * np.sin(turn):.1f}px"
    late = f"animation-delay:-{number % 17 * 0.13:.2f}s"
    ring = '<circle class="ring" r="9"/>' if picked else ""
    kind = "picked" if picked else "example"
    return (
        f'<g transform="translate({place[0]:.1f} {place[1]:.1f})"><g class="{kind}" style="{move};{late}">'
        f'<circle r="3.6"/>{ring}</g></g>'
    )


def square(place: NDArray[np.floating], label: int) -> str:
    """A labeled example, which stays where it is."""
    filled = "known" if label else "known hollow"
    return f'<rect class="{filled}" x="{place[0] - 4.5:.1f}" y="{place[1] - 4.5:.1f}" width="9" height="9"/>'


HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">
<title>A classifier's boundary under small perturbations of its weights; the examples that move most are picked</title>
<style>
.edge {{ fill: none; stroke: {BLUE}; stroke-width: 1.4; opacity: .3; animation: show 7s linear infinite }}
.known {{ fill: {BLUE}; stroke: {BLUE}; stroke-width: 1.6 }}
.hollow {{ fill: none }}
.example {{ fill: {GREY}; opacity: .75 }}
.picked {{ fill: {VERMILION} }}
.ring {{ fill: none; stroke: {VERMILION}; stroke-width: 1.6 }}
.example, .picked {{ animation: swing 2.2s ease-in-out infinite }}
@keyframes show {{ 0%, 14%, 100% {{ opacity: .24 }} 7% {{ opacity: .95 }} }}
@keyframes swing {{
  0%, 100% {{ transform: none }}
  25% {{ transform: translate(var(--x), var(--y)) }}
  75% {{ transform: translate(calc(-1 * var(--x)), calc(-1 * var(--y))) }}
}}
@media (prefers-reduced-motion: reduce) {{ .edge, .example, .picked {{ animation: none }} }}
</style>"""


if __name__ == "__main__":
    write_whole(Path(sys.argv[1]), picture())
