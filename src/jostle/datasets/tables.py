"""Tables: the Ames house prices, and a user's own csv."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from jostle.datasets.data import Data, Split
from jostle.datasets.errors import DataError
from jostle.datasets.fetch import Source, fetch
from jostle.datasets.folders import held_out
from jostle.datasets.text import Texts
from jostle.plumbing.names import printable

AMES = Source(
    "ames",
    "train.csv",
    "https://www.kaggle.com/competitions/house-prices-advanced-regression-techniques/data",
)
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL"})
MOST_WORDS = 1000  # one-hot columns for one column of words; more is a name or a text, not a category

TRUTHS = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}  # whatever their capitals

Table = Mapping[str, Sequence[str]]  # column -> its cells, all of one length


def ames(root: Path | None) -> Data:
    """Ames: 730 + 730 house prices from 215 features; put Kaggle's train.csv into ames/.

    The 60 columns without a missing value, words as one-hot; the first half of the rows is the training set.
    Neither inputs nor prices are scaled.
    """
    path = fetch(root, AMES)
    table = read_csv(path)
    if absent := {"Id", "SalePrice"} - set(table):
        raise DataError(
            f"{path} has no column {' and no '.join(sorted(absent))}: expected Kaggle's train.csv"
        )
    features, columns = encoded(
        {name: table[name] for name in table if name not in ("Id", "SalePrice")}, path
    )
    prices = numbers(path, "SalePrice", table["SalePrice"])
    names, half = tuple(table["Id"]), len(prices) // 2
    train = Split(features[:half], prices[:half], names[:half])
    test = Split(features[half:], prices[half:], names[half:])
    return Data("ames", "regression", train, test, columns=columns, sources=(path,))


def csv_table(
    path: Path,
    target: str | Sequence[str] | None = None,
    text: str | Sequence[str] | None = None,
    task: str | None = None,
    drop: Sequence[str] = (),
    test: float | None = 0.2,
    classes: Sequence[str] | None = None,
) -> Data:
    """A csv of your own: numbers as they are, words as one-hot, or a column of text (two: pairs).

    A column `id` names the rows. Columns with gaps are left out.

    Args:
        path: The file.
        target: The column to predict; several are the labels of multi-label data, each 0 or 1 (true or false, yes or
            no); None: the column `target` or `label`, and without one the table is a pool.
        text: The column of text, or a list of two; None: those named `text`, or `text1` and `text2`, if there are any.
        task: The name of a task; None: numbers as targets mean regression, words and texts classification.
        drop: Columns that are left out.
        test: The share of rows that is held out; None: nothing is.
        classes: The classes in the order of the model's outputs; None: by name.
    """
    table = read_csv(path)
    goals = _goals(path, table, target)
    pieces = _text_columns(path, table, text)
    identity = next((name for name in table if name.lower() == "id"), None)
    left_out = {*goals, identity, *(_column(path, table, name) for name in drop)}
    numbers = {name: cells for name, cells in table.items() if name not in left_out}
    inputs, columns = _texts(table, pieces) if pieces else encoded(numbers, path)
    task, targets, names = _targets(
        path, goals, table, task or ("classification" if pieces else None), classes
    )
    rows = [str(row) for row in range(len(inputs))]
    held = held_out(rows, test if goals else None)
    train, later = (
        _at(inputs, targets, table[identity] if identity else rows, chosen, numbered=identity is None)
        for chosen in ([i for i in range(len(rows)) if i not in held], sorted(held))
    )
    positive = names[1] if len(pieces) == len(names) == 2 else None  # are the two texts of a pair alike?
    return Data(
        printable(f"csv:{path}"),
        task,
        train,
        later,
        names,
        columns=columns,
        positive=positive,
        sources=(path,),
    )


def read_csv(path: Path) -> Table:
    """The columns of a csv with a header; rows of another width are an error that names the line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise DataError(f"{path} cannot be read, expected a csv in UTF-8: {reason}") from reason
    if not rows or len(set(header)) != len(header):
        raise DataError(
            f"{path}: expected a line of distinct column names, then rows; "
            f"found {header[:5]}, {len(rows)} rows"
        )
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(f"{path}, line {line}: {len(row)} cells where the header has {len(header)}")
    return {name: [row[i] for _, row in rows] for i, name in enumerate(header)}


def encoded(table: Table, path: Path) -> tuple[Tensor, tuple[str, ...]]:
    """Features (n, d) float32 and their names: columns of numbers, then a 0/1 column for each other word.

    Columns with a missing value are left out.
    """
    whole = {name: cells for name, cells in table.items() if MISSING.isdisjoint(cells)}
    numeric = {name: cells for name, cells in whole.items() if _numeric(cells)}
    features = [np.array(cells, dtype=np.float64) for cells in numeric.values()]
    columns = list(numeric)
    for name in [name for name in whole if name not in numeric]:
        words = sorted(set(whole[name]))
        if len(words) > MOST_WORDS:
            raise DataError(
                f"{path}: column {name} has {len(words)} different words; drop it, or name it as text"
            )
        cells = np.array(whole[name])
        features += [cells == word for word in words]
        columns += [f"{name}={word}" for word in words]
    if not columns:
        raise DataError(f"{path} has no column without a missing value to learn from")
    return torch.from_numpy(np.stack(features, axis=1).astype(np.float32)), tuple(columns)


def labels(values: Sequence[str], order: Sequence[str] | None = None) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers and class names: in the order given, else as numbers where all of them are, else as words."""
    classes = order or sorted(set(values), key=(lambda v: (float(v), v)) if _numeric(values) else None)
    if more := sorted(set(values) - set(classes)):
        raise DataError(f"the label {more[0]!r} is not among classes {list(classes)}")
    number = {name: i for i, name in enumerate(classes)}
    return torch.tensor([number[value] for value in values]), tuple(classes)


def _goals(path: Path, table: Table, target: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns to predict: those named, else `target` or `label`, else none."""
    if target is None or isinstance(target, str):
        found = _column(path, table, target, "target", "label")
        return () if found is None else (found,)
    for name in target:
        _column(path, table, name)
    return tuple(target)


def _targets(
    path: Path, names: Sequence[str], table: Table, task: str | None, order: Sequence[str] | None = None
) -> tuple[str | None, Tensor, tuple[str, ...]]:
    if not names:
        return None, torch.empty(0), ()
    for name in names:
        if gaps := [row for row, cell in enumerate(table[name]) if cell in MISSING]:
            raise DataError(
                f"{path}: row {gaps[0]} has no {name} (and {len(gaps) - 1} more): every row needs one"
            )
    cells = table[names[0]]
    task = task or ("regression" if _numeric(cells) else "classification")
    if len(names) > 1 or task == "multi-label":
        truths = [_truths(path, name, table[name]) for name in names]
        return "multi-label", torch.tensor(truths).T.contiguous(), tuple(names)  # (n, labels)
    if task == "regression":
        return task, numbers(path, names[0], cells), ()
    if task in ("classification", "binary"):
        return task, *labels(cells, order and [str(name) for name in order])
    raise DataError(f"a table is for classification, binary, regression or multi-label, not {task}")


def _truths(path: Path, name: str, cells: Sequence[str]) -> list[float]:
    if odd := [cell for cell in cells if cell.lower() not in TRUTHS]:
        raise DataError(f"{path}: the label {name} has {odd[0]!r}, expected {', '.join(TRUTHS)}")
    return [TRUTHS[cell.lower()] for cell in cells]


def _numeric(cells: Sequence[str]) -> bool:
    try:
        return all(math.isfinite(float(cell)) for cell in cells)
    except ValueError:
        return False


def numbers(path: Path, name: str, cells: Sequence[str]) -> Tensor:
    """A column of numbers, (n,), or an error that shows what is none."""
    if not _numeric(cells):
        odd = next(cell for cell in cells if not _numeric([cell]))
        raise DataError(f"{path}: column {name} has {odd!r} where numbers were expected")
    return torch.tensor([float(cell) for cell in cells])


def _column(path: Path, table: Table, name: str | None, *usual: str) -> str | None:
    if name is not None and name not in table:
        raise DataError(f"{path} has no column {name!r}; it has {', '.join(table)}")
    return name or next((name for name in usual if name in table), None)


def _text_columns(path: Path, table: Table, text: str | Sequence[str] | None) -> tuple[str, ...]:
    if text is None:
        usual = ("text",) if "text" in table else ("text1", "text2")
        return usual if set(usual) <= set(table) else ()
    names = (text,) if isinstance(text, str) else tuple(text)
    for name in names:
        _column(path, table, name)
    if len(names) not in (1, 2):
        raise DataError(f"a text is one column or a pair, not {len(names)}")
    return names


def _texts(table: Table, names: Sequence[str]) -> tuple[Tensor | Texts, tuple[str, ...]]:
    return Texts(tuple(zip(*(table[name] for name in names), strict=True))), ()


def _at(
    inputs: Tensor | Texts, targets: Tensor, names: Sequence[str], rows: list[int], numbered: bool
) -> Split:
    index = torch.tensor(rows, dtype=torch.int64)
    part = Texts(tuple(inputs.rows[i] for i in rows)) if isinstance(inputs, Texts) else inputs[index]
    goals = targets[index] if len(targets) else targets
    return Split(part, goals, tuple(names[i] for i in rows), numbered)
