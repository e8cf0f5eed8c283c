"""The map of all examples, computed in the background between rounds, a step at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import select

from jostle.labeling.example_map import (
    NEIGHBORS,
    ExampleMap,
    embed_neighbors,
    first_map,
    nearest_neighbors,
    warm_start,
)
from jostle.labeling.schema import examples

if TYPE_CHECKING:
    from jostle.labeling.session import Session

MAX_NEW_SHARE = 1.0  # examples that a map may lack while more are encoded, for each that it has
MIN_EXAMPLES = 3  # of a map


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
            keys = self._lacking()
            if keys is None:
                return False
            self._steps = build_map(self.session, keys)
        if next(self._steps, "end") == "end":
            self._steps = None
        return self.is_due

    def _lacking(self) -> list[str] | None:
        """Return the keys of the map to make; None where the one that exists will do."""
        with self.session.store.read_transaction() as tx:
            here = select(examples.c.key).where(examples.c.here).order_by(examples.c.key)
            keys = list(tx.execute(here).scalars())
        encoded = self.session.learner().encoded_keys(keys)
        old = ExampleMap.load(self.session.map_folder)
        if len(encoded) < MIN_EXAMPLES:
            return None
        if old is None or old.stage == "pca":
            return encoded
        new = len(set(encoded) - old.places.keys())
        most = 0 if len(encoded) == len(keys) else MAX_NEW_SHARE * len(old.keys)
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
    near = nearest_neighbors(made.reduced, min(NEIGHBORS, len(keys) - 1), seed)
    yield
    for positions in embed_neighbors(warm_start(made, near, old), near, seed):
        made = replace(made, positions=positions, stage="neighbors")
        yield
    made.save(folder)
