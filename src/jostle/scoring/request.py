"""A Request: all that one call was given, checked; embeddings ask it for outputs, features and draws."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from jostle.inputs import Inputs, Labeled, Pool, count
from jostle.plumbing import memory
from jostle.plumbing.once import cached_property
from jostle.plumbing.progress import Advance, Expected, progress_bar
from jostle.rng import alone, as_seed, generator, seeded_globals
from jostle.rows import as_vectors, mean_over, non_finite, refuse_non_finite, sums_to_one
from jostle.scoring.copies import scoring_device
from jostle.scoring.defaults import our_device
from jostle.scoring.network import Head, Network, Read
from jostle.scoring.options import Fit, Options, check_options
from jostle.scoring.padding import REMEDY, fitted_mask, mask_of
from jostle.scoring.passes import Passes, tallied
from jostle.scoring.precision import full_float32
from jostle.scoring.room import Gathered, Room
from jostle.tasks import TASKS, Classification, Task, task_for

__all__ = ["Request"]


@dataclass
class Request:
    """All that one call was given, checked: strategies ask it for outputs, features and draws."""

    model: nn.Module
    """The user's own, to be read only."""
    pool: Pool
    """What can be picked."""
    labeled: Labeled | None
    """What is labelled, where the call was given it."""
    seed: int
    """What all draws of this call follow from."""
    options: Options
    """What else the call was given."""
    head: Head = None
    """The strategy's setting: where features are read."""
    read: Read | None = None
    """The strategy's setting `outputs`: how outputs are read."""
    careful: bool = False
    """The model may write into what it is given."""
    memory_bytes: int | None = None
    """The strategy's setting: the most memory that rows, buffers and selectors may take together."""
    seconds: dict[str, float] = field(default_factory=lambda: {"embedding": 0.0, "selection": 0.0})
    """How long parts of the work took so far."""
    passes: Passes | None = None
    """What a race of jolts took, once it is over."""
    notes: list[str] = field(default_factory=list)
    """What the call did by itself and whoever made it should know."""
    lengths: list[tuple[tuple[Pool, ...], int]] = field(default_factory=list)
    """Pools that were read for it, and the most tokens of any of their examples."""

    @cached_property
    def network(self) -> Network:
        """A private copy of the model, made when it is first needed: never the user's own weights."""
        return self.network_on(self.options.get("device"), self.model, self.pool.first(2))

    def network_of(self, model: nn.Module) -> Network:
        """A private copy of another `model`, read like this one and on the same device."""
        return self.network_on(self.network.device, model, self.network.example)

    def network_on(self, device: torch.device | str | None, model: nn.Module, example: Inputs) -> Network:
        """A private copy of a `model` on a `device`, shown a couple of inputs as an `example`."""
        return Network(model, example, head=self.head, outputs=self.read, device=device, careful=self.careful)

    @cached_property
    def room(self) -> Room:
        """Where rows go: memory as far as it is allowed, a file beyond."""
        where = scoring_device(self.model, self.options.get("device"))
        free = None if self.memory_bytes is not None else memory.free_bytes(where)
        return Room(self.memory_bytes, free, where, self.notes)

    @property
    def fit(self) -> Fit | None:
        """What trains a further model on (dataset, seed), where the call was given it."""
        return self.options.get("fit")

    @cached_property
    def task(self) -> Task:
        """The task as given, or as the outputs' shape tells."""
        task = task_for(self.options.get("task"), self.network.example_outputs)
        if self.guessed_a_number(task) and self.labeled is not None and self.labeled.says_yes_or_no:
            warnings.warn(YES_OR_NO, stacklevel=3)
        return task

    def guessed_a_number(self, task: Task) -> bool:
        """Whether one output was taken for a number, the `task` not being told: it may be a logit of yes or no."""
        return task.name == "regression" and self.options.get("task") is None

    @cached_property
    def softmax_task(self) -> Task:
        """The task, asked for probabilities: a softmax over what looks like such already is warned of, once."""
        softmax = type(self.task).probabilities is Classification.probabilities
        if softmax and sums_to_one(self.network.example_outputs):
            warnings.warn(ALREADY_PROBABILITIES, stacklevel=3)
        return self.task

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the model's outputs for a couple of examples, (2, ...)."""
        return tuple(self.network.example_outputs.shape)

    @property
    def classes(self) -> int:
        """How many classes the outputs tell apart, at each site."""
        return self.task.distribution(self.network.example_outputs).shape[-1]

    @cached_property
    def feature_width(self) -> int:
        """The width d of features as vectors."""
        with self.aside():
            return self.features_of(self.network.example).shape[1]

    @property
    def row_type(self) -> torch.dtype:
        """The type of rows: that of the weights, if they have one."""
        return self.network.dtype or torch.get_default_dtype()

    @property
    def accelerators(self) -> list[torch.device]:
        """The device whose random state is its own, where the model computes on such."""
        return [self.device] if self.device.type == "cuda" else []

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A look at a few examples that counts nowhere: no passes, no draws, no gradients."""
        with torch.no_grad(), tallied(), torch.random.fork_rng(self.accelerators):
            yield

    @property
    def device(self) -> torch.device:
        """Where the model computes, and rows and selectors with it."""
        return self.network.device

    @property
    def micro_batch(self) -> int:
        """Examples per forward pass."""
        return min(
            self.options.get("batch_size") or self.network.micro_batch, self.pool.largest_batch or 2**31
        )

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pool, and after it the labelled inputs where there are any."""
        if self.labeled is None or not len(self.labeled):
            return (self.pool,)
        return self.pool, self.labeled.inputs

    def parted(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Given `rows` of all `pools`, those of the pool and those of the labelled set, None where there is none."""
        n = len(self.pool)
        return rows[:n], (rows[n:] if len(rows) > n else None)

    def rng(self, *purpose: str | int, device: torch.device | str | None = None) -> torch.Generator:
        """A generator for one `purpose` of this call, on a `device`: the one where the model computes unless said."""
        return generator(self.seed, *purpose, device=device or self.device)

    def needs_labeled(self, method: str) -> Labeled:
        """The labelled set, or an error that asks for it in the name of a `method`."""
        if self.labeled is None or not len(self.labeled):
            raise ValueError(f"{method} needs the labelled examples: pass labeled=, a dataset of (x, y)")
        return self.labeled

    def check_task(self, method: str, serves: Sequence[str], why: str) -> None:
        """Refuse a task that a method does not serve, before any long work; a user's own task is let through.

        Args:
            method: Its name.
            serves: The names of the tasks that it does serve.
            why: What others lack, for the error.
        """
        task = self.task.name
        if task in TASKS and task not in serves:
            hint = f". {IF_A_LOGIT}" if "binary" in serves and self.guessed_a_number(self.task) else ""
            shape = self.output_shape
            raise ValueError(f"{method} is not available for {task} (outputs of shape {shape}): {why}{hint}")

    def batches(self, *pools: Pool) -> Iterator[Inputs]:
        """Prepared micro-batches of the pool, or of several `pools` in turn."""
        for pool in pools or (self.pool,):
            yield from (self.network.prepared(inputs) for inputs in pool.batches(self.micro_batch))

    def compute(
        self, read: Callable[[Inputs], tuple[Tensor, ...]], *pools: Pool, what: str
    ) -> tuple[Tensor, ...]:
        """Rows of all micro-batches, joined; those that are not finite are an error that says which.

        Args:
            read: From a batch of inputs to its rows, of as many kinds as it likes.
            pools: What to read; none: the pool.
            what: What the rows are, for the progress bar and errors.
        """
        pools = pools or (self.pool,)
        gathered = Gathered(sum(map(len, pools)), self.room, what)
        with torch.no_grad(), self.progress(what, gathered.size) as advance:
            for inputs in self.batches(*pools):
                gathered.add(tuple(part.detach() for part in read(inputs)))
                advance(count(inputs))
        for rows in gathered.columns:
            self.check_finite(non_finite(rows), what, *pools)
        return gathered.columns

    def check_finite(self, bad: Tensor, what: str, *pools: Pool) -> None:
        """An error that names the examples whose rows are not finite, and says whose they are.

        Args:
            bad: Which these are, a mask (n,) over the pools in turn.
            what: What the rows are.
            pools: What was read.
        """
        for pool, part in zip(pools, bad.split([len(pool) for pool in pools]), strict=True):
            whose = "" if pool is self.pool else " of the labelled set"
            refuse_non_finite(pool.positions[part], len(pool), what + whose)

    @property
    def padded(self) -> bool:
        """Whether examples are sequences some of whose tokens may be padding."""
        return self.task.tokens and self.mask_in(self.network.example) is not None

    def mask_in(self, inputs: Inputs) -> Tensor | None:
        """Which tokens of a batch of `inputs` count, (n, tokens), where anything says so."""
        return mask_of(inputs, self.options.get("mask"))

    def mask(self, inputs: Inputs, tokens: int) -> Tensor | None:
        """The same for values of this many `tokens` of `inputs`; None where all count."""
        found = self.mask_in(inputs)
        if found is None:
            return None
        fitting = fitted_mask(found, tokens)
        if fitting is None and (self.task.tokens or self.options.get("mask") is not None):
            raise ValueError(f"the mask {tuple(found.shape)} does not fit {tokens} tokens: {REMEDY}")
        return None if fitting is None or fitting.all() else fitting

    def over_sites(self, values: Tensor, inputs: Inputs) -> Tensor:
        """The mean of `values` (n, sites) of a batch of `inputs` over pixels, labels, or tokens that are not padding,
        (n,).
        """
        return mean_over(values, self.mask(inputs, values.shape[1]) if self.task.tokens else None)

    def vectors(self, features: Tensor, inputs: Inputs, grid: int = 1) -> Tensor:
        """Features as (n, d): maps averaged over space, sequences over tokens that are not padding.

        Args:
            features: As the head is given them, (n, d), (n, tokens, d), (n, channels, ...) or (n, ..., channels).
            inputs: The batch that they are of.
            grid: Maps are averaged over a grid of so many by so many places.
        """
        features = self.network.laid_out(features)
        mask = self.mask(inputs, features.shape[1]) if features.ndim == 3 else None
        return as_vectors(features, grid, mask)

    def outputs(self) -> Tensor:
        """The model's outputs of the whole pool, (n, ...)."""
        return self.compute(lambda x: (self.network.outputs(x),), what="outputs")[0]

    def probabilities(self) -> Tensor:
        """Class probabilities of the whole pool, (n, c)."""
        return self.probabilities_of(self.outputs())

    def probabilities_of(self, outputs: Tensor) -> Tensor:
        """Probabilities in the own layout of `outputs`, (n, ...)."""
        return self.softmax_task.probabilities(outputs)

    def distribution_of(self, outputs: Tensor) -> Tensor:
        """Probabilities of `outputs` as (n, sites, c)."""
        return self.softmax_task.distribution(outputs)

    def score(self, of: Callable[[Tensor], Tensor], what: str) -> Tensor:
        """One number for each example, averaged over the sites, (n,).

        Args:
            of: From distributions (n, sites, c) to numbers (n, sites).
            what: What these are, for the progress bar and errors.
        """

        def read(inputs: Inputs) -> tuple[Tensor]:
            return (self.score_of(of, self.network.outputs(inputs), inputs),)

        return self.compute(read, what=what)[0]

    def score_of(self, of: Callable[[Tensor], Tensor], outputs: Tensor, inputs: Inputs) -> Tensor:
        """The same, by `of`, from the `outputs` of one batch of `inputs`, (n,)."""
        exact = outputs.double()  # or examples that are very sure would tie
        return self.over_sites(of(self.distribution_of(exact)), inputs)

    def features(self, *pools: Pool) -> Tensor:
        """Features of the pool, or of several `pools` in turn, as vectors (n, d)."""
        return self.compute(lambda inputs: (self.features_of(inputs),), *pools, what="features")[0]

    def features_of(self, inputs: Inputs, grid: int = 1) -> Tensor:
        """The same of one batch of `inputs`; `grid` is that of `vectors`."""
        return self.vectors(self.network.features(inputs), inputs, grid)

    def features_and_scores(
        self, of: Callable[[Tensor], Tensor], *pools: Pool, what: str
    ) -> tuple[Tensor, Tensor]:
        """Features (n, d) and one number for each example (n,) from one pass; `of`, `pools` and `what` as `score` and
        `compute` take them.
        """

        def read(inputs: Inputs) -> tuple[Tensor, Tensor]:
            features, outputs = self.network.features_and_outputs(inputs)
            return self.vectors(features, inputs), self.score_of(of, outputs, inputs)

        features, scores = self.compute(read, *pools, what=what)
        return features, scores

    def features_and_outputs(self, *pools: Pool) -> tuple[Tensor, Tensor]:
        """Both of the pool, or of several `pools` in turn, from one pass."""

        def read(inputs: Inputs) -> tuple[Tensor, Tensor]:
            features, outputs = self.network.features_and_outputs(inputs)
            return self.vectors(features, inputs), outputs

        both = self.compute(read, *pools, what="features and outputs")
        return both[0], both[1]

    @contextmanager
    def progress(self, what: str, total: int, expected: Expected | None = None) -> Iterator[Advance]:
        """A progress bar for a part of this call: `what` it is, how many examples in `total`, seconds `expected`."""
        with progress_bar(what, total, self.options.get("progress"), expected=expected) as advance:
            yield advance

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the seconds spent inside to a `part` of the query's account: "embedding" or "selection"."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start


@contextmanager
def requested(
    model: nn.Module,
    pool: Any,
    options: Options,
    head: Head = None,
    outputs: Read | None = None,
    careful: bool = False,
    memory_bytes: int | None = None,
) -> Iterator[Request]:
    """A request for a while: global generators are seeded inside and restored after, and float32 is not rounded."""
    check_options(options)
    reading = options.get("collate_fn"), options.get("num_workers", 0)
    seed, given = as_seed(options.get("seed")), options.get("labeled")
    where = scoring_device(model, options.get("device"))
    with alone(), torch.inference_mode(False), our_device():  # alone, since a fork waits for the whole of it
        candidates = Pool.of(pool, *reading).without(options.get("exclude"))
        with seeded_globals(seed, where), full_float32(where):
            labeled = None if given is None else Labeled.of(given, *reading)
            yield Request(model, candidates, labeled, seed, options, head, outputs, careful, memory_bytes)


IF_A_LOGIT = "If the output is a logit of yes or no, which wants a sigmoid, say task='binary'"
YES_OR_NO = (
    "the model has one output, taken for a number, and all labels are 0 or 1: say task='binary' if the output is a "
    "logit of yes or no, task='regression' if it is a number"
)
ALREADY_PROBABILITIES = (
    "the model's outputs look like probabilities, but are taken as logits and go through a softmax again: "
    "end the model before its softmax, or pass outputs=torch.log"
)
