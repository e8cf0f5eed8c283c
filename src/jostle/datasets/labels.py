"""Labels of a user's own: which examples they are about, and classes as the outputs of a model count them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jostle.datasets.catalog import Transformed
from jostle.datasets.data import Batch, Data, Fields, Inputs, Split, Texts, batch_row, take_rows
from jostle.datasets.fetch import DataError, File, Member, file_size
from jostle.datasets.images import ImageFiles
from jostle.datasets.parquet import ParquetInputs
from jostle.datasets.table_files import CsvFile, read_csv
from jostle.datasets.tables import encode_targets
from jostle.inputs.sources import parted
from jostle.utils.files import unhidden

ROWS = 1024  # read at once


def find_shared(pool: Data, known: Data) -> Tensor:
    """Return the positions of the pool's examples that `known` holds too, whatever kind of file they come from.

    Pictures are the same if they are one file or have the same bytes, texts if they have the same words. Rows with ids
    on both sides are the same if they have the same id. Everything else is the same if the model gets the same
    numbers. A row number is no id.
    """
    ours, theirs = _inputs(pool), _inputs(known)
    kinds = {_kind(ours), _kind(theirs)}
    if kinds == {"images"}:
        return _places(_same_files(ours, theirs))
    if all(data.train.names and not data.train.numbered for data in (pool, known)):
        return _places_among(pool.train.names, known.train.names)
    if kinds == {"texts"}:
        return _places_among(_texts(ours), _texts(theirs))
    tables = bool(pool.columns and known.columns)
    rows = (
        _contents(ours, pool.columns if tables else ()),
        _contents(theirs, known.columns if tables else ()),
    )
    return _places_among(*rows)


def find_named(pool: Data, names: Collection[str]) -> Tensor:
    """Return the positions of the pool's examples with one of these names."""
    return _places_among(map(pool.names, range(len(pool.train))), names)


def _places_among(ours: Iterable[Hashable], theirs: Iterable[Hashable]) -> Tensor:
    known = set(theirs)
    return _places([each in known for each in ours])


def _places(known: Sequence[bool]) -> Tensor:
    return torch.tensor(known, dtype=torch.bool).nonzero().flatten()


def _inputs(data: Data) -> Inputs:
    inputs = data.train.inputs
    return inputs.inputs if isinstance(inputs, Transformed) else inputs


def _kind(inputs: Inputs) -> str:
    """Return "images" or "texts" if originals of that kind can be compared, else an empty string."""
    if isinstance(inputs, ParquetInputs):
        return inputs.reading.kind
    texts = isinstance(inputs, Texts) or (isinstance(inputs, Fields) and inputs.texts)
    return "images" if isinstance(inputs, ImageFiles) else "texts" if texts else ""


def _texts(inputs: Inputs) -> Iterator[str]:
    """Yield the texts of all examples; the two of a pair on lines of their own."""
    if isinstance(inputs, ParquetInputs):
        for positions in _batches(inputs):
            yield from inputs.originals(positions.tolist())
    elif isinstance(inputs, Fields):
        yield from inputs.texts
    elif isinstance(inputs, Texts):
        yield from (inputs.preview(position) for position in range(len(inputs)))


def _files(inputs: Inputs) -> Iterator[File]:
    """Yield the files of all pictures, of a Parquet file a batch at a time."""
    if isinstance(inputs, ImageFiles):
        yield from inputs.pixels.files
    elif isinstance(inputs, ParquetInputs):
        for positions in _batches(inputs):
            yield from inputs.files(positions.tolist())


def _batches(inputs: Inputs) -> Iterator[Tensor]:
    """Yield the positions of all examples, a batch at a time; no batch lies in two row groups."""
    for part in parted(torch.arange(len(inputs)), getattr(inputs, "starts", ())):
        yield from part.split(ROWS)


def _same_files(ours: Inputs, theirs: Inputs) -> list[bool]:
    """Return which of our files are among theirs; only files of equal size are compared."""
    known = {(file_size(file), _sum(file)) for file in _files(theirs)}
    sizes = {size for size, _ in known}
    return [(size := file_size(file)) in sizes and (size, _sum(file)) in known for file in _files(ours)]


def _sum(file: File) -> bytes:
    return hashlib.sha256(file.content if isinstance(file, Member) else file.read_bytes()).digest()


def _contents(inputs: Inputs, columns: Sequence[str]) -> list[Hashable]:
    """Return the content of each row; of tables by column, since words that do not occur have no column."""
    if isinstance(inputs, Fields):
        return [_bytes(_unpadded(inputs, position)) for position in range(len(inputs))]
    found: list[Hashable] = []
    for positions in _batches(inputs):
        batch = inputs[positions]
        for place in range(len(positions)):
            row = batch_row(batch, place)
            if columns and isinstance(row, Tensor):
                found.append(frozenset(pair for pair in zip(columns, row.tolist(), strict=True) if pair[1]))
            else:
                found.append(_bytes(row))
    return found


def _unpadded(fields: Fields, position: int) -> dict[str, Tensor]:
    """Return one row without its padding, whose width depends on the texts beside it."""
    row = fields[position]
    if fields.mask is None:
        return row
    used = row[fields.mask].bool()
    return {name: part[used] if part.shape == used.shape else part for name, part in row.items()}


def _bytes(row: Batch) -> bytes:
    whole = hashlib.sha256()
    for name, part in sorted(row.items()) if isinstance(row, dict) else [("", row)]:
        whole.update(f"{name} {part.dtype} {tuple(part.shape)} ".encode())
        whole.update(part.detach().cpu().contiguous().numpy().tobytes())
    return whole.digest()


LABEL_COLUMNS = ("label", "target", "answer")


def has_labels_by_name(pool: Data, path: Path, settings: Mapping[str, Any]) -> bool:
    """Return whether a csv holds labels of the pool's examples by name, and no inputs of its own.

    Such a csv has a column `name` and a column of labels; other columns are none that the pool has.
    """
    header = set(CsvFile(path).header())
    columns = {column.partition("=")[0] for column in pool.columns}
    target = settings.get("target")
    found = header & set(LABEL_COLUMNS) if target is None else {target} & header
    inputs = {"text", "text1", "text2"} | (columns - {"name"})
    return "name" in header and bool(found) and "text" not in settings and not header & inputs


def read_labels(
    pool: Data,
    path: Path,
    target: str | None = None,
    task: str | None = None,
    classes: Sequence[str] | None = None,
) -> Data:
    """Read labels by name: the pool's examples that a csv names, with their labels.

    Args:
        pool: The data that the names are of.
        path: A csv with a column `name`; of an export of `jostle label`, the answers of people count.
        target: The column of labels; None: `label`, `target` or `answer`.
        task: The name of a task; None: numbers mean regression for rows of numbers, all else means classification.
        classes: The classes in the order of the model's outputs; None: by name.

    Raises:
        DataError: A name is not in the pool, or has two labels.
    """
    table = read_csv(path)
    column = target or next((name for name in LABEL_COLUMNS if name in table), None)
    if "name" not in table or column not in table:
        raise DataError(f"{path} must have a column name and a column of labels; it has {', '.join(table)}")
    people = [by in ("people", "") for by in table.get("by", [""] * len(table["name"]))]
    labels: dict[str, str] = {}
    for name, label, counts in zip(table["name"], table[column], people, strict=True):
        if counts and labels.setdefault(unhidden(name), label) != label:
            raise DataError(f"{path} has two labels for {name}: {labels[unhidden(name)]} and {label}")
    names = pool.train.names or [str(position) for position in range(len(pool.train))]
    positions = [position for position, name in enumerate(names) if name in labels]
    if unknown := sorted(labels.keys() - {names[position] for position in positions}):
        raise DataError(
            f"{path} names {unknown[0]}, which is not in {pool.name} (and {len(unknown) - 1} more): name examples as "
            f"the pool does, such as {names[0]}"
        )
    chosen = [names[position] for position in positions]
    usual = None if isinstance(pool.train.inputs, Tensor) else "classification"
    told, targets, found = encode_targets(
        path, {column: [labels[name] for name in chosen]}, task or usual, classes
    )
    split = Split(_take(pool.train.inputs, torch.tensor(positions)), targets, chosen, pool.train.numbered)
    test = Split(torch.empty(0), torch.empty(0))
    return replace(
        pool, name=f"csv:{path}", task=told, train=split, test=test, classes=found, sources=(path,)
    )


def align_columns(pool: Data, labeled: Data) -> tuple[Data, Data]:
    """Give the features of two tables the same columns: one for each category that either of them has.

    Raises:
        DataError: A table lacks a column of the other, or has missing values there.
    """
    tables = all(data.columns and isinstance(data.train.inputs, Tensor) for data in (pool, labeled))
    if pool.columns == labeled.columns or not tables:
        return pool, labeled
    known, other = (dict.fromkeys(map(_variable, data.columns)) for data in (pool, labeled))
    for lacking, data, rest in ((known.keys() - other, labeled, pool), (other.keys() - known, pool, labeled)):
        if lacking:
            raise DataError(
                f"{data.name} has no column {min(lacking)}, or gaps in it, but {rest.name} has it: fill it or leave it "
                f"out with drop=[{min(lacking)}]"
            )
    categories = {*pool.columns, *labeled.columns}
    columns = [name for each in known for name in sorted(categories) if _variable(name) == each]
    return _with_columns(pool, columns), _with_columns(labeled, columns)


def _variable(column: str) -> str:
    return column.partition("=")[0]  # of a one-hot column, kind=cat


def _with_columns(data: Data, columns: Sequence[str]) -> Data:
    places = {name: place for place, name in enumerate(data.columns)}

    def widened(split: Split) -> Split:
        if not isinstance(split.inputs, Tensor) or not len(split):
            return split
        absent = split.inputs.new_zeros(len(split))
        rows = [split.inputs[:, places[name]] if name in places else absent for name in columns]
        return replace(split, inputs=torch.stack(rows, 1))  # (n, d)

    return replace(data, train=widened(data.train), test=widened(data.test), columns=tuple(columns))


def _take(inputs: Any, positions: Tensor) -> Any:
    """Return some examples; image files stay files, so that they can be compared by content."""
    if isinstance(inputs, Transformed):
        names = [inputs.names[position] for position in positions.tolist()] if inputs.names else ()
        return replace(inputs, inputs=_take(inputs.inputs, positions), names=names, preview=None)
    return inputs.take(positions) if isinstance(inputs, ImageFiles) else take_rows(inputs, positions)


def match_classes(labeled: Data, outputs: int, pool: Data | None = None) -> Data:
    """Renumber the classes of a labeled set as the outputs of a model count them.

    Classes that are numbers from 0 to `outputs` - 1 are taken as they are.

    Args:
        labeled: Examples with classes.
        outputs: How many classes the model knows.
        pool: The pool, whose folders may be named by classes too.

    Raises:
        DataError: The classes are not those of the model, so that their numbers would mean different classes.
    """
    names = labeled.classes
    remedy = (
        "pass all classes in the order of the model's outputs, as in folder:PATH(classes=[cat, dog, owl])"
    )
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    absent = sorted(set(pool.classes) - set(names)) if pool and set(pool.classes) & set(names) else []
    if absent and len(names) <= outputs:
        raise DataError(
            f"{labeled.name} has the classes {shown}, but not {absent[0]}, which the pool has: {remedy}"
        )
    if len(names) == outputs:
        return labeled
    if names and all(name.isdecimal() and int(name) < outputs for name in names):
        numbers = torch.tensor([int(name) for name in names])
        targets = numbers[labeled.train.targets[torch.arange(len(labeled.train))]]
        train = replace(labeled.train, targets=targets)
        return replace(labeled, train=train, classes=tuple(map(str, range(outputs))))
    raise DataError(
        f"{labeled.name} has {len(names)} classes ({shown}), but the model has {outputs}: {remedy}"
    )
