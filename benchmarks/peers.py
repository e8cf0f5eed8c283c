"""`make bench-peers`: selection beside scikit-activeml, small-text, baal and bmdal_reg, on the same inputs.

One thread; repetitions take turns and the fastest counts, by the processor time of this process. Where two algorithms
are deterministic and the same, the share of equal picks is shown. A package that is not installed is skipped, and a
peer that takes more than 20 seconds runs once.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.measure import best_seconds
from benchmarks.selection import one_thread
from jostle.embeddings.uncertainty import small_margin
from jostle.rows.geometry import Outer, unit_length
from jostle.selectors import Herding, ProbCover, k_center, k_means_pp, lcmd, top_k
from jostle.selectors.clusters import Typical

LABELED, PICKS, CLASSES = 100, 100, 10
MAX_SECONDS = 20.0  # of a peer's first call; a slower one is not repeated

Pick = Callable[[], Any]  # () -> positions in the pool


class Case(NamedTuple):
    """One method: our selection and that of each peer."""

    method: str
    ours: Pick
    peers: dict[str, Pick]
    same: bool
    """Whether all pick the same where nothing is tied."""


class Line(NamedTuple):
    """Seconds of one method beside one peer, and the share of equal picks where that says something."""

    method: str
    peer: str
    ours: float
    theirs: float
    equal: float | None


@dataclass(frozen=True)
class Scene:
    """Features in clusters, with the probabilities of a linear model, as all packages get them."""

    size: int
    width: int = 128

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """Labeled examples first, then the pool, (m + n, d)."""
        draws = np.random.default_rng(0)
        centers = draws.normal(size=(50, self.width))
        which = draws.integers(50, size=LABELED + self.size)
        return (centers[which] + draws.normal(size=(LABELED + self.size, self.width))).astype(np.float32)

    @cached_property
    def targets(self) -> NDArray[np.float64]:
        """Classes of the labeled examples, NaN of the pool, (m + n,)."""
        known = np.arange(LABELED + self.size, dtype=np.float64) % CLASSES
        known[LABELED:] = np.nan
        return known

    @cached_property
    def classifier(self) -> Any:
        """A logistic regression on the labeled examples, as scikit-activeml wraps it."""
        from skactiveml.classifier import SklearnClassifier
        from sklearn.linear_model import LogisticRegression

        wrapped = SklearnClassifier(LogisticRegression(max_iter=200), classes=list(range(CLASSES)))
        return wrapped.fit(self.features[:LABELED], self.targets[:LABELED])

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """Of the pool, (n, c)."""
        found: NDArray[np.float64] = self.classifier.predict_proba(self.features[LABELED:])
        return found

    @cached_property
    def rows(self) -> Tensor:
        """Features of the pool, (n, d)."""
        return torch.from_numpy(self.features[LABELED:])

    @cached_property
    def centers(self) -> Tensor:
        """Features of the labeled examples, (m, d)."""
        return torch.from_numpy(self.features[:LABELED])


def cases(scene: Scene) -> Iterator[Case]:
    """Yield all methods of which a peer has one."""
    x, y = scene.features, scene.targets
    p = torch.from_numpy(scene.probabilities)
    unit = unit_length(scene.rows)
    delta = float(torch.cdist(unit[:500], unit).flatten().kthvalue(5 * scene.size).values)  # 1 % of all pairs
    gradients = Outer(p.float() - torch.nn.functional.one_hot(p.argmax(1), CLASSES), scene.rows)
    known = scene.centers
    yield Case(
        "margin",
        lambda: top_k(small_margin(p), PICKS, seed=0),
        {
            "scikit-activeml": partial(activeml_margin, scene),
            "small-text": partial(small_text_margin, scene),
            "baal": partial(baal_ranking, "Margin", scene.probabilities),
        },
        same=True,
    )
    yield Case(
        "coreset",
        lambda: k_center(scene.rows, PICKS, known, seed=0),
        {
            "scikit-activeml": partial(activeml, "CoreSet", x, y),
            "small-text": partial(small_text_coreset, scene),
            "bmdal_reg": partial(bmdal, "maxdist", scene.centers, scene.rows),
        },
        same=True,
    )
    yield Case(
        "badge",
        lambda: k_means_pp(gradients, PICKS, seed=0),
        {"scikit-activeml": partial(activeml, "Badge", x, y, clf=scene.classifier, fit_clf=False)},
        same=False,
    )
    yield Case(
        "typiclust",
        lambda: Typical().pick(scene.rows, PICKS, centers=known, seed=0),
        {"scikit-activeml": partial(activeml, "TypiClust", x, y)},
        same=False,
    )
    yield Case(
        "prob-cover",
        lambda: ProbCover(delta).pick(unit, PICKS, seed=0),
        {"scikit-activeml": partial(activeml_cover, unit.numpy(), delta)},
        same=False,  # most gains are tied
    )
    yield Case(
        "max-herding",
        lambda: Herding(1.0, targets=scene.size, candidates=scene.size).pick(
            scene.rows, PICKS, centers=known, seed=0
        ),
        {"scikit-activeml": partial(activeml, "MaxHerding", x, y, metric_dict={"gamma": 1.0})},
        same=True,
    )
    yield Case(
        "lcmd",
        lambda: lcmd(scene.rows, PICKS, known, seed=0),
        {"bmdal_reg": partial(bmdal, "lcmd", scene.centers, scene.rows)},
        same=True,
    )
    yield Case(
        "k-means++",
        lambda: k_means_pp(scene.rows, PICKS, known, seed=0),
        {"bmdal_reg": partial(bmdal, "kmeanspp", scene.centers, scene.rows)},
        same=False,
    )


def activeml(
    name: str, x: Any, y: Any, metric_dict: dict[str, float] | None = None, **call: Any
) -> NDArray[np.int64]:
    """Pick by a strategy of scikit-activeml."""
    from skactiveml import pool

    settings = {} if metric_dict is None else {"metric_dict": metric_dict}
    found = getattr(pool, name)(random_state=0, **settings).query(x, y, batch_size=PICKS, **call)
    return np.asarray(found) - LABELED


def activeml_cover(unit: Any, delta: float) -> NDArray[np.int64]:
    """Pick by scikit-activeml's ProbCover, with the same radius."""
    from skactiveml.pool import ProbCover as Peer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a single radius has no purity
        found = Peer(deltas=[delta], random_state=0).query(unit, np.full(len(unit), np.nan), batch_size=PICKS)
    return np.asarray(found)


def activeml_margin(scene: Scene) -> NDArray[np.int64]:
    """Pick the smallest margins as scikit-activeml does, given probabilities."""
    from skactiveml.pool import uncertainty_scores
    from skactiveml.utils import simple_batch

    scores = uncertainty_scores(scene.probabilities, method="margin_sampling")
    return np.asarray(simple_batch(scores, random_state=0, batch_size=PICKS))


def small_text_margin(scene: Scene) -> NDArray[np.int64]:
    """Pick the smallest margins as small-text does, given probabilities."""
    from small_text import BreakingTies

    class Known:
        """A classifier whose probabilities are known."""

        def predict_proba(self, dataset: Any) -> Any:
            """Return those of all examples."""
            return scene.probabilities

    everything = np.arange(scene.size)
    found = BreakingTies().query(Known(), scene.features[LABELED:], everything, everything[:0], [], PICKS)
    return np.asarray(found)


def small_text_coreset(scene: Scene) -> NDArray[np.int64]:
    """Pick by small-text's greedy k-center."""
    from small_text import greedy_coreset

    x = np.roll(scene.features, -LABELED, axis=0)  # its picks count the pool, so that has to come first
    pool, labeled = np.arange(scene.size), np.arange(scene.size, len(x))
    return np.asarray(greedy_coreset(x, pool, labeled, PICKS, distance_metric="euclidean"))


def baal_ranking(name: str, probabilities: Any) -> NDArray[np.int64]:
    """Pick by a heuristic of baal, which ranks the whole pool."""
    from baal.active import heuristics

    return np.asarray(getattr(heuristics, name)()(probabilities))[:PICKS]


def bmdal(method: str, centers: Tensor, rows: Tensor) -> NDArray[np.int64]:
    """Pick by bmdal_reg, on inputs as features, from the labeled examples."""
    vars(np).setdefault("Inf", np.inf)  # the package is written for NumPy 1
    from bmdal_reg.bmdal.algorithms import select_batch
    from bmdal_reg.bmdal.feature_data import TensorFeatureData

    data = {"train": TensorFeatureData(centers), "pool": TensorFeatureData(rows)}
    found, _ = select_batch(
        batch_size=PICKS,
        models=[torch.nn.Linear(rows.shape[1], 1)],
        data=data,
        y_train=torch.zeros(len(centers), 1),
        base_kernel="linear",
        kernel_transforms=[],
        selection_method=method,
        sel_with_train=True,
    )
    return np.asarray(found)


def measure(case: Case, repetitions: int, console: Console) -> Iterator[Line]:
    """Yield our seconds beside those of each peer that is there, all in turns."""
    picks = {"jostle": positions(case.ours())}
    works: dict[str, Pick] = {"jostle": case.ours}
    first = dict[str, float]()  # of peers that are too slow for repetitions
    for peer, pick in case.peers.items():
        start = time.process_time()
        try:
            picks[peer] = positions(pick())  # also warms up
        except ImportError as reason:
            console.print(f"{peer} is skipped: {reason}")
            continue
        if (taken := time.process_time() - start) < MAX_SECONDS:
            works[peer] = pick
        else:
            first[peer] = taken
    seconds = best_seconds(repetitions, clock=time.process_time, **works) | first
    for peer in seconds.keys() - {"jostle"}:
        equal = len(picks["jostle"] & picks[peer]) / PICKS if case.same else None
        yield Line(case.method, peer, seconds["jostle"], seconds[peer], equal)


def positions(found: Any) -> set[int]:
    """Return positions, however they come."""
    return set(np.asarray(getattr(found, "positions", found)).ravel().tolist())


def main() -> None:
    """Print and record every comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("methods", nargs="*", help="margin, coreset, ...; default: all")
    parser.add_argument("--size", type=int, default=10_000, help="examples in the pool; default: 10000")
    parser.add_argument("--repetitions", type=int, default=3, help="of each; the fastest counts; default: 3")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/peers.json"))
    arguments = parser.parse_args()
    console, lines = Console(), list[Line]()
    scene = Scene(arguments.size)
    with one_thread():
        for case in cases(scene):
            if case.method in (arguments.methods or [case.method]):
                lines += sorted(measure(case, arguments.repetitions, console))
                console.print(f"{case.method} done")
    table = Table("method", "peer", "jostle, s", "peer, s", "times as fast", "equal picks")
    for line in lines:
        equal = "" if line.equal is None else f"{line.equal:.0%}"
        ratio = f"{line.theirs / line.ours:.1f}"
        table.add_row(line.method, line.peer, f"{line.ours:.4f}", f"{line.theirs:.4f}", ratio, equal)
    console.print(table)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"size": scene.size, "width": scene.width, "picks": PICKS, "torch": torch.__version__}
    arguments.out.write_text(json.dumps(record | {"lines": [line._asdict() for line in lines]}, indent=1))


if __name__ == "__main__":
    main()
