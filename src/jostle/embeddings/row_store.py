"""Where movements go: memory, a temporary file or one of the user's, whole or projected on the way."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jostle.embeddings.journal import Journal, identity
from jostle.inputs import Inputs
from jostle.rows.geometry import blocks
from jostle.rows.mapped import RELEASE, is_mapped, release
from jostle.scoring.request import Request

if TYPE_CHECKING:
    from jostle.embeddings.deviations import Deviations


@dataclass(frozen=True)
class Movements:
    """Rows as they come about, chunk by chunk."""

    tensor: Tensor  # (n, K * d) or (n, project)
    width: int  # d
    scale: float  # sqrt(P / K)
    project: int | None
    request: Request
    journal: Journal | None  # of rows in a file of the user's

    @classmethod
    def of(cls, settings: Deviations, request: Request, n: int, width: int, scale: float) -> Movements:
        """Room for the movements of n examples."""
        shape = n, settings.project or settings.jolts * width
        journal = None
        if settings.rows_file is None:
            like = torch.empty(0, dtype=request.row_type, device=request.device)
            (tensor,) = request.room.rows([(shape, like)], "movements")
        else:
            journal = Journal(Path(settings.rows_file), identity(settings, request, n))
            tensor = journal.opened(shape, request.row_type)
            request.notes += [journal.replaced] if journal.replaced else []
        return cls(tensor, width, scale, settings.project, request, journal)

    @property
    def place(self) -> str:
        """Where rows go, for a progress bar."""
        return ", rows in a file" if is_mapped(self.tensor) else ""

    def known(self, batches: Iterator[Inputs]) -> int:
        """How many examples an earlier call has done, once they have been read again and compared."""
        return 0 if self.journal is None else sum(self.journal.known(batches))

    def begin(self, start: int, size: int) -> None:
        """The chunk of so many examples from `start` on is empty, whatever a killed call left there."""
        if self.project is not None:
            self.tensor[start : start + size] = 0

    def put(self, start: int, k: int, movements: Iterator[Tensor]) -> None:
        """The k-th movements of the examples from `start` on, micro-batch by micro-batch."""
        plane, seen = self.plane(k), 0
        for moved in movements:
            target = self.tensor[start : start + len(moved)]
            scaled = moved.mul_(self.scale).to(target.dtype)  # outputs need not be of the weights' type
            if plane is None:
                target[:, k * self.width : (k + 1) * self.width] = scaled
            else:
                target += (scaled @ plane).to(target.device)
            start += len(moved)
            seen += target.nbytes
            if seen >= RELEASE:
                release(self.tensor)
                seen = 0

    def keep(self, batches: list[Inputs]) -> None:
        """The rows of a chunk are whole."""
        if self.journal is not None:
            self.journal.add(batches)
        release(self.tensor)

    def plane(self, k: int) -> Tensor | None:
        """The part of the one fixed projection that the k-th movement meets, (d, project)."""
        if self.project is None:
            return None
        rng = self.request.rng("projection", k)
        plane = torch.randn(
            self.width, self.project, generator=rng, device=rng.device, dtype=self.tensor.dtype
        )
        return plane / math.sqrt(self.project)

    def finished(self) -> Tensor:
        """The finished rows; a warning where none moved."""
        rows = self.tensor
        check_moved(any(bool(rows[part].any()) for part in blocks(len(rows), per_row=rows.shape[1], of=rows)))
        return rows


def check_moved(anything: bool) -> None:
    """A warning where nothing moved."""
    if not anything:
        warnings.warn("no output moved under any jolt: the parameters may not reach the output", stacklevel=4)
