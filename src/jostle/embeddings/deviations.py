"""Noise stability's embedding: how each example's output moves when the parameters are nudged K times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Costs, Embedded, Embedding
from jostle.embeddings.again import Unrepeatable
from jostle.embeddings.chunks import Chunk, Measure
from jostle.embeddings.exact import directional_derivative
from jostle.embeddings.jolts import Jolts, Which
from jostle.embeddings.race import AUTO, Race, no_race, no_race_of, raced, raced_costs, risk_of, stops
from jostle.embeddings.row_store import Movements
from jostle.embeddings.teams import Racer, Team, race_over
from jostle.embeddings.watching import Space, Watch, longest_sequence, watched
from jostle.engines.scorer import Resume
from jostle.inputs import Inputs, Pool, arrays, count
from jostle.plumbing.memory import in_words
from jostle.plumbing.names import look_up
from jostle.rows import Rows
from jostle.rows.vectors import check_shapes, non_finite
from jostle.scoring.passes import Passes
from jostle.scoring.rehearsal import Rehearsal
from jostle.scoring.replay import Record, Replay, can_replay
from jostle.scoring.request import Request
from jostle.selectors import Picks, Selector, selector
from jostle.selectors.shards import Shard, Shards

FEW_JOLTS, NARROW = 10, 512  # what is often enough
SHARES = 20  # chunks of a scoring whose rows go to a file of the user's, at least

Look = Callable[
    [Inputs], tuple[Tensor, Record]
]  # inputs -> what is watched at rest, and what no jolt reaches


@dataclass(frozen=True, kw_only=True)
class Deviations(Embedding):
    """How outputs move when the parameters are nudged K times: (n, K * d), scaled as in the paper's Eq. (main).

    Squared row lengths estimate the squared Frobenius norm of the Jacobian, whatever `jolts` and `scale` are.
    """

    alone = True

    method: ClassVar[str] = "deviations"
    start: str = "origin"
    """Where k-center starts; "labeled": from the movements of the labelled set."""

    jolts: int = 30
    """K, how often the parameters are nudged."""
    scale: float = 1e-3
    """Zeta, the length of a jolt relative to that of the parameters."""
    noise: str = "global"
    """"global": one direction over all parameters; "layerwise": one for each weight tensor."""
    estimator: str = "finite"
    """How movements are found: "finite" differences, as in the paper; "jvp": the exact derivative, zeta -> 0."""
    space: Space = None
    """What moves: "probabilities", "features", "logits", a function; None: the task's."""
    grid: int = 1
    """Spatial outputs and features are average-pooled to grid x grid."""
    normalize: bool = False
    """Divide by the length of the clean output, as the authors' published code does."""
    parameters: Which = None
    """Which parameters move: name patterns or a predicate; None: all."""
    project: int | None = None
    """Project rows to this width by one fixed Gaussian projection; None: whole rows."""
    rows_file: str | Path | None = None
    """Keep rows in this memory-mapped file, new or of rows: a call that was killed goes on from there; None: in memory,
    or in a temporary file where they are large."""
    buffer_bytes: int = 256 * 2**20
    """Bytes of inputs and clean outputs held at once: the pool is read once, chunk by chunk."""

    race: float | str | None = AUTO
    """Jolt in full only what can be picked, where that can be told, and bear this chance that a pick is another;
    "auto": 0.0005, where it saves time; None: jolt everything."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.race not in (None, AUTO) and not (isinstance(self.race, float) and 0 < self.race < 1):
            raise ValueError(f'race is a chance between 0 and 1, "auto" or None; got {self.race!r}')
        if self.jolts < 1 or not self.scale > 0 or not math.isfinite(self.scale):
            raise ValueError(f"jolts must be at least 1 and scale above 0; got {self.jolts} and {self.scale}")
        if self.grid < 1 or (self.project is not None and self.project < 1):
            raise ValueError(f"grid and project must be at least 1; got {self.grid} and {self.project}")
        look_up("estimator", self.estimator, {"finite": None, "jvp": None})
        look_up("noise", self.noise, {"global": None, "layerwise": None})
        look_up("start", self.start, {"origin": None, "labeled": None})
        if self.start == "labeled" and not selector(self.selector).uses_centers:
            raise ValueError(
                "start='labeled' needs a selector that starts from given rows, such as k-center; "
                f"{type(selector(self.selector)).__name__} does not look at them"
            )

    def embedding(self, request: Request) -> Embedded:
        """Movements of the pool, and those of the labelled set where k-center starts from them."""
        if self.start == "origin":
            return Embedded(self.rows(request))
        request.needs_labeled(f"{self.method} with start='labeled'")
        return Embedded(*self.rows_of_both(request))

    def refuse_shards(self, request: Request) -> None:
        """Rows of sequences are as wide as the longest of the pool, and a file of rows is one for all."""
        if self.rows_file is not None:
            raise ValueError(
                "rows_file= is one file: on a cluster say engine=jostle.engines.Ray(rows=folder)"
            )
        if request.padded:
            raise ValueError(
                f"{self.method} lays tokens side by side, as many as the pool's longest sequence has, which no shard "
                "knows: pass mask=False and sequences of one length, or space='features', or leave engine= out"
            )

    def picks_early(self, request: Request, n: int) -> Picks | None:
        """The picks of a race, in which only what may be picked is jolted in full."""
        if self.race is not None and self.costs(request, n).fewest is not None:
            try:
                return raced(self, request, n, selector(self.selector))
            except Unrepeatable as reason:
                request.notes.append(f"everything was jolted, not raced: {reason}")
        return None

    def over_shards(self, request: Request, size: int, n: int | None) -> Deviations:
        """The same, which races over shards or not."""
        self.refuse_shards(request)
        races = n is not None and self.race is not None and not no_race_of(self, request, size, n)
        return replace(self, race=risk_of(self) if races else None)

    def shard(self, request: Request, places: Tensor, resume: Resume) -> Shard:
        """Rows, or examples that race for them."""
        if self.race is None:
            return super().shard(request, places, resume)
        return Team([Racer(Race(self, request), int(places[0]), resume)])

    def picks_over(
        self, shards: Shards, picker: Selector, n: int, centers: Rows | None, seed: int
    ) -> tuple[Picks, Passes | None]:
        """Pick n examples of all shards, among rows that are there or by a race for them."""
        if self.race is None:
            return super().picks_over(shards, picker, n, centers, seed)
        return race_over(shards, picker, n, self.jolts, risk_of(self), seed, len(stops(self.jolts)))

    def rows(self, request: Request, *pools: Pool) -> Tensor:
        """Movements of the pool, or of several pools in turn under the same jolts: (n, K * d) or (n, project)."""
        pools = pools or (request.pool,)
        n = sum(map(len, pools))
        watch, jolts = self.watch(request, *pools), self.jolts_of(request)
        rows = Movements.of(self, request, n, self.width(request, watch), self.stretch(jolts))
        with torch.no_grad(), request.progress(f"jolting{rows.place}", n) as advance:
            batches = request.batches(*pools)
            start = rows.known(batches)
            advance(start)
            bad = [torch.zeros(start, dtype=torch.bool)]
            for chunk in self.chunks(request, batches, self.recording(request, jolts, watch), n):
                check_shapes([(rows.width,), *(tuple(part.shape[1:]) for part in chunk.clean)])
                bad += map(non_finite, chunk.clean)
                if not any(map(torch.any, bad)):
                    rows.begin(start, chunk.size)
                    for k in range(self.jolts):
                        with self.jolted(jolts, k, watch) as movement:
                            rows.put(start, k, chunk.under(movement))
                        del movement  # or two directions would be held while the next is drawn
                        advance(chunk.size / self.jolts)
                    rows.keep(chunk.inputs)
                start += chunk.size
                del chunk  # or two would be held while the next is read
        request.check_finite(torch.cat(bad), "outputs", *pools)
        request.check_finite(non_finite(rows.tensor), "jolted outputs", *pools)
        return rows.finished()

    def watch(self, request: Request, *pools: Pool) -> Watch:
        """From inputs to what is watched of their outputs, as wide as the pools' longest example needs."""
        length = longest_sequence(request, pools or (request.pool,))
        return watched(self.what_moves(request), self.grid, request, length)

    def width(self, request: Request, watch: Watch) -> int:
        """The width d of what is watched, as a couple of examples show it."""
        with torch.no_grad():
            return watch(request.network.example).shape[1]

    def jolts_of(self, request: Request) -> Jolts:
        """The jolts that these settings say."""
        in_front = self.what_moves(request) == "features"
        return Jolts.of(request, self.scale, self.noise, self.parameters, in_front=in_front)

    def stretch(self, jolts: Jolts) -> float:
        """sqrt(P / K), by which movements are multiplied so that lengths estimate that of the Jacobian."""
        return math.sqrt(jolts.entries / self.jolts)

    def chunks(
        self, request: Request, batches: Iterator[Inputs], look: Look | None, n: int
    ) -> Iterator[Chunk]:
        """Micro-batches with what is watched of them, as many at once as the buffer holds.

        With a file for the rows a twentieth of the n examples at most, since that is what an interrupt loses.
        """
        room = request.room.buffer(self.buffer_bytes)
        most = self.largest_chunk(n)
        chunk = Chunk()
        for inputs in batches:
            chunk.add(inputs, *(() if look is None else look(inputs)))
            del inputs
            if chunk.held >= room or chunk.size >= most:
                yield chunk
                chunk = Chunk()
        if chunk.inputs:
            yield chunk

    def largest_chunk(self, n: int) -> int:
        """The most examples of n that meet all jolts together, whatever the buffer holds."""
        return n if self.rows_file is None else -(-n // SHARES)

    def recording(self, request: Request, jolts: Jolts, watch: Watch) -> Look:
        """From inputs to what is watched of them at rest, and the outputs of modules that no jolt reaches."""
        network = request.network
        partly = self.parameters is not None and self.estimator == "finite" and can_replay(network)
        if not partly:
            return lambda inputs: (watch(inputs), Record(network.module))
        return partial(Replay(network, jolts.moving).recorded, watch)

    def making(self, request: Request) -> Costs:
        """Movements of the pool, and of the labelled set where k-center starts from it."""
        pools = request.pools if self.start == "labeled" else (request.pool,)
        n = sum(map(len, pools))
        example = request.network.example
        with request.aside():
            watch = self.watch(request, *pools)
            width = self.width(request, watch)
            replayed = 0
            if self.parameters is not None:
                replayed = self.recording(request, self.jolts_of(request), watch)(example)[1].nbytes
        item, wide = request.row_type.itemsize, self.project or self.jolts * width
        inputs = sum(array.nbytes for array in arrays(example))
        each = (inputs + replayed) // count(example) + width * item
        held = max(
            min(n, request.micro_batch) * each,
            min(self.largest_chunk(n) * each, request.room.buffer(self.buffer_bytes)),
        )
        rows = n * wide * item
        return Costs(
            passes=n * (self.jolts + 1),
            rows=rows,
            width=wide,
            centers=n - len(request.pool),
            in_file=self.rows_file is not None or request.room.spills(rows),
            spills=self.rows_file is None and request.room.spills(rows),
            buffer=held,
            working=(self.project or 0) * width * item,
            what=f"movements of {n:,} examples under {self.jolts} jolts, {width:,} numbers each, and selection",
            instead=self.smaller(wide),
            cheaper=tuple(self.savings(n, width, item)),
        )

    def smaller(self, wide: int) -> str:
        """What needs less memory than rows that are so wide."""
        ways = (
            f"keep rows narrow with project={NARROW}" if wide > NARROW else "",
            "keep rows on disk with rows_file=" if self.rows_file is None else "",
            "pass a part of the pool",
        )
        return ", or ".join(filter(None, ways))

    def savings(self, n: int, width: int, item: int) -> Iterator[str]:
        """Settings under which n examples would take less."""
        if self.jolts > FEW_JOLTS:
            yield f"jolts={FEW_JOLTS}: {n * (FEW_JOLTS + 1):,} passes, with rougher rows"
        if self.race is None:
            yield "race='auto': only what can be picked is jolted in full, where that can be told"
        if self.project is None and self.jolts * width > NARROW:
            yield f"project={NARROW}: {in_words(n * NARROW * item)} of rows, with distances that are right on average"

    def scoring_seconds(self, rehearsal: Rehearsal, costs: Costs) -> float:
        """All passes, and for each chunk and jolt the noise."""
        request = rehearsal.request
        drawing = self.drawing_seconds(request)
        with request.aside():
            watch, jolts = self.watch(request), self.jolts_of(request)
            look = self.recording(request, jolts, watch)
            records = {id(inputs): look(inputs)[1] for inputs in rehearsal.batches}

        def jolted(inputs: Inputs) -> None:
            with records[id(inputs)]:
                watch(inputs)

        n, files = costs.passes // (self.jolts + 1), self.rows_file is not None
        chunks = max(1, -(-n * rehearsal.each // max(1, costs.buffer)), min(SHARES, n) if files else 0)
        clean = rehearsal.seconds(watch)
        tail = rehearsal.seconds(jolted) if self.parameters is not None else clean
        return n * (clean + self.jolts * tail) + chunks * self.jolts * drawing

    def drawing_seconds(self, request: Request) -> float:
        """How long one jolt takes to be drawn and applied, on the network of a `request`."""
        with request.aside():
            jolts, start = self.jolts_of(request), time.perf_counter()
            with jolts.applied(0):
                return time.perf_counter() - start

    def costs(self, request: Request, n: int | None) -> Costs:
        """What all jolts take; a race takes fewer passes and rows, by how much it finds out."""
        plain = super().costs(request, n)
        if self.race is None or n is None:
            return plain
        why = no_race(self, request, n)
        if not why:
            race = raced_costs(self, request, n, plain)
            if race.memory <= max(plain.memory, request.room.allowed):
                return race
            why = f"a race would hold {in_words(race.memory)} at once"
        return replace(plain, notes=(f"everything is jolted: {why}",))

    def what_moves(self, request: Request) -> Space:
        """The space as set, or as the task says; the exact derivative cannot follow features by a function."""
        space = self.space or request.task.moves
        if self.estimator == "jvp" and space == "features" and callable(request.network.given_head):
            raise ValueError(
                "estimator='jvp' needs head= as a layer's name; a function would not see the direction"
            )
        return space

    def rows_of_both(self, request: Request) -> tuple[Tensor, Tensor | None]:
        """Movements of the pool and of the labelled set, where there is one, under the same jolts."""
        return request.parted(self.rows(request, *request.pools))

    @contextmanager
    def jolted(self, jolts: Jolts, k: int, watch: Watch) -> Iterator[Measure]:
        """Measures movements under the k-th jolt, per unit of jolt: one jolt for all examples, so rows compare."""
        if self.estimator == "jvp":
            with directional_derivative(jolts.request.network, watch, jolts.direction(k)) as derivative:
                yield lambda inputs, clean: self.relative(derivative(inputs), clean)
        else:
            with jolts.applied(k):
                yield lambda inputs, clean: self.relative((watch(inputs) - clean) / jolts.reach, clean)

    def relative(self, movement: Tensor, clean: Tensor) -> Tensor:
        """Movements as they are, or over the lengths of the clean outputs."""
        return movement / clean_lengths(clean) if self.normalize else movement


def clean_lengths(clean: Tensor) -> Tensor:
    """Lengths of the clean outputs, (n, 1), kept away from 0."""
    found: Tensor = torch.linalg.vector_norm(clean, dim=1, keepdim=True)
    return found.clamp(min=torch.finfo(clean.dtype).tiny)
