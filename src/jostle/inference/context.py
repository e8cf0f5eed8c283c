"""The context of one query, and its options: model, pool, seed; strategies ask it for outputs and draws."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jostle.inference.isolation import InputMutatedError, guarded, scoring_device
from jostle.inference.memory import MemoryBudget, RowBuffer, non_finite
from jostle.inference.reader import BatchReader, Mask, Outputs, output_reader
from jostle.inference.runner import Head, ModelRunner, tallied
from jostle.inputs import Collate, Inputs, Labeled, Pool, count
from jostle.rng import as_seed, generator
from jostle.rows.geometry import Reduction
from jostle.tasks import TASKS, Task, task_for, task_for_labels, task_named
from jostle.utils.names import cached_property, unknown
from jostle.utils.progress import Advance, noted, progress_bar

__all__ = ["Options", "QueryContext"]

T = TypeVar("T")
PROBE_EXAMPLES = 64
Fit = Callable[[Any, int], nn.Module]  # (dataset, seed) -> a freshly trained model


class Options(TypedDict, total=False):
    """Options of a call beside the model and the pool."""

    labeled: Any
    """The labeled examples, a dataset or data loader of (x, y), for methods that need them."""
    fit: Fit | None
    """Trains a fresh model, `fit(dataset, seed) -> nn.Module`, for methods that need several."""
    task: str | Task | None
    """What outputs mean: "classification", "binary", "regression", "segmentation", "multi-label", "sequence" or a
    `Task`; None: as their shape tells."""
    mask: Mask
    """Which tokens of a sequence count: a key of the inputs, a function of them that gives (n, tokens), or False for
    all; None: `attention_mask` where the inputs have it."""
    exclude: Sequence[int] | NDArray[np.int64] | Tensor | None
    """Positions of the pool that may not be picked: whole numbers, not a mask."""
    scores: Any
    """Your own score of each example of the pool, an array (n,), larger where a label is worth more. top-k ranks by it,
    herding and explained-variance weigh by it; None: the scores of the strategy."""
    seed: int | None
    """Repeats the query; None draws a fresh one and records it."""
    batch_size: int | None
    """Examples per forward pass; None: a rule on the sizes of activations."""
    device: torch.device | str | None
    """Where to compute; None: where the model is."""
    num_workers: int
    """Worker processes that read the pool, as a `DataLoader` has them."""
    collate_fn: Collate | None
    """Puts examples of the pool together to a batch, as a `DataLoader` takes it."""
    engine: Any
    """Where to compute: "ray" or a `jostle.engines.Ray`, a cluster that scores shards of the pool; None: here."""
    progress: bool | None
    """A bar on standard error: True always, False never; None: on a terminal."""


DEFAULTS: Mapping[str, Any] = {"num_workers": 0}  # all others are None unless given


def split_options(options: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
    """Keywords of one call as (options of the call, settings of the strategy)."""
    call = {key: value for key, value in options.items() if key in Options.__annotations__}
    return cast(Options, call), {key: value for key, value in options.items() if key not in call}


def check_options(options: Options) -> None:
    """Refuse options that there are not, and sizes that cannot be."""
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(str(unknown("option", name, Options.__annotations__)))
    task_named(options.get("task"))
    mask = options.get("mask")
    if not (mask is None or mask is False or isinstance(mask, str) or callable(mask)):
        raise TypeError(f"mask is a key of the inputs, a function of them, or False for none; got {mask!r}")
    batch_size = options.get("batch_size")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}")


@dataclass
class QueryContext:
    """All that one query was given, checked. The model is copied and traced once, when it is first needed.

    Example:
        >>> with jostle.NoiseStability().context(torch.nn.Linear(4, 3), torch.randn(5, 4)) as context:
        ...     context.probabilities().shape
        torch.Size([5, 3])
    """

    model: nn.Module
    """The user's own model, which is only read."""
    pool: Pool
    """The examples that can be picked."""
    labeled: Labeled | None
    """The labeled examples; None where the call has none."""
    seed: int
    """All draws of the query follow from it."""
    options: Options
    """The options of the call."""
    head: Head = None
    """The strategy's setting `head`."""
    read: Outputs = None
    """The strategy's setting `outputs`."""
    memory_bytes: int | None = None
    """The strategy's setting `memory_bytes`."""
    copy_inputs: bool = False
    """Whether the model gets copies of its inputs, because it writes into them."""
    seconds: dict[str, float] = field(default_factory=lambda: {"embedding": 0.0, "selection": 0.0})
    """Seconds of each part of the work so far."""
    notes: list[str] = field(default_factory=list)
    """Messages for the caller, such as rows that went to a file."""

    @classmethod
    def create(
        cls,
        model: nn.Module,
        pool: Any,
        options: Options,
        head: Head = None,
        outputs: Outputs = None,
        memory_bytes: int | None = None,
    ) -> QueryContext:
        """Check what a call was given.

        Args:
            model: As `select` takes it.
            pool: As `select` takes it.
            options: The options of `select`.
            head: The strategy's setting.
            outputs: The strategy's setting.
            memory_bytes: The strategy's setting.
        """
        check_options(options)
        reading = options.get("collate_fn"), options.get("num_workers", 0)
        seed, given = as_seed(options.get("seed")), options.get("labeled")
        with guarded(seed, scoring_device(model, options.get("device"))):
            candidates = Pool.of(pool, *reading).without(options.get("exclude"))
            labeled = None if given is None else Labeled.of(given, *reading)
        return cls(model, candidates, labeled, seed, options, head, outputs, memory_bytes)

    @contextmanager
    def guard(self) -> Iterator[QueryContext]:
        """Seed the global generators and switch off rounding of float32; restore both afterwards."""
        with guarded(self.seed, self.where):
            yield self

    @property
    def where(self) -> torch.device:
        """The device for scoring, known before the model is copied there."""
        return scoring_device(self.model, self.options.get("device"))

    def run(self, work: Callable[[QueryContext], T]) -> T:
        """Return `work(context)`, done under `guard`; once more with copied inputs if the model writes into them."""
        try:
            with self.guard():
                return work(self)
        except InputMutatedError:
            empty = dict.fromkeys(self.seconds, 0.0)
            with replace(self, copy_inputs=True, seconds=empty, notes=[]).guard() as again:
                return work(again)

    @cached_property
    def runner(self) -> ModelRunner:
        """The model that computes: a private copy, never the user's own weights."""
        return self.runner_on(self.options.get("device"), self.model, self.pool.first(2))

    def runner_on(self, device: torch.device | str | None, model: nn.Module, example: Inputs) -> ModelRunner:
        """Copy a `model` to a `device` and trace it on a couple of inputs, the `example`."""
        read = output_reader(self.read, self.options.get("task"))
        return ModelRunner(model, example, self.head, read, device, self.copy_inputs)

    @cached_property
    def probe(self) -> list[Inputs]:
        """Prepared micro-batches of the first few examples, to try what the model reads."""
        few = torch.arange(min(PROBE_EXAMPLES, len(self.pool)), device="cpu")
        return list(self.batches(replace(self.pool.take(few), workers=0)))

    @cached_property
    def reader(self) -> BatchReader:
        """Reads single batches: probabilities, scores, vectors, masks."""
        return BatchReader(self.runner, self.task, self.options.get("mask"), sure=isinstance(self.read, str))

    @cached_property
    def budget(self) -> MemoryBudget:
        """The memory for rows, buffers and selectors."""
        return MemoryBudget.of(self.memory_bytes, self.where, self.notes)

    @cached_property
    def task(self) -> Task:
        """The task as given, or as outputs and labels tell; labels that do not fit the outputs are an error."""
        given, outputs = self.options.get("task"), self.runner.example_outputs
        if given is None and self.read == "probabilities" and outputs[0].numel() == 1:
            given = "binary"
        own = isinstance(given, Task) and given.name not in TASKS
        targets = None if own or self.labeled is None else self.labeled.targets_at_hand()
        return task_for(given, outputs) if targets is None else task_for_labels(given, outputs, targets)

    @cached_property
    def own_scores(self) -> Tensor | None:
        """The user's own score of each example of the pool, (n,): the option `scores`; None where there are none."""
        given = self.options.get("scores")
        if given is None:
            return None
        scores, size = torch.as_tensor(given).detach().double().cpu(), len(self.pool.source)
        if scores.shape != (size,):
            raise ValueError(
                f"scores= must be one number for each of {size} examples; got shape {tuple(scores.shape)}"
            )
        own = scores[self.pool.positions]
        self.check_finite(own, "scores=", self.pool)
        return own.to(self.device)

    @property
    def classes(self) -> int:
        """The number of classes at each site."""
        return self.task.distribution(self.runner.example_outputs).shape[-1]

    @cached_property
    def feature_width(self) -> int:
        """The width d of features as vectors."""
        with self.untracked():
            return self.reader.features(self.runner.example).shape[1]

    @property
    def row_type(self) -> torch.dtype:
        """The type of rows: that of the weights, if they have one."""
        return self.runner.dtype or torch.get_default_dtype()

    @property
    def device(self) -> torch.device:
        """The device of the model, of rows and of selectors."""
        return self.runner.device

    @property
    def micro_batch(self) -> int:
        """Examples per forward pass."""
        size = self.options.get("batch_size") or self.runner.micro_batch
        return min(size, self.pool.largest_batch or size)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pool, and after it the labeled inputs where there are any."""
        if self.labeled is None or not len(self.labeled):
            return (self.pool,)
        return self.pool, self.labeled.inputs

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Split `rows` of all `pools` into those of the pool and those of the labeled set, None where it is empty."""
        n = len(self.pool)
        return rows[:n], (rows[n:] if len(rows) > n else None)

    @contextmanager
    def untracked(self) -> Iterator[None]:
        """Look at a few examples: no passes are counted, no draws are used, no gradients are kept."""
        with torch.no_grad(), tallied(), torch.random.fork_rng([self.device] * (self.device.type == "cuda")):
            yield

    def rng(self, *purpose: str | int, device: torch.device | str | None = None) -> torch.Generator:
        """Return a generator for one `purpose` of this query, on the model's `device` unless given."""
        return generator(self.seed, *purpose, device=device or self.device)

    def needs_labeled(self, method: str) -> Labeled:
        """Return the labeled set, or raise an error that asks for it in the name of a `method`."""
        if self.labeled is None or not len(self.labeled):
            raise ValueError(f"{method} needs the labeled examples: pass labeled=, a dataset of (x, y)")
        return self.labeled

    def check_task(self, method: str, serves: Sequence[str], why: str) -> None:
        """Refuse a task that a method does not serve; a user's own task is let through.

        Args:
            method: The name of the method.
            serves: The names of the tasks that it serves.
            why: The reason, for the error.
        """
        task = self.task.name
        if task in TASKS and task not in serves:
            logit = "binary" in serves and task == "regression" and self.options.get("task") is None
            hint = ". If the output is a logit of yes or no, which wants a sigmoid, say task='binary'" * logit
            shape = tuple(self.runner.example_outputs.shape)
            raise ValueError(f"{method} is not available for {task} (outputs of shape {shape}): {why}{hint}")

    def batches(self, *pools: Pool) -> Iterator[Inputs]:
        """Read prepared micro-batches of the pool, or of several `pools` in turn."""
        for pool in pools or (self.pool,):
            yield from (self.runner.prepared(inputs) for inputs in pool.batches(self.micro_batch))

    def compute(
        self, read: Callable[[Inputs], tuple[Tensor, ...]], *pools: Pool, what: str
    ) -> tuple[Tensor, ...]:
        """Join the rows of all micro-batches; raise an error that names rows that are not finite.

        Args:
            read: From a batch of inputs to its rows, one tensor for each kind of row.
            pools: The pools to read; none: the pool.
            what: A name for these rows, for the progress bar and errors.
        """
        pools = pools or (self.pool,)
        buffer = RowBuffer(sum(map(len, pools)), self.budget, what)
        with torch.no_grad(), self.progress(what, buffer.size) as advance:
            for inputs in self.batches(*pools):
                buffer.add(tuple(part.detach() for part in read(inputs)))
                advance(count(inputs))
        for rows in buffer.columns:
            self.check_finite(rows, what, *pools)
        return buffer.columns

    def check_finite(self, rows: Tensor, what: str, *pools: Pool) -> None:
        """Raise an error if `rows` of the `pools`, named `what`, hold NaN or infinity, or if a mask (n,) marks some."""
        bad = rows if rows.dtype == torch.bool else non_finite(rows)
        for pool, part in zip(pools, bad.split([len(pool) for pool in pools]), strict=True):
            if part.any():
                whose, found = (
                    "" if pool is self.pool else " of the labeled set",
                    pool.positions[part].tolist(),
                )
                shown = ", ".join(map(str, found[:5])) + (", ..." if len(found) > 5 else "")
                raise ValueError(
                    f"the model's {what}{whose} are NaN or infinite for {len(found)} of {len(pool)} examples "
                    f"(positions {shown}): leave these out (exclude= for the pool), or check the weights and inputs"
                )

    def outputs(self) -> Tensor:
        """The model's outputs for the whole pool, (n, ...)."""
        return self.compute(lambda x: (self.runner.outputs(x),), what="outputs")[0]

    def probabilities(self) -> Tensor:
        """Class probabilities of the whole pool, (n, c)."""
        return self.reader.probabilities(self.outputs())

    def score(self, of: Callable[[Tensor], Tensor], what: str, reduction: Reduction = "mean") -> Tensor:
        """Return one number for each example, (n,).

        Args:
            of: From distributions (n, sites, c) to numbers (n, sites).
            what: A name for these numbers, for the progress bar and errors.
            reduction: How the numbers of several sites become one: "mean", "sum" or "max".
        """
        score = self.reader.score
        return self.compute(lambda x: (score(of, self.runner.outputs(x), x, reduction),), what=what)[0]

    def features(self, *pools: Pool) -> Tensor:
        """Features of the pool, or of several `pools` in turn, as vectors (n, d)."""
        return self.compute(lambda inputs: (self.reader.features(inputs),), *pools, what="features")[0]

    def features_and_scores(
        self, of: Callable[[Tensor], Tensor], *pools: Pool, what: str
    ) -> tuple[Tensor, Tensor]:
        """Features (n, d) and one number for each example (n,) from one pass; `of`, `pools`, `what` as in `score`."""

        def read(inputs: Inputs) -> tuple[Tensor, Tensor]:
            features, outputs = self.reader.features_and_outputs(inputs)
            return features, self.reader.score(of, outputs, inputs)

        features, scores = self.compute(read, *pools, what=what)
        return features, scores

    def features_and_outputs(self, *pools: Pool) -> tuple[Tensor, Tensor]:
        """Features (n, d) and outputs of the pool, or of several `pools` in turn, from one pass."""
        columns = self.compute(self.reader.features_and_outputs, *pools, what="features and outputs")
        return columns[0], columns[1]

    def progress(self, what: str, total: int) -> AbstractContextManager[Advance]:
        """Show a progress bar named `what` for `total` examples."""
        return progress_bar(what, total, self.options.get("progress"))

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the seconds spent inside to a `part` of the query's account: "embedding" or "selection"."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start

    @contextmanager
    def selecting(self, steps: int) -> Iterator[Advance]:
        """Time the selection and show a bar of `steps` picks; selectors report to it as they go."""
        done = 0.0

        def add(some: float) -> None:
            nonlocal done
            done += some
            advance(some)

        with self.progress("selecting", steps) as advance, noted(add), self.timed("selection"):
            yield add
            add(steps - done)
