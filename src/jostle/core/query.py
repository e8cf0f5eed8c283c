"""What a call gives back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jostle.utils.files import check_target, has_columns, write_whole

COLUMNS = ("position", "order", "score")  # of a query's csv


@dataclass(frozen=True, eq=False)
class Query:
    """Examples to label: positions into the pool in pick order, and the selector's value of each.

    Example:
        >>> import jostle, torch
        >>> query = jostle.select("margin", probabilities=torch.tensor([[0.9, 0.1], [0.5, 0.5]]), n=1)
        >>> query.indices.tolist()
        [1]
    """

    indices: NDArray[np.int64]
    """Positions into the pool as it was given, (n,), distinct, in the order they were picked."""
    scores: NDArray[np.float64]
    """The value of each pick when it was picked, (n,); NaN where it was drawn."""
    seconds: dict[str, float]
    """How long it took: `{"embedding": ..., "selection": ...}`."""
    seed: int
    """What repeats the query, also where none was given."""
    notes: tuple[str, ...] = ()
    """What the call did by itself and you should know: rows that went to a file, say."""

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the positions, in the order they were picked: `for position in query`."""
        return iter(self.indices.tolist())

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
