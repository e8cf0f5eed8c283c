"""The loop: train from scratch, test, choose, label, again. It never asks which strategy it holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from jostle.core import Strategy
from jostle.datasets.data import as_dataset, as_pool
from jostle.experiments.setup import ExperimentSetup, committee, fit_model
from jostle.experiments.store import Cycle
from jostle.inference.runner import tallied
from jostle.rng import derive, generator

TRIES = 20_000  # shuffles until the initial set holds every class


def cycles(
    setup: ExperimentSetup, strategy: Strategy, seed: int, done: Sequence[Cycle] = ()
) -> Iterator[Cycle]:
    """The cycles of one run after those that are done; each depends on the protocol, the strategy and the seed."""
    labeled = torch.tensor([example for cycle in done for example in cycle.picked], dtype=torch.int64)
    model: nn.Module | None = None
    for cycle in range(len(done), setup.protocol.rounds + 1):
        if cycle and model is None:  # after an interruption
            model, _ = fit_from_scratch(setup, strategy, seed, cycle - 1, labeled)
        reset_peak_memory(setup.device)
        if model is None:
            chosen = Selection(initial_set(setup, seed))
        else:
            chosen = select_examples(setup, strategy, seed, cycle, model, labeled)
        labeled = torch.cat([labeled, chosen.ids])
        model, train_seconds = fit_from_scratch(setup, strategy, seed, cycle, labeled)
        test = setup.data.test
        yield Cycle(
            cycle=cycle,
            labeled=len(labeled),
            picked=chosen.ids.tolist(),
            metrics=setup.metrics(model, test.inputs, test.targets),
            train_seconds=round(train_seconds, 4),
            select_seconds=round(chosen.seconds, 4),
            peak_memory_bytes=peak_memory(setup.device),
            passes=chosen.passes,
        )


class Selection(NamedTuple):
    """Picks of one cycle, and their cost."""

    ids: Tensor
    seconds: float = 0.0
    passes: float | None = None  # examples through networks, over the candidates


def initial_set(setup: ExperimentSetup, seed: int) -> Tensor:
    """The ids labeled at the beginning, the same for every strategy."""
    rng, pool, targets = generator(seed, "initial"), len(setup.data.train), setup.data.train.targets
    classes = len(setup.data.classes)
    for _ in range(TRIES if setup.protocol.every_class else 1):
        ids = torch.randperm(pool, generator=rng)[: setup.initial]
        if not setup.protocol.every_class or setup.task.classes_seen(targets[ids]) == classes:
            return ids
    raise ValueError(
        f"no initial set of {setup.initial} with all {classes} classes came up in {TRIES} draws: "
        "raise initial, or set every_class=false"
    )


def candidate_ids(setup: ExperimentSetup, seed: int, cycle: int, labeled: Tensor) -> Tensor:
    """The unlabeled examples to choose from, in random order.

    Every example has a random priority in each cycle, so that two strategies meet the same candidates but for
    those that they have labeled.
    """
    pool = len(setup.data.train)
    priority = torch.rand(pool, generator=generator(seed, "candidates", cycle), dtype=torch.float64)
    priority[labeled] = torch.inf
    return priority.argsort(stable=True)[: pool - len(labeled)][: setup.candidates]


def select_examples(
    setup: ExperimentSetup, strategy: Strategy, seed: int, cycle: int, model: nn.Module, labeled: Tensor
) -> Selection:
    """The ids that a strategy chooses, and what that cost."""
    candidates = candidate_ids(setup, seed, cycle, labeled)
    pool = as_pool(setup.data.train.inputs, candidates)
    known = setup.data.train.take(labeled)
    start = time.perf_counter()
    with tallied() as tally:
        query = strategy.select(
            model,
            pool,
            setup.pick,
            labeled=as_dataset(known.inputs, known.targets),
            fit=committee(setup, seed, cycle),
            task=setup.task,
            seed=derive(seed, "query", cycle),
            device=setup.device,
            progress=False,
        )
    seconds = time.perf_counter() - start
    picked = valid_picks(torch.as_tensor(query.indices), candidates, setup.pick)
    return Selection(picked, seconds, round(tally.examples / len(candidates), 2))


def valid_picks(picked: Tensor, candidates: Tensor, n: int) -> Tensor:
    """Picks that are n distinct candidates: a strategy of one's own may be wrong."""
    if len(picked) != n or len(picked.unique()) != n or not torch.isin(picked, candidates).all():
        raise ValueError(
            f"the strategy returned {len(picked)} picks, {len(picked.unique())} distinct, "
            f"{int(torch.isin(picked, candidates).sum())} of them candidates; {n} distinct candidates were asked for"
        )
    return picked


def fit_from_scratch(
    setup: ExperimentSetup, strategy: Strategy | None, seed: int, cycle: int, labeled: Tensor
) -> tuple[nn.Module, float]:
    """A model trained from scratch on the labeled examples, and the seconds it took.

    Initial weights, batches and augmentation follow the seed and the cycle alone.
    """
    known = setup.data.train.take(labeled)
    start = time.perf_counter()
    model = fit_model(
        setup, strategy, known.inputs, known.targets, derive(seed, "weights", cycle), cycle == 0
    )
    return model, time.perf_counter() - start


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak of memory, where the system allows it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> int | None:
    """Bytes at the peak since `reset_peak_memory`, of the device or the process; None where it cannot be measured."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows has none
        return None
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
