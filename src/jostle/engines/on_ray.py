"""A call carried out by a Ray cluster: portions are scored where there is room, rows stay there, picks come back."""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from jostle.engines.beside import described, key_of
from jostle.engines.cluster import connected
from jostle.engines.fleet import Fleet
from jostle.engines.portions import Candidates, Span
from jostle.engines.scorer import Embeds, Order
from jostle.engines.waiting import EngineError, got, ready
from jostle.engines.workers import Worker
from jostle.inputs.sources import Source
from jostle.plumbing.progress import progress_bar
from jostle.rng import as_seed
from jostle.scoring.options import Options
from jostle.scoring.passes import Passes
from jostle.scoring.request import requested
from jostle.selectors import Picks, Selector
from jostle.selectors.rounds import Certificate, two_rounds

TURNS = 4  # portions for each worker, at least: at the end one at most is waited for


class Found(NamedTuple):
    """What a cluster found: positions, scores, and what they took."""

    picks: Picks
    seconds: dict[str, float]
    seed: int
    certificate: Certificate | None = None
    passes: Passes | None = None


@dataclass(frozen=True, kw_only=True)
class Ray:
    """A Ray cluster that scores pools and picks from them; the picks are those of one machine."""

    address: str | None = None
    """Where the cluster is: host:port, ray://host:port or "auto"; None: as RAY_ADDRESS says, or else one of
    this machine's own, for the call."""
    workers: int | None = None
    """How many processes score; None: one for each GPU of the cluster, or else for each CPU."""
    gpus: float | None = None
    """GPUs of each worker; None: one where the cluster has some."""
    threads: int = 1
    """Threads of each worker. Sums in another order are other numbers: compare with as many on one machine."""
    portion: int = 16_384
    """Examples that are scored at a time: what a dead worker loses of its work, and what is kept beside. Fewer where
    each worker would have less than four turns, unless rows are kept: another number of workers shall find them."""
    rows: str | Path | None = None
    """A folder on every node, or one that all share, for rows in Parquet; a call that was cut short goes on from there.
    None: in memory only."""
    patience: float = 600.0
    """Seconds without any news from the cluster after which a call is given up, with an error."""
    approximate: bool = False
    """k-center in two rounds, whatever n is: not the exact picks, but within 4 times the best radius, certified."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers is at least 1; got {self.workers}")
        if self.threads < 1 or self.portion < 1 or not self.patience > 0:
            raise ValueError("threads, portion and patience are above 0")

    def picks(
        self,
        strategy: Embeds,
        selector: Selector,
        model: nn.Module,
        candidates: Candidates,
        n: int,
        options: Options,
    ) -> Found:
        """Pick by the rows of a strategy and a selector.

        Args:
            strategy: What gives rows.
            selector: What picks among them, over shards.
            model: What is scored.
            candidates: What can be picked.
            n: How many to pick.
            options: Those of the call.
        """
        whole = self.approximate or self.rows is not None  # which want rows of all examples
        order, size = settled(strategy, model, candidates, options, None if whole else n)
        with self.fleet(order, candidates, size) as fleet:
            start = time.perf_counter()
            with progress_bar("scoring", len(candidates), options.get("progress"), speed=True) as advance:
                centers = fleet.centers() if "labeled" in order.options else None
                fleet.score(self.spans(candidates, size, len(fleet.workers)), advance)
            scored = time.perf_counter()
            seed = as_seed(order.options["seed"])
            certificate = passes = None
            if self.approximate:
                picks, certificate = two_rounds(fleet, selector, n, centers)
            else:
                picks, passes = order.strategy.picks_over(fleet, selector, n, centers, seed)
            done = time.perf_counter()
            scored = scored if passes is None else done  # a race is won by picks
            seconds = {"embedding": scored - start, "selection": done - scored}
        return Found(picks, seconds, seed, certificate, passes)

    def spans(self, candidates: Candidates, size: int, workers: int) -> Iterator[Span]:
        """Portions of the `candidates` in micro-batches of a `size`, so that none of the `workers` waits long for the
        others.
        """
        fair = -(-len(candidates) // (TURNS * workers))
        return candidates.spans(size, max(size, self.portion if self.rows else min(self.portion, fair)))

    @contextmanager
    def fleet(self, order: Order, candidates: Candidates, size: int) -> Iterator[Fleet]:
        """Workers that have the model, for a while.

        Args:
            order: What they are to do.
            candidates: The pool that they share.
            size: Examples of a micro-batch.
        """
        with connected(self.address, self.workers) as ray:
            gpus = self.gpus_of_a_worker(ray)
            kind = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(Worker)
            key = "" if self.rows is None else key_of(order, described(candidates))
            sent = sent_once(ray, order, candidates.source)
            folder = None if self.rows is None else str(Path(self.rows).absolute())

            def start() -> Any:
                return kind.remote(sent, folder, key, self.threads)

            def again() -> Any:
                worker = start()
                doing = "room for a worker in place of those that died"
                got(ray, worker.ready.remote(candidates.smallest), self.patience, doing)
                return worker

            workers = [start() for _ in range(self.count(ray, gpus))]
            try:
                self.wait_for(ray, {worker.ready.remote(candidates.smallest): worker for worker in workers})
                yield Fleet(ray, workers, candidates, self.patience, again)
            finally:
                for worker in workers:
                    ray.kill(worker)

    def gpus_of_a_worker(self, ray: Any) -> float:
        """As set, or one where `ray` knows of some."""
        if self.gpus is not None:
            return self.gpus
        return 1.0 if ray.cluster_resources().get("GPU") else 0.0

    def count(self, ray: Any, gpus: float) -> int:
        """How many workers there are to be: as set, or as many as `ray` has room for at so many `gpus` each."""
        room = ray.cluster_resources()
        whole = room.get("GPU", 0) / gpus if gpus else room.get("CPU", 1)
        return self.workers or max(1, int(whole))

    def wait_for(self, ray: Any, signs: Mapping[Any, Any]) -> None:
        """Wait for `signs` of life of all workers; an error where `ray` has no room for them."""
        doing = f"{len(signs)} workers to start (1 CPU each): ask for fewer with workers="
        for sign, _ in ready(ray, signs, self.patience, doing):
            try:
                got(ray, sign, self.patience, doing)
            except ray.exceptions.RayError as error:
                raise EngineError(f"a worker could not start: {error}") from error


def settled(
    strategy: Embeds, model: nn.Module, candidates: Candidates, options: Options, n: int | None = None
) -> tuple[Order, int]:
    """What every worker is to be given, and the size of micro-batches: the model is tried here, on two examples.

    For n picks; None where rows of all examples are wanted.
    """
    own = Options(**{key: value for key, value in options.items() if key not in ("engine", "exclude")})  # type: ignore[typeddict-item]
    own["seed"] = as_seed(options.get("seed"))
    own["progress"] = False
    if own.get("labeled") is None:
        own.pop("labeled", None)
    pool = candidates.first
    example = pool.first(2)
    with requested(model, pool, own, strategy.head, strategy.outputs) as request:
        own["batch_size"] = request.micro_batch
        whole = None if candidates.smallest.source is not None else candidates.source
        again = (
            n if whole is None else None
        )  # what a user's own dataset draws may come out otherwise a second time
        strategy = strategy.over_shards(request, len(candidates), again)
    return Order(strategy, model, own, example, whole), own["batch_size"] or 1


def sent_once(ray: Any, order: Order, source: Source) -> Any:
    """The order in the cluster's memory, from where each node fetches it once; parts of the source follow."""
    for module in modules_of(order, source):
        by_value(ray, module)
    try:
        return ray.put(order)
    except Exception as error:  # whatever pickle meets
        reason: BaseException = error
        while (deeper := reason.__cause__ or reason.__context__) is not None:
            reason = deeper
        raise EngineError(
            f"the model or what came with it cannot be sent to workers: {type(reason).__name__}: {reason}; leave out "
            "open files, locks and the like, or keep them out of its __getstate__"
        ) from error


def modules_of(order: Order, source: Source) -> set[str]:
    """Where the classes and functions of an order, and of what reads the pool, are defined."""
    given = [order.strategy, *vars(order.strategy).values(), *order.options.values(), *order.model.modules()]
    held = list(vars(source).values())
    given += [*held, *(value for each in held for value in getattr(each, "__dict__", {}).values())]
    kinds = [
        each if isinstance(each, type) or hasattr(each, "__qualname__") else type(each) for each in given
    ]
    return {kind.__module__ for kind in kinds if isinstance(getattr(kind, "__module__", None), str)}


def by_value(ray: Any, name: str) -> None:
    """Send classes of a user's own file along with what is made of them: workers may not find that file."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None or name.partition(".")[0] in ("jostle", "__main__"):
        return
    installed = (sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib"))
    if not any(Path(file).is_relative_to(path) for path in installed):
        ray.cloudpickle.register_pickle_by_value(module)
