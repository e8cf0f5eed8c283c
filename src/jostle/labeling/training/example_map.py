"""Map of all examples: two numbers for each, so that similar examples lie side by side.

The embeddings are reduced by PCA, whose first two columns are the first map. Then a neighbor embedding moves every
example towards its nearest neighbors and away from random others (the loss of UMAP, with equal weights). The background
process computes both in small steps; the server only reads the file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, update

from jostle.labeling.sources.contents import Content
from jostle.labeling.store.schema import examples, lookups
from jostle.utils.files import replacing

if TYPE_CHECKING:
    from jostle.labeling.session import Session

Rows = NDArray[np.float32]  # (n, d)
Stage = Literal["pca", "neighbors"]

MAP_FILE = "map.npz"
ARRAYS = ("reduced", "positions", "mean", "components")  # of the file
MAX_FITTED = 8_000  # rows that PCA is fitted on
CELLS_SEARCHED = 4  # cells in which neighbors are looked for
EPOCHS = 30  # passes over all pairs of neighbors
MAX_STEP = 4.0  # the furthest that one pair moves an example


@dataclass(frozen=True, eq=False)
class ExampleMap:
    """Positions of examples, and their embeddings with few columns."""

    keys: Sequence[str]  # (n,)
    reduced: Rows  # (n, r), by PCA
    positions: Rows  # (n, 2)
    stage: Stage
    mean: Rows  # (d,) of the embeddings
    components: Rows  # (r, d)

    @cached_property
    def places(self) -> dict[str, int]:
        """Place of each key."""
        return {key: place for place, key in enumerate(self.keys)}

    def nearest(self, row: Rows, n: int) -> NDArray[np.int64]:
        """Return the places of the n examples that are most similar to a reduced row, the nearest first."""
        gaps = ((self.reduced - row) ** 2).sum(1)
        n = min(n, len(gaps))
        found = np.argpartition(gaps, n - 1)[:n]
        return found[np.lexsort((found, gaps[found]))]

    def reduce(self, rows: Rows) -> Rows:
        """Reduce other embeddings (m, d) as those of the map were."""
        return ((rows - self.mean) @ self.components.T).astype(np.float32)

    def save(self, folder: Path) -> None:
        """Write the file at once."""
        keys = np.frombuffer(b"".join(bytes.fromhex(key) for key in self.keys), dtype="V16")
        arrays = {name: getattr(self, name) for name in ARRAYS}
        with replacing(folder / MAP_FILE) as file:
            np.savez(file, keys=keys, stage=np.array(self.stage), **arrays)

    @classmethod
    def load(cls, folder: Path) -> ExampleMap | None:
        """Read the file; None where there is none."""
        path = folder / MAP_FILE
        if not path.exists():
            return None
        with np.load(path) as held:
            keys = [key.tobytes().hex() for key in held["keys"]]
            stage: Any = str(held["stage"])
            return cls(keys, stage=stage, **{name: held[name] for name in ARRAYS})


def first_map(keys: Sequence[str], rows: Rows, seed: int) -> ExampleMap:
    """Return the map by PCA of embeddings (n, d)."""
    mean, components = fit_pca(rows, seed)
    parts = np.array_split(rows, len(rows) // 8192 + 1)
    reduced = np.concatenate([(part.astype(np.float32) - mean) @ components.T for part in parts])
    flat = np.zeros((len(rows), 2), dtype=np.float32)
    flat[:, : reduced.shape[1]] = reduced[:, :2]
    flat *= 10 / (float(flat.std()) or 1.0)  # the standard deviation of a map at its start
    return ExampleMap(keys, reduced, flat, "pca", mean, components)


def fit_pca(rows: Rows, seed: int) -> tuple[Rows, Rows]:
    """Return the mean (d,) and the main directions (r, d) of rows, or of a random part of many."""
    if len(rows) > MAX_FITTED:
        rows = rows[np.random.default_rng(seed).choice(len(rows), MAX_FITTED, replace=False)]
    mean = rows.mean(0, dtype=np.float64).astype(np.float32)
    centered = (rows - mean).astype(np.float64)
    vectors = np.linalg.eigh(centered.T @ centered)[1]  # by ascending variance
    return mean, vectors[:, ::-1][:, :48].T.astype(np.float32)  # columns that are kept


def nearest_neighbors(rows: Rows, count: int, seed: int) -> NDArray[np.int64]:
    """Return for each row (n, count) near rows: the nearest among those of its own cell and the cells around it.

    Cells are found by k-means. They hold the true neighbors of most rows, which is enough for a map.
    """
    from sklearn.cluster import MiniBatchKMeans

    cells = max(1, int(np.sqrt(len(rows)) / 1.5))
    made = MiniBatchKMeans(cells, random_state=seed % 2**32, n_init=1, batch_size=4096, max_iter=10).fit(rows)
    members = [np.flatnonzero(made.labels_ == cell) for cell in range(cells)]
    centers = made.cluster_centers_
    sizes = (rows**2).sum(1)
    found = np.empty((len(rows), count), dtype=np.int64)
    for cell, mine in enumerate(members):
        around = np.argsort(((centers - centers[cell]) ** 2).sum(1), kind="stable")
        searched = CELLS_SEARCHED
        while (there := np.concatenate([members[c] for c in around[:searched]])).size <= count:
            searched += CELLS_SEARCHED
        gaps = sizes[there] - 2 * rows[mine] @ rows[there].T  # (m, candidates)
        gaps[mine[:, None] == there] = np.inf
        found[mine] = there[np.argpartition(gaps, count - 1, axis=1)[:, :count]]
    return found


def embed_neighbors(start: Rows, near: NDArray[np.int64], seed: int) -> Iterator[Rows]:
    """Yield positions (n, 2) after each pass, in which neighbors attract and random pairs repel each other."""
    n, count = near.shape
    draw = np.random.default_rng(seed)
    first, second = np.repeat(np.arange(n), count), near.ravel()
    positions = start.astype(np.float32)
    for epoch in range(EPOCHS):
        rate = np.float32(1 - epoch / EPOCHS)
        for part in np.array_split(draw.permutation(len(first)), 10):  # steps of a pass
            _move(positions, first[part], second[part], rate, attract=True)
            others = draw.integers(0, n, (2, 2 * len(part)))  # two random pairs for each
            _move(positions, others[0], others[1], rate, attract=False)
        yield positions.copy()


def _move(
    positions: Rows, a: NDArray[np.int64], b: NDArray[np.int64], rate: np.float32, attract: bool
) -> None:
    """Move both examples of each pair along the gradient of the loss."""
    gaps = positions[a] - positions[b]
    squares = np.einsum("ij,ij->i", gaps, gaps)
    slope = -2 / (1 + squares) if attract else 2 / ((1e-3 + squares) * (1 + squares))
    steps = np.clip(slope[:, None] * gaps, -MAX_STEP, MAX_STEP) * rate
    n = len(positions)
    for axis in (0, 1):
        moved = np.bincount(a, steps[:, axis], n) - np.bincount(b, steps[:, axis], n)
        positions[:, axis] += moved.astype(np.float32)


def warm_start(made: ExampleMap, near: NDArray[np.int64], old: ExampleMap | None) -> Rows:
    """Return positions to begin with: those of an older map, new examples between their neighbors."""
    if old is None or old.stage == "pca":
        return made.positions
    places = np.array([old.places.get(key, -1) for key in made.keys])
    known = places >= 0
    if not known.any():
        return made.positions
    start: Rows = old.positions[places]
    counts = known[near].sum(1)
    sums = (start[near] * known[near][:, :, None]).sum(1)
    between = sums / np.maximum(counts, 1)[:, None]
    start[~known] = np.where(counts[~known, None] > 0, between[~known], old.positions.mean(0))
    return start


def inside_polygon(points: Rows, corners: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Return which points (n, 2) lie inside a polygon: those with an odd number of its edges to one side."""
    from matplotlib.path import Path as Polygon

    return Polygon(corners).contains_points(points)


class MapBuilder:
    """Map of a session, made again when examples were added."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._steps: Iterator[None] | None = None
        self._unchecked = True

    @property
    def is_due(self) -> bool:
        """Whether there may be something to compute."""
        return self._unchecked or self._steps is not None

    def check(self) -> None:
        """Look for new examples at the next step."""
        self._unchecked = True

    def give_up(self) -> None:
        """Leave the map as it is until new examples come."""
        self._steps, self._unchecked = None, False

    def step(self) -> bool:
        """Compute a part of the map; return whether more is left."""
        if self._steps is None:
            self._unchecked = False
            if (keys := self._lacking()) is None:
                return False
            self._steps = build_map(self.session, keys)
        if next(self._steps, "end") == "end":
            self._steps = None
        return self.is_due

    def _lacking(self) -> list[str] | None:
        """Return the keys of the map to make; None where the one that exists will do."""
        keys = self.session.store.find_keys(examples.c.here)
        encoded = self.session.learner().encoded_keys(keys)
        old = ExampleMap.load(self.session.map_folder)
        if len(encoded) < 3:  # too few for a map
            return None
        if old is None or old.stage == "pca":
            return encoded
        new = len(set(encoded) - old.places.keys())
        most = len(old.keys) if len(encoded) < len(keys) else 0  # it may lack as many while more are encoded
        return encoded if new > most else None


def build_map(session: Session, keys: Sequence[str]) -> Iterator[None]:
    """Make the map of some examples and save it, first by PCA, then by neighbors."""
    seed, folder = session.settings.seed, session.map_folder
    old = ExampleMap.load(folder)
    rows: np.ndarray = session.learner().pool(keys).numpy()  # (n, d)
    made = first_map(keys, rows, seed)
    del rows
    if old is None or old.stage == "pca":
        made.save(folder)
    yield
    near = nearest_neighbors(made.reduced, min(12, len(keys) - 1), seed)
    yield
    for positions in embed_neighbors(warm_start(made, near, old), near, seed):
        made = replace(made, positions=positions, stage="neighbors")
        yield
    made.save(folder)


def look_up(session: Session, text: str, seconds: float = 6.0) -> NDArray[np.float32]:
    """Return the reduced embedding (r,) of a text.

    Raises:
        ValueError: The background process is busy, or its encoder takes no single texts.
    """
    store = session.store
    with store.write_transaction(durable=False) as tx:
        store.upsert(tx, lookups, [{"text": text, "row": None, "at": store.clock()}])
    wanted = select(lookups.c.row).where(lookups.c.text == text)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (row := store.value(wanted)) is not None:
            found = np.array(json.loads(row), dtype=np.float32)
            if not len(found):
                raise ValueError("the encoder of this project compares no single texts: search for words")
            return found
        time.sleep(0.1)
    raise ValueError("the model is busy learning: try again in a moment, or search for words")


def answer_lookups(session: Session) -> int:
    """Embed the texts that the server waits for; return their number."""
    texts = session.store.column(select(lookups.c.text).where(lookups.c.row.is_(None)))
    if not texts:
        return 0
    found = ExampleMap.load(session.map_folder)
    encoder = getattr(session.learner(), "encoder", None)
    for text in texts:
        row: list[float] = []  # of a text that the encoder of the project cannot compare
        if found is not None and encoder is not None and session.source.kind == "text":
            made = encoder.encode([encoder.read(Content("text", "", texts=(text,)))])  # (1, d)
            if made.shape[1] == len(found.mean):
                row = found.reduce(made)[0].tolist()
        with session.store.write_transaction(durable=False) as tx:
            tx.execute(update(lookups).where(lookups.c.text == text).values(row=json.dumps(row)))
    return len(texts)
