"""Records of data: a `Split` is inputs with targets, a `Data` is a train and a test split with their meaning."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from jostle.datasets.fetch import DataError
from jostle.inputs import Batched, Pool
from jostle.inputs.sources import cut
from jostle.tasks import TASKS
from jostle.utils.names import cached_property

Batch = Tensor | dict[str, Tensor]
SETTLED = 2 * 10**9  # nanoseconds: a file touched since may be touched again without a new time


class Inputs(Protocol):
    """Anything with a length that gives a batch for a tensor of positions; a tensor is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Tensor, /) -> Batch: ...


class Targets(Protocol):
    """A tensor of targets, or files that are read as one batch by batch."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Fields:
    """Named columns of equal length, such as a tokenizer's: `fields[index]` is a dict of their rows.

    With `mask`, a batch loses the positions that are padding in all its rows; a single row keeps its width.
    """

    by_batch: ClassVar[bool] = True

    columns: Mapping[str, Tensor]
    """The columns by name, each (n, ...)."""
    mask: str | None = None
    """The column whose zeros are padding."""
    texts: tuple[str, ...] = ()
    """Texts before tokenizing, for previews."""

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) != 1:
            raise DataError(f"columns must exist and have one length, these have {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int | Tensor) -> dict[str, Tensor]:
        rows = {name: column[index] for name, column in self.columns.items()}
        if self.mask is None or rows[self.mask].dim() < 2:
            return rows
        used = rows[self.mask].bool().any(dim=0)  # (width,)
        return {name: row[:, used] if row.shape[1:] == used.shape else row for name, row in rows.items()}

    def part(self, start: int, stop: int) -> Fields:
        """The rows from `start` up to `stop`, counted from the first of them."""
        columns = {name: cut(column, start, stop) for name, column in self.columns.items()}
        return Fields(columns, self.mask, self.texts[start:stop])

    def preview(self, position: int) -> str:
        """The text of the row at a `position`, or its values where no text was kept."""
        return self.texts[position] if self.texts else str({k: v.tolist() for k, v in self[position].items()})


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts, or pairs of them, that no tokenizer has seen yet."""

    rows: tuple[tuple[str, ...], ...]
    """The texts of each example, one or two."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
        raise DataError("texts have to become numbers first: datasets.tokenize(data, encoder)")

    def originals(self, positions: Sequence[int]) -> Iterator[str | tuple[str, ...]]:
        """The texts at some positions; a pair as a tuple."""
        for position in positions:
            row = self.rows[position]
            yield row[0] if len(row) == 1 else row

    def part(self, start: int, stop: int) -> Texts:
        """The texts from `start` up to `stop`, counted from the first of them."""
        return Texts(self.rows[start:stop])

    def preview(self, position: int) -> str:
        """The text of the row at a `position`; the second of a pair on a line of its own."""
        return "\n".join(self.rows[position])


def batch_row(batch: Batch, place: int) -> Batch:
    """Return one example of a batch."""
    return (
        {name: column[place] for name, column in batch.items()} if isinstance(batch, dict) else batch[place]
    )


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of inputs that are read batch by batch."""

    whole: Any
    ids: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Tensor) -> Any:
        return self.whole[self.ids[index]]


def take_rows(whole: Any, ids: Tensor) -> Any:
    """Return some rows: of a tensor a tensor, of texts texts, of anything else a view."""
    if isinstance(whole, Texts):
        return Texts(tuple(whole.rows[position] for position in ids.tolist()))
    return whole[ids] if isinstance(whole, Tensor) else Part(whole, ids)


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs and their targets, row by row; a pool without labels has an empty tensor for targets."""

    inputs: Inputs
    """Inputs of a model: a batch for a tensor of positions."""
    targets: Targets
    """Targets to predict, in the same order."""
    names: Sequence[str] = ()
    """File names or row ids, where there are any."""
    numbered: bool = False
    """Whether names are only row numbers, which mean nothing in a different file."""

    def __post_init__(self) -> None:
        n = len(self.inputs)
        if len(self.targets) not in (n, 0):
            raise DataError(f"{n} inputs came with {len(self.targets)} targets")
        if len(self.names) not in (n, 0):
            raise DataError(f"{n} inputs came with {len(self.names)} names")

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, ids: Tensor) -> Split:
        """Return some examples, by their positions `ids`."""
        targets = take_rows(self.targets, ids) if len(self.targets) else self.targets
        names = tuple(self.names[position] for position in ids.tolist()) if self.names else ()
        return Split(take_rows(self.inputs, ids), targets, names, self.numbered)


def hold_out(names: Sequence[str], fraction: float | None) -> tuple[Tensor, Tensor]:
    """Return positions that stay, and those of the given fraction of names whose sha256 is smallest; none for None.

    They are equal on every machine and in every version, and one name more or less changes little.
    """
    if fraction is not None and not 0 <= fraction < 1:
        raise DataError(f"the test fraction must be from 0 to below 1, not {fraction}")
    order = sorted(range(len(names)), key=lambda i: hashlib.sha256(names[i].encode()).digest())
    held = torch.zeros(len(names), dtype=torch.bool)
    held[order[: round(len(names) * (fraction or 0))]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


@dataclass(frozen=True, eq=False)
class Data:
    """A data set: examples to learn from, examples to test on, and the meaning of their numbers.

    Images are float32 and already normalized with `mean` and `std`; `preview` shows them as they were.
    """

    name: str
    """Name in reports and errors."""
    task: str | None
    """A name of `jostle.tasks.TASKS`; None for a pool without labels."""
    train: Split
    """Examples to learn from and to pick from."""
    test: Split
    """Examples that models are measured on."""
    classes: tuple[str, ...] = ()
    """The classes by number, or the labels of multi-label; empty for regression and without labels."""
    mean: tuple[float, ...] = ()
    """Of each channel, of pixels in 0..1; empty where inputs are not normalized."""
    std: tuple[float, ...] = ()
    """Of each channel, as `mean`."""
    columns: tuple[str, ...] = ()
    """Names of the columns of a table."""
    positive: str | None = None
    """Of two classes, the one that is looked for: its F1 is a metric."""
    sources: tuple[Path, ...] = field(default=(), repr=False)
    """Files and folders that were read."""

    def __post_init__(self) -> None:
        if self.task is not None and self.task not in TASKS:
            raise DataError(f"{self.name}: task is one of {', '.join(TASKS)} or None, not {self.task!r}")
        if self.positive is not None and self.positive not in self.classes:
            raise DataError(f"{self.name}: positive is one of {self.classes}, not {self.positive!r}")
        if len(self.mean) != len(self.std) or not all(s > 0 for s in self.std):
            raise DataError(f"{self.name}: mean {self.mean} and std {self.std} must pair up, std above zero")
        for part, split in (("train", self.train), ("test", self.test)):
            check_targets(f"{self.name}, {part}", self.task, split.targets, len(self.classes))

    @property
    def black(self) -> tuple[float, ...]:
        """The normalized value of a black pixel, per channel: what a padded crop pads with."""
        return tuple(-m / s for m, s in zip(self.mean, self.std, strict=True))

    @property
    def outputs(self) -> int:
        """Number of outputs of a model for one example, or for one pixel."""
        return 1 if self.task is None else TASKS[self.task].width(len(self.classes))

    @property
    def positive_class(self) -> int | None:
        """The number of the class that is looked for, where there is one."""
        return None if self.positive is None else self.classes.index(self.positive)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input, such as (1, 28, 28); empty for named columns, whose widths vary."""
        row = self.train.inputs[torch.tensor([0])]
        return tuple(row.shape[1:]) if isinstance(row, Tensor) else ()

    def names(self, position: int) -> str:
        """The file name or row id of the training example at a `position`; the position where it has neither."""
        return self.train.names[position] if self.train.names else str(position)

    def preview(self, position: int) -> Image.Image | str:
        """The training example at a `position` as people know it: an image, or a line of text."""
        if not 0 <= position < len(self.train):
            raise DataError(f"{self.name} has {len(self.train)} training examples, and no number {position}")
        inputs = self.train.inputs
        if not isinstance(inputs, Tensor):
            show = getattr(inputs, "preview", None)
            return show(position) if show else self.names(position)
        row = inputs[position]
        if row.dim() == 3:
            return self._picture(row)
        if len(self.columns) == row.numel():
            return ", ".join(f"{column} {value:g}" for column, value in self.cells(position))
        return ", ".join(f"{value:g}" for value in row.flatten().tolist())

    def cells(self, position: int) -> list[tuple[str, float]]:
        """The columns that are not zero of the row at a `position`, with values; none where the data is no table."""
        inputs = self.train.inputs
        if not self.columns or not isinstance(inputs, Tensor):
            return []
        # one-hot columns that are off would drown the rest
        row = inputs[position].flatten().tolist()
        return [pair for pair in zip(self.columns, row, strict=True) if pair[1]]

    def _picture(self, row: Tensor) -> Image.Image:
        if self.mean:
            mean, std = (torch.tensor(v, device=row.device).view(-1, 1, 1) for v in (self.mean, self.std))
            row = row * std + mean
        else:  # nobody said how it was scaled
            row = (row - row.min()) / (row.max() - row.min()).clamp_min(1e-12)
        pixels = (row * 255).round().clamp(0, 255).to("cpu", torch.uint8)  # (channels, height, width)
        if len(pixels) == 3:
            return Image.fromarray(pixels.permute(1, 2, 0).numpy(), "RGB")
        return Image.fromarray(pixels[0].numpy(), "L")

    @cached_property
    def checksums(self) -> dict[str, str]:
        """Checksums (sha256) by file, with one for all files of a folder; of tensors if no file was read."""
        sums = {
            f"{path.name}/" if path.is_dir() else path.name: _folder_sum(path)
            if path.is_dir()
            else _file_sum(path)
            for path in self.sources
        }
        if self.sources:
            return sums
        for name, split in (("train", self.train), ("test", self.test)):
            for what, part in (("inputs", split.inputs), ("targets", split.targets)):
                if isinstance(part, Tensor):
                    content = part.detach().cpu().contiguous().numpy().tobytes()
                    head = f"{part.dtype} {tuple(part.shape)} ".encode()
                    sums[f"{name} {what}"] = hashlib.sha256(head + content).hexdigest()
        return sums


def check_targets(where: str, task: str | None, targets: Targets, classes: int) -> None:
    """Raise DataError for targets that a task cannot have; `where` names them."""
    if task is not None and isinstance(targets, Tensor) and len(targets):
        try:
            TASKS[task].check_targets(targets, classes)
        except ValueError as wrong:
            raise DataError(f"{where}: {wrong}") from None


def _file_sum(path: Path) -> str:
    """Return the sha256 of a file; a file that has not changed is read once."""
    stat = path.stat()
    stamp = (path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    settled = time.time_ns() - stat.st_mtime_ns > SETTLED
    return (_content_sum if settled else _content_sum.__wrapped__)(*stamp)


@lru_cache(maxsize=2**20)
def _content_sum(path: Path, *stamp: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_sum(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor() as threads:  # hashing leaves Python's lock
        sums = list(threads.map(_file_sum, files))
    lines = (
        f"{found}  ".encode() + os.fsencode(path.relative_to(folder).as_posix()) + b"\n"
        for found, path in zip(sums, files, strict=True)
    )
    return hashlib.sha256(b"".join(lines)).hexdigest()


def as_pool(inputs: Inputs, ids: Tensor | None = None) -> Pool:
    """Return inputs as a pool whose positions are their ids."""
    return Pool(Batched(inputs), torch.arange(len(inputs)) if ids is None else ids)


class Examples(Dataset[tuple[Any, Tensor]]):
    """Labeled examples of a split that are not tensors: one for a position, a batch for a tensor of positions.

    Texts of unequal length are padded for a batch only, so they cannot be put together one by one.
    """

    by_batch = True

    def __init__(self, inputs: Inputs, targets: Targets) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int | Tensor) -> tuple[Any, Tensor]:
        if isinstance(index, Tensor):
            return self.inputs[index], self.targets[index]
        row, target = self[torch.tensor([index])]
        return batch_row(row, 0), target[0]


def as_dataset(inputs: Any, targets: Any) -> Dataset[Any]:
    """Return inputs and their targets as a dataset of (x, y)."""
    if isinstance(inputs, Tensor) and isinstance(targets, Tensor):
        return TensorDataset(inputs, targets)
    return Examples(inputs, targets)


def split_columns(dataset: Any) -> tuple[Any, Any]:
    """Return the inputs and the targets of a dataset of (x, y)."""
    if isinstance(dataset, TensorDataset):
        return dataset.tensors[0], dataset.tensors[1]
    if isinstance(dataset, Examples):
        return dataset.inputs, dataset.targets
    items = [dataset[position] for position in range(len(dataset))]
    return torch.stack([x for x, _ in items]), torch.stack([torch.as_tensor(y) for _, y in items])
