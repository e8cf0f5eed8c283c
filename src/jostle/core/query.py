"""What a call gives back."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jostle.plumbing.files import check_target, write_whole
from jostle.plumbing.sheets import has_columns
from jostle.scoring.passes import Passes
from jostle.selectors.rounds import Certificate

COLUMNS = ("position", "order", "score")  # of a query's csv


@dataclass(frozen=True, eq=False)
class Query:
    """Which examples to label: positions into the pool in pick order, and the selector's value of each."""

    indices: NDArray[np.int64]
    """Positions into the pool as it was given, (n,), distinct, in the order they were picked."""
    scores: NDArray[np.float64]
    """The value of each pick when it was picked, (n,); NaN where it was drawn."""
    seconds: dict[str, float]
    """How long it took: `{"embedding": ..., "selection": ...}`."""
    seed: int
    """What repeats the query, also where none was given."""
    passes: Passes | None = None
    """Of a race of jolts: forward passes made and saved, and the chance that a pick is another; None: no race."""
    notes: tuple[str, ...] = ()
    """What the call did by itself and you should know: rows that went to a file, say."""
    certificate: Certificate | None = None
    """Of `approximate=True` on a cluster: how well the picks cover the pool; None: they are the exact ones."""

    def __len__(self) -> int:
        return len(self.indices)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write position, order and score as csv, whole or not at all.

        Args:
            path: The file.
            overwrite: Replace whatever is there; otherwise only picks are replaced by picks.
        """
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        for order, (position, score) in enumerate(zip(self.indices, self.scores, strict=True)):
            writer.writerow([int(position), order, float(score)])
        check_target(Path(path), lambda head: has_columns(head, COLUMNS), overwrite)
        write_whole(Path(path), text.getvalue())
