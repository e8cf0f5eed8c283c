"""The vocabulary: a Strategy answers a Request (model, pool, seed) with a Query (which examples to label)."""

from __future__ import annotations

import csv
import inspect
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jostle.copies import device_of
from jostle.network import Head, Network, Read
from jostle.pool import Collate, Inputs, Labeled, Pool, check_count, count
from jostle.precision import full_float32
from jostle.progress import Advance, progress_bar
from jostle.rng import as_seed, generator, seeded_globals
from jostle.rows import as_vectors, join, non_finite, refuse_non_finite, sums_to_one
from jostle.selectors import Outer, Picks, Selector, k_center, selector
from jostle.tasks import TASKS, Classification, Task, task_for

Fit = Callable[[Any, int], nn.Module]  # (dataset, seed) -> a freshly trained model
Rows = Tensor | Outer
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

    def save(self, path: str | Path) -> None:
        """Write position, order and score as csv, whole or not at all."""
        target = Path(path)
        part = target.with_name(target.name + ".part")
        with part.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["position", "order", "score"])
            for order, (position, score) in enumerate(zip(self.indices, self.scores, strict=True)):
                writer.writerow([int(position), order, float(score)])
        part.replace(target)


@dataclass
class Request:
    """All that one call was given, checked: strategies ask it for outputs, features and draws."""

    copied: Callable[[], Network]  # copies the model when it is first needed
    model: nn.Module  # the user's own, to be read only
    pool: Pool
    seed: int
    labeled: Labeled | None = None
    fit: Fit | None = None
    given_task: str | Task | None = None
    batch_size: int | None = None
    show_progress: bool | None = None
    seconds: dict[str, float] = field(default_factory=lambda: {"embedding": 0.0, "selection": 0.0})

    @cached_property
    def network(self) -> Network:
        """A private copy of the model: never the user's own weights."""
        return self.copied()

    @cached_property
    def task(self) -> Task:
        """The task as given, or as the outputs' shape tells."""
        return task_for(self.given_task, self.network.trace.output)

    @cached_property
    def softening(self) -> Task:
        """The task, asked for probabilities: a softmax over what looks like such already is warned of, once."""
        softmax = type(self.task).probabilities is Classification.probabilities
        if softmax and sums_to_one(self.network.trace.output):
            warnings.warn(ALREADY_PROBABILITIES, stacklevel=3)
        return self.task

    @property
    def device(self) -> torch.device:
        """Where the model computes, and rows and selectors with it."""
        return self.network.device

    @property
    def micro_batch(self) -> int:
        """Examples per forward pass."""
        return min(self.batch_size or self.network.micro_batch, self.pool.largest_batch or 2**31)

    def rng(self, *purpose: str | int, device: torch.device | str | None = None) -> torch.Generator:
        """A generator for one purpose of this call."""
        return generator(self.seed, *purpose, device=device or self.device)

    def needs_labeled(self, method: str) -> Labeled:
        """The labelled set, or an error that asks for it."""
        if self.labeled is None or not len(self.labeled):
            raise ValueError(f"{method} needs the labelled examples: pass labeled=, a dataset of (x, y)")
        return self.labeled

    def check_task(self, method: str, serves: Sequence[str], why: str) -> None:
        """Refuse a task that a method does not serve, before any long work; a user's own task is let through."""
        task = self.task.name
        if task in TASKS and task not in serves:
            shape = tuple(self.network.trace.output.shape)
            raise ValueError(f"{method} is not available for {task} (outputs of shape {shape}): {why}")

    def batches(self, *pools: Pool) -> Iterator[Inputs]:
        """Prepared micro-batches of the pool, or of several pools in turn."""
        for pool in pools or (self.pool,):
            yield from (self.network.prepared(inputs) for inputs in pool.batches(self.micro_batch))

    def compute(
        self, read: Callable[[Inputs], tuple[Tensor, ...]], *pools: Pool, what: str
    ) -> tuple[Tensor, ...]:
        """Rows that `read` gives for every micro-batch, joined; non-finite ones are an error that says which."""
        pools = pools or (self.pool,)
        parts: list[tuple[Tensor, ...]] = []
        with torch.no_grad(), self.progress(what, sum(map(len, pools))) as advance:
            for inputs in self.batches(*pools):
                parts.append(tuple(part.detach() for part in read(inputs)))
                advance(count(inputs))
        joined = tuple(join(column) for column in zip(*parts, strict=True))
        for rows in joined:
            self.check_finite(non_finite(rows), what, *pools)
        return joined

    def check_finite(self, bad: Tensor, what: str, *pools: Pool) -> None:
        """An error that names the bad examples, a mask (n,) over the pools in turn, and says whose they are."""
        for pool, part in zip(pools, bad.split([len(pool) for pool in pools]), strict=True):
            whose = "" if pool is self.pool else " of the labelled set"
            refuse_non_finite(pool.positions[part], len(pool), what + whose)

    def outputs(self) -> Tensor:
        """The model's outputs of the whole pool, (n, ...)."""
        return self.compute(lambda x: (self.network.outputs(x),), what="outputs")[0]

    def probabilities(self) -> Tensor:
        """Class probabilities of the whole pool, (n, c)."""
        return self.probabilities_of(self.outputs())

    def probabilities_of(self, outputs: Tensor) -> Tensor:
        """Probabilities in the outputs' own layout, (n, ...)."""
        return self.softening.probabilities(outputs)

    def distribution_of(self, outputs: Tensor) -> Tensor:
        """Probabilities as (n, sites, c)."""
        return self.softening.distribution(outputs)

    def score(self, of: Callable[[Tensor], Tensor], what: str) -> Tensor:
        """One number for each example from its distribution (n, sites, c), averaged over the sites: (n,)."""

        def read(inputs: Inputs) -> tuple[Tensor]:
            outputs = self.network.outputs(inputs).double()  # or examples that are very sure would tie
            return (of(self.distribution_of(outputs)).mean(1),)

        return self.compute(read, what=what)[0]

    def features(self, *pools: Pool) -> Tensor:
        """Features of the pool, or of several pools in turn, as vectors (n, d)."""
        return self.compute(lambda x: (as_vectors(self.network.features(x)),), *pools, what="features")[0]

    def features_and_outputs(self, *pools: Pool) -> tuple[Tensor, Tensor]:
        """Both from one pass."""

        def read(inputs: Inputs) -> tuple[Tensor, Tensor]:
            features, outputs = self.network.features_and_outputs(inputs)
            return as_vectors(features), outputs

        both = self.compute(read, *pools, what="features and outputs")
        return both[0], both[1]

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        """A progress bar for a part of this call."""
        with progress_bar(what, total, self.show_progress) as advance:
            yield advance

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the seconds spent inside to the query's account."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start


@dataclass(frozen=True)
class Embedded:
    """One row per example of the pool, and rows already chosen, where the selector is to keep away from them."""

    rows: Rows
    centers: Tensor | None = None


class Joined:
    """A model in training, and what a strategy adds to it: by default nothing.

    The task's own optimiser holds the weights of the model that was joined, `optimizers` those that were added.
    """

    learns_losses = False  # then training weighs no classes: the many of a class would look hard to learn

    def __init__(self, model: nn.Module) -> None:
        self.model = model  # what is trained, and later given to select

    def optimizers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Optimisers of added parts, stepped with the task's own and under its schedule."""
        return []

    def loss(self, losses: Tensor, fraction: float) -> Tensor:
        """Added to the task's loss: from the losses (n,) of the batch that `model` saw last, and how much of
        the training is done, 0 to 1.
        """
        return losses.new_zeros(())


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


ALREADY_PROBABILITIES = (
    "the model's outputs look like probabilities, but are taken as logits and go through a softmax again: "
    "end the model before its softmax, or pass outputs=torch.log"
)
