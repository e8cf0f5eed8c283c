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
from jostle.datasets.views import labelled_part, part_of, pool_of
from jostle.results.cycles import Cycle
from jostle.rng import derive, generator
from jostle.runs.bench import Bench
from jostle.runs.fitting import committee, fit_model
from jostle.scoring.passes import tallied

TRIES = 20_000  # shuffles until the initial set holds every class


def cycles(bench: Bench, strategy: Strategy, seed: int, done: Sequence[Cycle] = ()) -> Iterator[Cycle]:
    """The cycles of one run after those that are done; each depends on the protocol, the strategy and the seed."""
    labelled = torch.tensor([example for cycle in done for example in cycle.picked], dtype=torch.int64)
    model: nn.Module | None = None
    for cycle in range(len(done), bench.protocol.rounds + 1):
        if cycle and model is None:  # after an interruption
            model, _ = fit_from_scratch(bench, strategy, seed, cycle - 1, labelled)
        forget_peak(bench.device)
        if model is None:
            chosen = Selection(initial_set(bench, seed))
        else:
            chosen = selected(bench, strategy, seed, cycle, model, labelled)
        labelled = torch.cat([labelled, chosen.ids])
        model, train_seconds = fit_from_scratch(bench, strategy, seed, cycle, labelled)
        test = bench.data.test
        yield Cycle(
            cycle=cycle,
            labelled=len(labelled),
            picked=chosen.ids.tolist(),
            metrics=bench.metrics(model, test.inputs, test.targets),
            train_seconds=round(train_seconds, 4),
            select_seconds=round(chosen.seconds, 4),
            peak_memory_bytes=peak(bench.device),
            passes=chosen.passes,
        )


class Selection(NamedTuple):
    """What was chosen for labelling, and what that cost."""

    ids: Tensor
    seconds: float = 0.0
    passes: float | None = None  # examples through networks, over the candidates


def initial_set(bench: Bench, seed: int) -> Tensor:
    """The ids labelled at the beginning, the same for every strategy."""
    rng, pool, targets = generator(seed, "initial"), len(bench.data.train), bench.data.train.targets
    classes = len(bench.data.classes)
    for _ in range(TRIES if bench.protocol.every_class else 1):
        ids = torch.randperm(pool, generator=rng)[: bench.initial]
        if not bench.protocol.every_class or bench.task.classes_seen(targets[ids]) == classes:
            return ids
    raise ValueError(
        f"no initial set of {bench.initial} with all {classes} classes came up in {TRIES} draws: "
        "raise initial, or set every_class=false"
    )


def candidate_ids(bench: Bench, seed: int, cycle: int, labelled: Tensor) -> Tensor:
    """The unlabelled examples to choose from, in random order.

    Every example has a random priority in each cycle, so that two strategies meet the same candidates but for
    those that they have labelled.
    """
    pool = len(bench.data.train)
    priority = torch.rand(pool, generator=generator(seed, "candidates", cycle), dtype=torch.float64)
    priority[labelled] = torch.inf
    return priority.argsort(stable=True)[: pool - len(labelled)][: bench.candidates]


def selected(
    bench: Bench, strategy: Strategy, seed: int, cycle: int, model: nn.Module, labelled: Tensor
) -> Selection:
    """The ids that a strategy chooses, and what that cost."""
    candidates = candidate_ids(bench, seed, cycle, labelled)
    pool = pool_of(bench.data.train.inputs, candidates)
    known = labelled_part(bench.data.train, labelled)
    start = time.perf_counter()
    with tallied() as tally:
        query = strategy.select(
            model,
            pool,
            bench.pick,
            labeled=known,
            fit=committee(bench, seed, cycle),
            task=bench.task,
            seed=derive(seed, "query", cycle),
            device=bench.device,
            progress=False,
        )
    seconds = time.perf_counter() - start
    picked = valid_picks(torch.as_tensor(query.indices), candidates, bench.pick)
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
    bench: Bench, strategy: Strategy, seed: int, cycle: int, labelled: Tensor
) -> tuple[nn.Module, float]:
    """A model trained from scratch on the labelled examples, and the seconds it took.

    Initial weights, batches and augmentation follow the seed and the cycle alone.
    """
    split = bench.data.train
    inputs, targets = part_of(split.inputs, labelled), part_of(split.targets, labelled)
    start = time.perf_counter()
    model = fit_model(bench, strategy, inputs, targets, derive(seed, "weights", cycle), cycle == 0)
    return model, time.perf_counter() - start


def forget_peak(device: torch.device) -> None:
    """Begin to measure the peak of memory anew, where the system allows it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak(device: torch.device) -> int | None:
    """Bytes at the peak since `forget_peak`: of the device, or of the process; None where the system does not tell."""
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
