"""Run a call on a Ray cluster: workers score portions of the pool and keep their rows, and picks come back."""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from jostle.core import Embedding, Query, Strategy
from jostle.core.strategy import as_query
from jostle.engines.ray_shards import RayShards, connect, start_workers
from jostle.engines.worker import (
    Candidates,
    EngineError,
    Span,
    Worker,
    WorkerConfig,
    cache_key,
    describe_pool,
)
from jostle.inference.context import PROBE_EXAMPLES, Options, QueryContext
from jostle.inference.memory import Placement
from jostle.inputs import check_count
from jostle.inputs.sources import Source
from jostle.rng import as_seed
from jostle.selectors import Picks, Selector, selector, top_k
from jostle.utils.progress import progress_bar

PORTIONS_PER_WORKER = 4  # at least: at the end one portion at most is waited for


class Found(NamedTuple):
    """Picks of a cluster, by place, with the seconds and the seed that they took."""

    picks: Picks
    seconds: dict[str, float]
    seed: int


@dataclass(frozen=True, kw_only=True)
class Ray:
    """A Ray cluster that scores pools and picks from them; the picks are those of one machine."""

    address: str | None = None
    """Where the cluster is: host:port, ray://host:port or "auto"; None: the variable RAY_ADDRESS, or else a cluster on
    this machine, for the call."""
    workers: int | None = None
    """Number of worker processes; None: one for each GPU of the cluster, or else for each CPU."""
    gpus: float | None = None
    """GPUs of each worker; None: one where the cluster has some."""
    threads: int = 1
    """Threads of each worker. Sums in a different order round differently: compare with as many on one machine."""
    portion: int = 16_384
    """Examples that are scored at a time: as many are lost when a worker dies, and cached in one file. Smaller where
    each worker would get less than four portions, unless rows are cached: a different number of workers finds them."""
    cache_folder: str | Path | None = None
    """Folder for rows in Parquet files, on every node or shared by all; a call that was interrupted resumes from there.
    None: in memory only."""
    patience: float = 600.0
    """Seconds without any result from the cluster after which a call ends with an error."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1; got {self.workers}")
        if self.threads < 1 or self.portion < 1 or not self.patience > 0:
            raise ValueError(
                "threads, portion and patience must be above 0; "
                f"got {self.threads}, {self.portion} and {self.patience}"
            )

    def select(self, strategy: Strategy, model: nn.Module, pool: Any, n: int, options: Options) -> Query:
        """Choose n examples with a `strategy`; `model`, `pool`, `n` and `options` as its own `select` takes them."""
        if options.get("scores") is not None:
            raise ValueError("scores= are ranked in this process: leave engine= out")
        candidates = Candidates.of(pool, options)
        n = check_count(n, candidates, candidates.source)
        settled = Options(**{**options, "seed": as_seed(options.get("seed"))})
        inside = Options(**{key: value for key, value in settled.items() if key != "exclude"})  # type: ignore[typeddict-item]
        context = strategy.create_context(model, candidates.few(2), inside)
        if type(strategy).resolve is not Strategy.resolve:
            strategy = context.run(strategy.resolve)
        if isinstance(strategy, Filtering):
            return select_filtered(self, strategy, model, candidates, n, settled, context)
        if not isinstance(strategy, Embedding) or not strategy.shardable:
            raise ValueError(
                f"{strategy.name} looks at the pool as a whole, which lies in shards on a cluster: leave engine= out, "
                f"or use one of {SHARDABLE}"
            )
        picker = selector(strategy.selector)
        if picker.collects_rows:
            context.pool = candidates.at(torch.arange(len(candidates)))
            estimate = replace(context.run(partial(strategy.estimate, n=n)), may_spill=False)
            Placement(estimate, context.budget).check(strategy.name)
        found = self.picks(strategy, picker, model, candidates, n, settled)
        indices = candidates.positions(found.picks.positions.cpu()).numpy()
        values = found.picks.scores.double().cpu().numpy()
        return Query(indices, values, found.seconds, found.seed)

    def picks(
        self,
        strategy: Embedding,
        selector: Selector,
        model: nn.Module,
        candidates: Candidates,
        n: int,
        options: Options,
    ) -> Found:
        """Pick by the rows of a strategy and a selector.

        Args:
            strategy: Gives rows.
            selector: Picks among them, over shards.
            model: The model that is scored.
            candidates: The examples that can be picked.
            n: Number of picks.
            options: Options of the call.
        """
        config = prepare(strategy, model, candidates, options)
        micro_batch, seed = config.options["batch_size"] or 1, as_seed(config.options["seed"])
        with self.start_shards(config, candidates) as shards:
            start = time.perf_counter()
            with progress_bar("scoring", len(candidates), options.get("progress"), speed=True) as advance:
                centers = shards.centers() if "labeled" in config.options else None
                shards.score(self.spans(candidates, micro_batch, len(shards.workers)), advance)
            scored = time.perf_counter()
            picks = selector.pick_over(shards, n, centers=centers, seed=seed)
            seconds = {"embedding": scored - start, "selection": time.perf_counter() - scored}
        return Found(picks, seconds, seed)

    def spans(self, candidates: Candidates, micro_batch: int, workers: int) -> Iterator[Span]:
        """Cut `candidates` into portions of whole micro-batches, so that none of the `workers` waits long.

        Args:
            candidates: The pool.
            micro_batch: Examples of a forward pass.
            workers: Number of workers.
        """
        fair = -(-len(candidates) // (PORTIONS_PER_WORKER * workers))
        size = self.portion if self.cache_folder else min(self.portion, fair)
        return candidates.spans(micro_batch, max(micro_batch, size))

    @contextmanager
    def start_shards(self, config: WorkerConfig, candidates: Candidates) -> Iterator[RayShards]:
        """Start workers with the model, and end them afterwards.

        Args:
            config: Settings of each worker.
            candidates: The pool that they share.
        """
        with connect(self.address, self.workers) as ray:
            gpus = self.gpus_per_worker(ray)
            actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(Worker)
            key = "" if self.cache_folder is None else cache_key(config, describe_pool(candidates))
            sent = send_once(ray, config, candidates.source)
            folder = None if self.cache_folder is None else str(Path(self.cache_folder).absolute())
            started = list[Any]()

            def start() -> Any:
                started.append(actor.remote(sent, folder, key, self.threads))
                return started[-1]

            def start_ready(count: int) -> list[Any]:
                first = candidates.smallest
                return start_workers(ray, start, lambda w: w.ready.remote(first), count, self.patience)

            try:
                workers = start_ready(self.worker_count(ray, gpus))
                yield RayShards(ray, workers, candidates, self.patience, lambda: start_ready(1)[0])
            finally:
                for worker in started:
                    ray.kill(worker)

    def gpus_per_worker(self, ray: Any) -> float:
        """Return the GPUs of a worker: as set, or one where `ray` has some."""
        if self.gpus is not None:
            return self.gpus
        return 1.0 if ray.cluster_resources().get("GPU") else 0.0

    def worker_count(self, ray: Any, gpus: float) -> int:
        """Return the number of workers: as set, or as many as `ray` has room for at so many `gpus` each."""
        room = ray.cluster_resources()
        whole = room.get("GPU", 0) / gpus if gpus else room.get("CPU", 1)
        return self.workers or max(1, int(whole))


def prepare(strategy: Embedding, model: nn.Module, candidates: Candidates, options: Options) -> WorkerConfig:
    """Return the settings of workers, with the size of micro-batches; the model is tried here on two examples."""
    own = Options(**{key: value for key, value in options.items() if key not in ("engine", "exclude")})  # type: ignore[typeddict-item]
    own |= {"seed": as_seed(options.get("seed")), "progress": False}
    if own.get("labeled") is None:
        own.pop("labeled", None)
    pool = candidates.few(2)
    with QueryContext.create(model, pool, own, strategy.head, strategy.outputs).guard() as context:
        own["batch_size"] = context.micro_batch
        strategy.check_task(context)
        strategy.check_shardable(context)
    whole = None if candidates.smallest.source is not None else candidates.source
    probe = list(candidates.few(PROBE_EXAMPLES).batches(own["batch_size"] or 1))
    return WorkerConfig(strategy, model, own, pool.first(2), probe, whole)


def send_once(ray: Any, config: WorkerConfig, source: Source) -> Any:
    """Put the settings of workers into the cluster's memory, from where each node fetches them once."""
    pickle_by_value(ray, config, source)
    try:
        return ray.put(config)
    except Exception as error:  # pickle raises errors of any kind
        reason: BaseException = error
        while (deeper := reason.__cause__ or reason.__context__) is not None:
            reason = deeper
        raise EngineError(
            "the model or an object that belongs to it cannot be sent to workers: "
            f"{type(reason).__name__}: {reason}; remove open files, locks and the like, or leave them out in its "
            "__getstate__"
        ) from error


def pickle_by_value(ray: Any, config: WorkerConfig, source: Source) -> None:
    """Send the classes and functions of a user's own files along with their objects: workers may not find those files.

    Args:
        ray: The package, connected.
        config: Settings of workers, whose strategy, options and model may have such classes.
        source: The reader of the pool.
    """
    held = list(vars(source).values())
    given = [
        config.strategy,
        *vars(config.strategy).values(),
        *config.options.values(),
        *config.model.modules(),
    ]
    given += [*held, *(value for each in held for value in getattr(each, "__dict__", {}).values())]
    kinds = (
        each if isinstance(each, type) or hasattr(each, "__qualname__") else type(each) for each in given
    )
    installed = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
    for name in {kind.__module__ for kind in kinds if isinstance(getattr(kind, "__module__", None), str)}:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is None or name.partition(".")[0] in ("jostle", "__main__"):
            continue
        if not any(Path(file).is_relative_to(path) for path in installed):
            ray.cloudpickle.register_pickle_by_value(module)


SHARDABLE = "default, margin-herding, flip-cover, noise-stability, badge, coreset, margin, entropy, bald"


@runtime_checkable
class Filtering(Protocol):
    """A strategy that chooses among a few candidates, which scores of single examples tell."""

    screen: type[Embedding]

    def shortlist(self, context: QueryContext, size: int, n: int, of_largest: Any) -> Any:
        """Candidates for n picks from a pool of this size; `of_largest(count)` finds those of the largest scores."""

    def among(self, context: QueryContext, short: Any, n: int) -> Picks:
        """Choose n of the candidates."""


def select_filtered(
    cluster: Ray,
    strategy: Any,
    model: nn.Module,
    candidates: Candidates,
    n: int,
    options: Options,
    context: QueryContext,
) -> Query:
    """Find candidates on the cluster, and choose among them in this process."""
    seconds = {"embedding": 0.0, "selection": 0.0}
    settings = {"head": strategy.head, "outputs": strategy.outputs, "memory_bytes": strategy.memory_bytes}

    def of_largest(count: int) -> tuple[Tensor, Tensor]:
        found = cluster.picks(strategy.screen(**settings), top_k, model, candidates, count, options)
        seconds["embedding"] = sum(found.seconds.values())
        places, order = found.picks.positions.sort()
        return places, found.picks.scores[order]

    context.run(strategy.check_task)
    short = context.run(lambda context: strategy.shortlist(context, len(candidates), n, of_largest))
    kept = candidates.at(short.places)

    def choose(context: QueryContext) -> Query:
        context.pool = candidates.few(PROBE_EXAMPLES)
        assert context.runner  # traced on the first examples, as in one process
        assert context.probe
        context.pool, context.seconds = kept, seconds
        strategy.check_memory(context, n)
        picks = strategy.among(context, replace(short, places=torch.arange(len(kept))), n)
        return as_query(context, strategy.name, picks, n)

    return context.run(choose)
