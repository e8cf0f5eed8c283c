"""What is looked at before a run goes on: the data is still what the manifest says, the file on disk is this run's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from jostle.datasets import Data
from jostle.results.cycles import Cycle
from jostle.results.store import RunFile
from jostle.runs.bench import Bench
from jostle.runs.loop import initial_set

Stamp = tuple[str, int, int]  # a file's path, size, and time of its last change


class DataGuard:
    """Refuses data that is not what was recorded; files that nobody touched meanwhile are not read again."""

    def __init__(self, data: Data, recorded: Mapping[str, str]) -> None:
        self.data, self.recorded = data, recorded
        self.seen: list[Stamp] = []  # when the data was last found to be as recorded

    @property
    def reads_files(self) -> bool:
        """Whether examples are read from files as they are asked for, so that an edit reaches a run under way."""
        splits = (self.data.train, self.data.test)
        return not all(isinstance(part, Tensor) for split in splits for part in (split.inputs, split.targets))

    def verify(self) -> None:
        """Compare checksums, and name what differs."""
        stamps = sorted(stamps_of(self.data.sources))
        if stamps and stamps == self.seen:
            return
        found = replace(self.data).checksums  # of a record that remembers none
        names = [*self.recorded, *(name for name in found if name not in self.recorded)]
        changed = [name for name in names if self.recorded.get(name) != found.get(name)]
        if changed:
            raise ValueError(
                f"{self.data.name} is not what it was when the command began ({', '.join(changed)} changed): "
                "bring it back, and the same command goes on, or begin anew in another folder"
            )
        self.seen = stamps


def stamps_of(sources: Sequence[Path]) -> Iterator[Stamp]:
    """Size and time of every file that was read, those inside of folders too."""
    for source in sources:
        for path in source.rglob("*") if source.is_dir() else [source]:
            if path.is_file():
                found = path.stat()
                yield str(path), found.st_size, found.st_mtime_ns


class RunGuard:
    """Refuses cycles on disk that this protocol cannot have made with this seed."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.initial: dict[int, list[int]] = {}  # seed -> ids

    def read(self, file: RunFile) -> list[Cycle]:
        """The cycles of a run, as far as they are written, each as the protocol wants it."""
        done = file.read()
        for place, cycle in enumerate(done):
            if why := self._wrong(cycle, file.seed):
                raise file.corrupt(place, why)
        return done

    def _wrong(self, cycle: Cycle, seed: int) -> str:
        pool, wanted = len(self.bench.data.train), self.bench.pick if cycle.cycle else self.bench.initial
        if len(cycle.picked) != wanted:
            return f"it labels {len(cycle.picked)} examples, where the protocol says {wanted}"
        if max(cycle.picked) >= pool:
            return f"it labels example {max(cycle.picked)} of {pool}"
        if cycle.cycle == 0 and cycle.picked != self._drawn(seed):
            return f"its examples are not the initial set that seed {seed} draws"
        return ""

    def _drawn(self, seed: int) -> list[int]:
        if seed not in self.initial:
            self.initial[seed] = initial_set(self.bench, seed).tolist()
        return self.initial[seed]
