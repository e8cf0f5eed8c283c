"""Data sets by name with their page, and data of one's own: functions in files, registered names, tuples."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from jostle import datasets
from jostle.datasets import DataError, Fields, Texts
from jostle.datasets.catalog import as_data

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "data.md"


def test_every_name_and_setting_is_described_and_documented():
    page = PAGE.read_text(encoding="utf-8")
    for name in [*datasets.names(), "folder:x", "csv:x"]:
        said = datasets.describe(name)
        assert len(said) > 20
        assert "\n" not in said
        assert f"`{name}`" in page or "your own" in said, f"docs/reference/data.md does not mention {name}"
        for setting in datasets.settings(name):
            assert f"`{setting}`" in page or f"`{setting}=" in page, (
                f"docs/reference/data.md: {name}, {setting}"
            )


FILE = """
import numpy as np
from neighbor import OFFSET

def blobs(rows=6):
    x = np.arange(rows * 2.0).reshape(rows, 2) + OFFSET
    return x, np.arange(rows) % 3, x[:2], np.array([0, 2])

def needs_root(root):
    return np.full((2, 1), 0.0 if root is None else 1.0)

not_a_function = 3
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "neighbor.py").write_text("OFFSET = 10\n")
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path / "mine.py"


def test_a_function_in_a_file(file):
    data = datasets.load(f"{file}:blobs")
    assert (data.task, data.classes, len(data.train), len(data.test)) == (
        "classification",
        ("0", "1", "2"),
        6,
        2,
    )
    assert data.train.inputs.dtype == torch.float32
    assert data.train.inputs[0].tolist() == [10, 11]
    assert data.train.targets.dtype == torch.int64
    assert len(datasets.load(f"{file}:blobs", rows=9).train) == 9
    assert datasets.settings(f"{file}:blobs") == {"rows": 6}


def test_a_folder_or_file_of_that_name_is_meant(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "rows.csv").touch()
    for name, said in (
        ("photos", "folder:photos"),
        ("rows.csv", "csv:rows.csv"),
        ("mine.py", "mine.py:FUNCTION"),
    ):
        with pytest.raises(ValueError, match=f"unknown data set .*write {said}$"):
            datasets.load(name)


def test_whole_numbers_words_and_maps():
    x = np.zeros((4, 3, 2, 2), np.float64)
    words = as_data((x, ["b", "a", "b", "b"], x[:1], ["c"]), "made")
    assert (words.classes, words.train.targets.tolist(), words.test.targets.tolist()) == (
        ("a", "b", "c"), [1, 0, 1, 1], [2],
    )  # fmt: skip
    maps = np.full((4, 2, 2), 255)
    maps[0] = 3
    painted = as_data((x, maps, x[:1], maps[:1]), "made")
    assert (painted.task, len(painted.classes)) == ("segmentation", 4)


def test_rows_of_targets():
    x = torch.zeros(3, 2)
    flags = np.array([[True, False], [False, False], [True, True]])
    data = as_data((x, flags, x, flags), "made")
    assert (data.task, data.classes, data.train.targets.tolist()) == (
        "multi-label", ("0", "1"), [[1, 0], [0, 0], [1, 1]],
    )  # fmt: skip
    tokens = np.array([[0, 2, -100], [1, 0, 0], [3, -100, -100]])
    data = as_data((x, tokens, x, tokens), "made")
    assert (data.task, data.outputs, data.train.targets.tolist()) == ("sequence", 4, tokens.tolist())
    with pytest.raises(DataError, match="of each example or of each token: return the task as a fifth thing"):
        as_data((x, flags.astype(int), x, flags.astype(int)), "made")
    for task in ("multi-label", "sequence", "regression"):
        data = as_data((x, flags.astype(int), x, flags.astype(int), task), "made")
        assert (data.task, data.train.targets.tolist()) == (task, flags.astype(int).tolist())


def test_bytes_become_zero_to_one():
    data = as_data(np.array([[[[0, 51, 255]]]], np.uint8), "made")
    torch.testing.assert_close(data.train.inputs[0, 0, 0], torch.tensor([0, 0.2, 1]))


def test_pools_of_many_kinds():
    tensor = as_data(torch.zeros(3, 2), "made")
    assert (tensor.task, len(tensor.train), len(tensor.test)) == (None, 3, 0)
    fields = as_data({"a": [1, 2, 3]}, "made").train.inputs
    assert isinstance(fields, Fields)
    assert isinstance(as_data(["a text", "another"], "made").train.inputs, Texts)
    items = as_data(TensorDataset(torch.arange(6.0).view(3, 2), torch.arange(3)), "made").train.inputs
    assert items[torch.tensor([2, 0])].tolist() == [[4, 5], [0, 1]]


def test_labeled_examples_need_no_test():
    data = as_data((torch.zeros(3, 2), ["b", "a", "b"]), "made")
    assert (data.task, data.classes, len(data.test)) == ("classification", ("a", "b"), 0)
    assert data.train.targets.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ((torch.zeros(2), torch.zeros(2), torch.zeros(2)), "returned 3 things: expected a Data"),
        (None, "returned NoneType as inputs: expected a Data"),
        ((torch.zeros(2, 1), 3, torch.zeros(2, 1), 3), "int as targets"),
        (
            (torch.zeros(2, 1), torch.zeros(2, 5), torch.zeros(2, 1), torch.zeros(2, 5)),
            r"targets of float32 \(4, 5\)",
        ),
        ((torch.zeros(2, 1), [0, 1], torch.zeros(2, 1), [0, 1], "ranking"), "task is one of classification"),
        ((torch.zeros(2, 1), ["a", "b"], torch.zeros(2, 1), ["a", "b"], "regression"), "expected numbers"),
        ((torch.zeros(2, 1), [[0.5], [1]], torch.zeros(2, 1), [[0, 1]] * 2), "test targets of shape"),
        ((torch.zeros(2, 1), [0, 7], torch.zeros(2, 1), [0, 1], "multi-label"), "expected 0 or 1 for each"),
        ((torch.zeros(3, 1), [0, 1], torch.zeros(2, 1), [0, 1]), "3 inputs came with 2 targets"),
        ((torch.zeros(2, 1), [0, -1], torch.zeros(2, 1), [0, 1]), "labels run from -1"),
    ],
)
def test_things_that_are_no_data(made, message):
    with pytest.raises(DataError, match=message):
        as_data(made, "made")
