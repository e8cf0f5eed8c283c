"""Views of a data set without copies: a pool, a labeled dataset, inputs through a tokenizer or a user's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset, default_collate

from jostle.datasets.data import Batch, Data, Fields, Inputs, Split, Texts, batch_row
from jostle.datasets.fetch import DataError
from jostle.inputs import Batched, Pool
from jostle.inputs.sources import cut
from jostle.training.train import Indexed


def tokenize(data: Data, encoder: str | Path, length: int = 128) -> Data:
    """Tokenize the texts of `data` for an encoder (a folder or a hub name), at most `length` tokens each.

    Rows are padded to the longest of their split, and batches drop what is padding in all their rows.
    """
    tokenizer = load_tokenizer(str(encoder))

    def tokenized(split: Split) -> Split:
        if not isinstance(split.inputs, Texts):
            raise DataError(f"{data.name} has no texts to tokenize")
        texts = split.inputs
        columns = tokenize_texts(tokenizer, texts.rows, length)
        shown = tuple(texts.preview(position) for position in range(len(texts)))
        return replace(split, inputs=Fields(columns, "attention_mask", shown))

    return replace(data, train=tokenized(data.train), test=tokenized(data.test))


@lru_cache(maxsize=4)
def load_tokenizer(encoder: str) -> Any:
    """Load the tokenizer of an encoder, a folder or a hub name."""
    try:
        from transformers import AutoTokenizer
    except ImportError as reason:
        raise ImportError("texts need transformers: pip install jostle[nlp]") from reason
    try:
        return AutoTokenizer.from_pretrained(encoder)  # nosec B615  # the user names it, with a revision if wanted
    except (OSError, ValueError) as reason:
        raise DataError(
            f"no tokenizer at {encoder!r}, expected a model's folder or hub name: {reason}"
        ) from reason


def tokenize_texts(tokenizer: Any, rows: Sequence[tuple[str, ...]], length: int) -> dict[str, Tensor]:
    """Tokenize texts, or pairs of them, to the columns that an encoder reads, padded to the longest."""
    some = rows or [("",)]  # tokenizers refuse an empty list
    pieces = [list(piece) for piece in zip(*some, strict=True)]
    columns = tokenizer(
        *pieces, truncation=True, max_length=length, padding=True, padding_side="right", return_tensors="pt"
    )
    return {name: column[: len(rows)] for name, column in columns.items()}


def as_pool(inputs: Indexed, ids: Tensor | None = None) -> Pool:
    """Return inputs as a pool whose positions are their ids."""
    return Pool(Batched(inputs), torch.arange(len(inputs)) if ids is None else ids)


class Examples(Dataset[tuple[Any, Tensor]]):
    """Labeled examples of a split that are not tensors: one for a position, a batch for a tensor of positions.

    Texts of unequal length are padded for a batch only, so they cannot be put together one by one.
    """

    by_batch = True

    def __init__(self, inputs: Indexed, targets: Indexed) -> None:
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


Transform = Callable[[Any], Any]  # an image, a text or a tensor -> a tensor, or a dict of them


def apply_transform(data: Data, transform: Transform, name: str = "the transform") -> Data:
    """Apply a transform to every example of `data`; previews stay as they were.

    The transform gets a PIL image just as it is in its file or in its cell of a Parquet file. It gets a text as a
    string, a pair as a tuple, and anything else as a tensor. It must not draw random numbers, since jostle may read an
    example twice.
    """

    def changed(split: Split) -> Split:
        return replace(split, inputs=Transformed(split.inputs, transform, name, data.preview, split.names))

    return replace(data, train=changed(data.train), test=changed(data.test))


@dataclass(frozen=True, eq=False)
class Transformed:
    """Inputs that a function makes, one by one, of other inputs."""

    by_batch: ClassVar[bool] = True

    inputs: Inputs
    transform: Transform
    name: str  # of the transform, for errors
    preview: Callable[[int], Image.Image | str] | None  # None: nobody is shown these
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: Tensor) -> Batch:
        positions = index.tolist()
        if hasattr(self.inputs, "originals"):
            originals = self.inputs.originals(positions)
        else:
            batch = self.inputs[index]  # a copy of its own, which the transform may change
            originals = (batch_row(batch, place) for place in range(len(positions)))
        made = [self._made(i, x) for i, x in zip(positions, originals, strict=True)]
        shapes = [{name: tuple(part.shape) for name, part in columns.items()} for columns in made]
        for position, shape in zip(positions, shapes, strict=True):
            if shape != shapes[0]:
                this, first = (each.get("", each) for each in (shape, shapes[0]))
                raise DataError(
                    f"{self.name} returned {this} for {self._named(position)} and {first} for "
                    f"{self._named(positions[0])}: examples of a batch need one shape"
                )
        batch = default_collate(made)
        return batch.get("", batch)  # type: ignore[no-any-return]

    def part(self, start: int, stop: int) -> Transformed | None:
        """Return the examples from `start` up to `stop`, counted from the first of them; None if they cannot be cut."""
        inputs = cut(self.inputs, start, stop)
        names = cut(self.names, start, stop)
        return None if inputs is None else Transformed(inputs, self.transform, self.name, None, names)

    def __str__(self) -> str:
        return f"as {self.name} makes them"

    def _made(self, position: int, example: Any) -> dict[str, Tensor]:
        """Return what the transform makes of an example, by column; a single tensor has no name."""
        made = self.transform(example)
        try:
            columns = made if isinstance(made, dict) else {"": made}
            return {key: torch.as_tensor(value) for key, value in columns.items()}
        except (TypeError, ValueError, RuntimeError):
            raise DataError(
                f"{self.name} returned {type(made).__name__} for {self._named(position)}; "
                "expected a tensor, or a dict of tensors"
            ) from None

    def _named(self, position: int) -> str:
        return self.names[position] if self.names else f"example {position}"
