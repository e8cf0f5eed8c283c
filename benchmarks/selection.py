"""k-center, k-means++ and CoreSet's selection against plain loops and scikit-activeml, on rows of trained networks."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.nn import functional as F

import jostle
from benchmarks.measure import Figure, best_seconds, figure, in_fresh_process, peak_bytes, status
from jostle.embeddings.uncertainty import small_margin
from jostle.rows.geometry import Outer
from jostle.selectors import k_center, k_means_pp, max_herding


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for all alike, so that what else runs on the machine weighs less."""
    threads = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def loop_k_center(rows: Tensor, n: int) -> Tensor:
    """The plain algorithm from the origin: one matrix-vector product over all rows for every pick."""
    lengths = rows.square().sum(1)
    gaps, picks = lengths.clone(), []
    for _ in range(n):
        pick = gaps.argmax()
        picks.append(pick)
        gaps = torch.minimum(gaps, lengths - 2 * (rows @ rows[pick]) + lengths[pick])
        gaps[pick] = -1
    return torch.stack(picks)


def activeml_k_center(rows: Tensor, n: int, centers: Tensor) -> Any:
    """scikit-activeml's greedy k-center; the centers go in as labeled rows."""
    from skactiveml.pool import k_greedy_center

    labels = np.concatenate([np.zeros(len(centers)), np.full(len(rows), np.nan)])
    return k_greedy_center(torch.cat([centers, rows]).numpy(), labels, batch_size=n, random_state=0)[0] - len(
        centers
    )


def loop_k_means_pp(rows: Tensor, n: int) -> Tensor:
    """k-means++ on explicit rows, likewise."""
    rng = torch.Generator().manual_seed(0)
    lengths = rows.square().sum(1)
    gaps, picks = torch.full_like(lengths, torch.inf), [lengths.argmax()]
    while len(picks) < n:
        gaps = torch.minimum(gaps, lengths - 2 * (rows @ rows[picks[-1]]) + lengths[picks[-1]]).clamp_(min=0)
        picks.append(torch.multinomial(gaps, 1, generator=rng)[0])
    return torch.stack(picks)


def digits(n: int) -> Tensor:
    """n images (n, 64): scikit-learn's digits, shifted and with noise where there are not enough."""
    rng = torch.Generator().manual_seed(0)
    images = torch.tensor(load_digits().images, dtype=torch.float32) / 16
    which = torch.arange(n) % len(images)
    shifts = torch.randint(-1, 2, (n, 2), generator=rng) * (torch.arange(n) >= len(images))[:, None]
    across = (torch.arange(8)[None] - shifts[:, :1]).remainder(8)
    down = (torch.arange(8)[None] - shifts[:, 1:]).remainder(8)
    moved = images[which[:, None, None], across[:, :, None], down[:, None, :]]
    return (moved + 0.1 * torch.randn(moved.shape, generator=rng)).flatten(1)


@cache
def trained_network(width: int = 512) -> nn.Sequential:
    """A small network that has seen two hundred digits."""
    images, labels = digits(200), torch.tensor(load_digits().target[:200])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 10)
        )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return model.eval()


@cache
def deviation_rows(n: int) -> Tensor:
    """Noise-stability rows of that network, (n, 300)."""
    return jostle.deviations(
        trained_network(), digits(n), num_perturbations=30, noise_scale=1e-3, seed=0, progress=False
    )


@one_thread()
def k_center_ratios() -> list[Figure]:
    """Greedy k-center against the plain loop and against scikit-activeml, on the same rows."""
    trained = "a trained network's rows {:,} x 300"
    gaussian = torch.randn(10_000, 300, generator=torch.Generator().manual_seed(0))
    return [
        _against_the_loop(trained.format(10_000), deviation_rows(10_000), 1000, 7),
        _against_the_loop("isotropic Gaussian rows 10,000 x 300", gaussian, 1000, 7, at_least=1 / 1.2),
        _against_activeml(f"k-center, {trained.format(10_000)}", deviation_rows(10_000), 1000, 2),
        _against_the_loop(trained.format(50_000), deviation_rows(50_000), 2500, 3),
    ]


def _against_the_loop(what: str, rows: Tensor, n: int, repetitions: int, at_least: float = 4) -> Figure:
    loop_k_center(rows, 2), k_center(rows, 2)  # warm up
    seconds = best_seconds(repetitions, ours=lambda: k_center(rows, n), loop=lambda: loop_k_center(rows, n))
    ratio = seconds["loop"] / seconds["ours"]
    return figure(f"k-center, {what}, {n:,} picks", ratio, "float32 matrix-vector loop", at_least=at_least)


def _against_activeml(
    what: str, rows: Tensor, n: int, repetitions: int, centers: Tensor | None = None
) -> Figure:
    picks: dict[str, Any] = {}

    def ours() -> None:
        picks["ours"] = k_center(rows, n, centers).numpy()

    def theirs() -> None:
        picks["theirs"] = activeml_k_center(
            rows, n, torch.zeros(1, rows.shape[1]) if centers is None else centers
        )

    seconds = best_seconds(repetitions, ours=ours, theirs=theirs)
    agreement = np.mean(picks["ours"] == picks["theirs"])
    assert agreement > 0.9, f"picks agree with scikit-activeml on {agreement:.0%} only"
    ratio = seconds["theirs"] / seconds["ours"]
    return figure(f"{what}, {n:,} picks", ratio, "scikit-activeml k_greedy_center", at_least=20)


@one_thread()
def coreset_ratios() -> list[Figure]:
    """CoreSet's selection on features, from labeled centers, against scikit-activeml."""
    labeled = 1000
    with torch.no_grad():
        features = trained_network()[:-1](digits(10_000 + labeled))
    what = f"CoreSet, features 10,000 x 512, {labeled:,} labeled"
    return [_against_activeml(what, features[labeled:], 1000, 2, features[:labeled])]


def badge_factors(n: int, classes: int = 100, width: int = 512) -> Outer:
    """Factors of BADGE's gradients for a linear classifier that knows most of its examples."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (n,), generator=rng)
    means = 0.35 * torch.randn(classes, width, generator=rng)
    features = torch.randn(n, width, generator=rng).add_(means[labels]).relu_()
    known = min(n, 5000)
    wanted = 35 * F.one_hot(labels[:known], classes).float()
    probabilities = (features @ torch.linalg.lstsq(features[:known], wanted).solution).softmax(1)
    return Outer(probabilities - F.one_hot(probabilities.argmax(1), classes), features)


@one_thread()
def badge_ratios() -> list[Figure]:
    """BADGE on the paper's largest case: time per pick, and peak memory beside the inputs."""
    n, picks, plain_picks = 25_000, 5000, 20
    rows = badge_factors(n)
    tenth = rows[: n // 10].dense()
    seconds = best_seconds(
        2, ours=lambda: k_means_pp(rows, picks, seed=0), plain=lambda: loop_k_means_pp(tenth, plain_picks)
    )
    per_pick = (seconds["ours"] / picks) / (seconds["plain"] / plain_picks)
    what = f"BADGE, {n:,} x (100 classes x 512), {picks:,} picks"
    extra = json.loads(in_fresh_process("benchmarks.selection", str(n), str(picks)))
    return [
        figure(
            f"{what}: time per pick", per_pick, f"k-means++ on {len(tenth):,} explicit gradients", at_most=0.1
        ),
        figure(f"{what}: peak memory beside inputs", extra / 1e9, "1 GB", at_most=1),
    ]


def herding_ratios() -> list[Figure]:
    """Herding's selection beside BADGE's, on the same features."""
    n, d, picks = 100_000, 512, 100
    rng = torch.Generator().manual_seed(0)
    features, known = (torch.randn(count, d, generator=rng).relu() for count in (n, 200))
    predicted = (2 * torch.randn(n, 10, generator=rng)).softmax(1)
    gradients = Outer(predicted - F.one_hot(predicted.argmax(1), 10), features)
    weights = small_margin(predicted) ** 2
    with one_thread():
        seconds = best_seconds(
            3,
            ours=lambda: max_herding.pick(features, picks, centers=known, weights=weights, seed=0),
            badge=lambda: k_means_pp(gradients, picks, seed=0),
        )
    what = f"herding, {n:,} x {d}, {picks} picks"
    return [figure(what, seconds["ours"] / seconds["badge"], "BADGE's selection", at_most=3)]


def measure_memory(n: int, picks: int) -> int:
    """Bytes at the peak beside the inputs and what the libraries take; making the inputs counts, too."""
    k_means_pp(badge_factors(100), 10, seed=0)
    before = status("VmRSS")
    rows = badge_factors(n)
    k_means_pp(rows, picks, seed=0)
    return peak_bytes() - before - rows.left.nbytes - rows.right.nbytes


if __name__ == "__main__":  # in a process of its own
    print(measure_memory(int(sys.argv[1]), int(sys.argv[2])))
