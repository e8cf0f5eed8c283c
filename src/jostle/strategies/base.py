"""A Strategy answers a Request (model, pool, seed) with a Query (which examples to label)."""

from __future__ import annotations

import csv
import inspect
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jostle.embeddings.base import Embedded
from jostle.inputs import Collate, Inputs, Labeled, Pool, check_count
from jostle.plumbing.files import check_target, write_whole
from jostle.rng import as_seed, seeded_globals
from jostle.rows import Rows
from jostle.scoring.copies import device_of
from jostle.scoring.network import Head, Network, Read
from jostle.scoring.precision import full_float32
from jostle.scoring.request import Fit, Request
from jostle.selectors import Picks, Selector, k_center, selector
from jostle.tasks import Task
from jostle.training.joined import Joined

COLUMNS = ("position", "order", "score")  # of a query's csv
Choice = Selector | str | Callable[..., Any]  # a selector, its name, or a function (rows, n) -> positions


@dataclass(frozen=True, eq=False)
class Query:
    """Which examples to label: positions into the pool in pick order, and the selector's value of each."""

    indices: NDArray[np.int64]  # (n,)
    scores: NDArray[np.float64]  # (n,) value of each pick when it was picked
    seconds: dict[str, float]  # {"embedding": ..., "selection": ...}
    seed: int

    def __len__(self) -> int:
        return len(self.indices)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write position, order and score as csv, whole or not at all; only picks are replaced by picks."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        for order, (position, score) in enumerate(zip(self.indices, self.scores, strict=True)):
            writer.writerow([int(position), order, float(score)])
        check_target(
            Path(path), lambda head: head.splitlines()[:1] == [",".join(COLUMNS).encode()], overwrite
        )
        write_whole(Path(path), text.getvalue())


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """An embedding (request -> one row per example) and a selector (rows -> positions), behind one `select`.

    Settings are fields; a strategy that does not factor overrides `query`.
    """

    selector: Choice = k_center
    head: Head = None  # the layer whose input is the feature; None: the last linear or 1x1 convolution
    outputs: Read | None = None  # the output tensor of what the model returns; None: as `network.output_of`

    @abstractmethod
    def embedding(self, request: Request) -> Embedded:
        """One row for each example of the request's pool."""

    def query(self, request: Request, n: int) -> Picks:
        """Embed, then select."""
        with request.timed("embedding"):
            embedded = self.embedding(request)
        with request.timed("selection"):
            return selector(self.selector).pick(embedded.rows, n, centers=embedded.centers, seed=request.seed)

    def join(self, model: nn.Module, example: Inputs, seed: int) -> Joined:
        """Take part in training; learning loss does, all others train the model alone."""
        return Joined(model)

    def select(
        self,
        model: nn.Module,
        pool: Any,
        n: int,
        *,
        labeled: Any = None,
        fit: Fit | None = None,
        task: str | Task | None = None,
        exclude: Sequence[int] | NDArray[np.int64] | Tensor | None = None,
        seed: int | None = None,
        batch_size: int | None = None,
        device: torch.device | str | None = None,
        num_workers: int = 0,
        collate_fn: Collate | None = None,
        progress: bool | None = None,
    ) -> Query:
        """Choose n examples of the pool; the model and the global random state stay as they were."""
        inputs = Pool.of(pool, collate_fn, num_workers)
        candidates = inputs.without(exclude)
        check_count(n, candidates, inputs)
        with self.request(
            model,
            candidates,
            seed,
            labeled=labeled,
            fit=fit,
            task=task,
            batch_size=batch_size,
            device=device,
            num_workers=num_workers,
            collate_fn=collate_fn,
            progress=progress,
        ) as request:
            picks = self.query(request, n)
            indices = candidates.positions[picks.positions.cpu()].numpy()
            return Query(indices, picks.scores.double().cpu().numpy(), request.seconds, request.seed)

    def embed(
        self, model: nn.Module, pool: Any, *, seed: int | None = None, exclude: Any = None, **call: Any
    ) -> Rows:
        """The rows or scores that `select` would choose by, of the whole pool less the excluded.

        It takes what `select` takes.
        """
        inputs = Pool.of(pool, call.get("collate_fn"), call.get("num_workers", 0))
        with self.request(model, inputs.without(exclude), seed, **call) as request:
            return self.embedding(request).rows

    @contextmanager
    def request(
        self,
        model: nn.Module,
        pool: Pool,
        seed: int | None,
        *,
        labeled: Any = None,
        fit: Fit | None = None,
        task: str | Task | None = None,
        batch_size: int | None = None,
        device: torch.device | str | None = None,
        num_workers: int = 0,
        collate_fn: Collate | None = None,
        progress: bool | None = None,
    ) -> Iterator[Request]:
        """A request on a private copy of the model; global generators are seeded inside and restored after."""
        seed = as_seed(seed)
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size}")
        where = torch.device(device or device_of(model))
        with torch.inference_mode(False), seeded_globals(seed, where), full_float32(where):
            yield Request(
                copied=lambda: Network(
                    model, pool.first(2), head=self.head, outputs=self.outputs, device=device
                ),
                model=model,
                pool=pool,
                seed=seed,
                labeled=None if labeled is None else Labeled.of(labeled, collate_fn, num_workers),
                fit=fit,
                given_task=task,
                batch_size=batch_size,
                show_progress=progress,
            )


SELECT_OPTIONS = frozenset(inspect.signature(Strategy.select).parameters) - {"self", "model", "pool", "n"}


def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords of one call as (options of `select`, settings of the strategy)."""
    call = {key: value for key, value in options.items() if key in SELECT_OPTIONS}
    return call, {key: value for key, value in options.items() if key not in SELECT_OPTIONS}
