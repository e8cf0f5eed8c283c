"""Texts: the MSR paraphrase corpus, and turning texts into what an encoder reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jostle.datasets.data import Data, Fields, Split, Texts
from jostle.datasets.fetch import DataError, Source, fetch

PAGE = "https://www.microsoft.com/en-us/download/details.aspx?id=52398"
TRAIN = Source("mrpc", "msr_paraphrase_train.txt", PAGE)
TEST = Source("mrpc", "msr_paraphrase_test.txt", PAGE)
HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]


def mrpc(root: Path | None) -> Data:
    """MRPC: 4,076 + 1,725 pairs of sentences, paraphrases or not; put Microsoft's two files into mrpc/.

    The MSR split. Texts stay texts until `tokenize` prepares them for an encoder.
    """
    paths = fetch(root, TRAIN), fetch(root, TEST)
    train, test = (_split(path) for path in paths)
    classes = ("different", "paraphrase")
    return Data("mrpc", "classification", train, test, classes, positive="paraphrase", sources=paths)


def _split(path: Path) -> Split:
    try:
        lines = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n").split("\n")
    except UnicodeDecodeError as reason:
        raise DataError(f"{path} is not UTF-8 text, expected the MSR paraphrase corpus: {reason}") from reason
    rows = [line.split("\t") for line in lines]  # quotes are the sentences' own, they enclose no cells
    if rows[0] != HEADER:
        raise DataError(f"{path} begins with {lines[0][:80]!r}, expected the columns {', '.join(HEADER)}")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != 5 or row[0] not in ("0", "1"):
            raise DataError(f"{path}, line {number}: expected 0 or 1, two ids and two sentences between tabs")
    targets = torch.tensor([int(row[0]) for row in rows[1:]], dtype=torch.int64)
    return Split(
        Texts(tuple((a, b) for *_, a, b in rows[1:])), targets, tuple(f"{r[1]}-{r[2]}" for r in rows[1:])
    )


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
