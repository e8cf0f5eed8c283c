"""Ames, and tables of one's own."""

import pytest
import torch

from jostle import datasets
from jostle.datasets import DataError, Texts

AMES = """Id,Area,Alley,Street,Rooms,SalePrice
1,100,NA,Pave,3,1000
2,200,Grvl,Grvl,4,2000
3,300,NA,Pave,5,3000
4,400,NA,Dirt,6,4500
"""


def write(path, text: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_ames_by_hand(tmp_path):
    write(tmp_path / "ames" / "train.csv", AMES)
    data = datasets.load("ames", tmp_path)
    assert data.columns == ("Area", "Rooms", "Street=Dirt", "Street=Grvl", "Street=Pave")
    assert data.train.inputs.tolist() == [[100, 3, 0, 0, 1], [200, 4, 0, 1, 0]]
    assert data.test.inputs.tolist() == [[300, 5, 0, 0, 1], [400, 6, 1, 0, 0]]
    assert (data.train.targets.tolist(), data.test.targets.tolist()) == ([1000, 2000], [3000, 4500])
    assert data.train.inputs.dtype == data.train.targets.dtype == torch.float32
    assert (data.task, data.outputs, data.names(1)) == ("regression", 1, "2")
    assert data.preview(0) == "Area 100, Rooms 3, Street=Pave 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AMES.replace("SalePrice", "Price"), "no column SalePrice: expected Kaggle's train.csv"),
        (AMES.replace("Id,", "Order,"), "no column Id"),
        (AMES.replace("4,400,NA,Dirt,6,4500", "4,400,NA"), "line 5: 3 cells where the header has 6"),
        (AMES.replace("4500", "many"), "column SalePrice has 'many' where numbers"),
        ("", "expected a line of distinct column names"),
        (AMES.splitlines()[0], "expected a line of distinct column names"),
        (AMES.replace("Rooms", "Area"), "expected a line of distinct column names"),
    ],
)
def test_foreign_tables_are_named(tmp_path, text, message):
    path = write(tmp_path / "ames" / "train.csv", text)
    with pytest.raises(DataError, match=message) as error:
        datasets.load("ames", tmp_path)
    assert str(path) in str(error.value)


def table(rows: int = 10) -> str:
    body = [
        f"r{i},{i * 0.5},{'red' if i % 2 else 'blue'},{'yes' if i % 3 else 'no'},{i}" for i in range(rows)
    ]
    return "\n".join(["id,size,color,label,age", *body])


def test_a_table_with_words_as_labels(tmp_path):
    path = write(tmp_path / "t.csv", table())
    data = datasets.pool(f"csv:{path}")
    assert (data.task, data.classes, data.columns) == (
        "classification", ("no", "yes"), ("size", "age", "color=blue", "color=red"),
    )  # fmt: skip
    assert data.train.targets.tolist() == [0, 1, 1, 0, 1, 1, 0, 1, 1, 0]
    assert data.train.inputs[3].tolist() == [1.5, 3, 0, 1]
    assert data.names(3) == "r3"


def test_the_test_rows_are_held_out(tmp_path):
    path = write(tmp_path / "t.csv", table())
    data = datasets.load(f"csv:{path}", test=0.3)
    assert (len(data.train), len(data.test)) == (7, 3)
    assert {*data.train.names, *data.test.names} == {f"r{i}" for i in range(10)}
    for split in (data.train, data.test):  # rows and names stay together
        assert [f"r{int(age)}" for age in split.inputs[:, 1]] == list(split.names)


def test_numbers_mean_regression_unless_said_otherwise(tmp_path):
    path = write(tmp_path / "t.csv", table())
    told = datasets.load(f"csv:{path}", target="age", drop=["label"])
    assert (told.task, told.classes, "label=yes" in told.columns) == ("regression", (), False)
    classes = datasets.load(f"csv:{path}", target="age", task="classification")
    assert classes.classes == tuple(map(str, range(10)))  # as numbers, not as words


def test_a_table_without_target_is_a_pool(tmp_path):
    path = write(tmp_path / "t.csv", "size,color\n1,red\n2,blue\n")
    data = datasets.load(f"csv:{path}")
    assert (data.task, len(data.train), len(data.train.targets), len(data.test)) == (None, 2, 0, 0)
    assert data.names(1) == "1"


def test_text_columns(tmp_path):
    path = write(tmp_path / "t.csv", 'id,text,label\n7,"good, really",1\n8,bad,0\n')
    data = datasets.pool(f"csv:{path}")
    assert (data.task, data.classes, data.preview(0)) == ("classification", ("0", "1"), "good, really")
    assert isinstance(data.train.inputs, Texts)
    path = write(tmp_path / "p.csv", "first,second,label\na,b,1\nc,d,0\n")
    pairs = datasets.pool(f"csv:{path}", text=["first", "second"])
    assert (pairs.task, pairs.positive, pairs.preview(1)) == ("classification", "1", "c\nd")
    assert (data.positive, pairs.positive_class) == (None, 1)


def test_several_targets_are_labels(tmp_path):
    path = write(tmp_path / "t.csv", "size,indoors,sharp\n1,1,0\n2,0,0\n3,1,1\n")
    data = datasets.pool(f"csv:{path}", target=["indoors", "sharp"])
    assert (data.task, data.classes, data.columns, data.outputs) == (
        "multi-label", ("indoors", "sharp"), ("size",), 2,
    )  # fmt: skip
    assert data.train.targets.tolist() == [[1, 0], [0, 0], [1, 1]]
    assert data.train.targets.dtype == torch.float32
    write(path, "size,sharp\n1,Yes\n2,no\n")
    one = datasets.pool(f"csv:{path}", target="sharp", task="multi-label")
    assert (one.classes, one.train.targets.tolist()) == (("sharp",), [[1], [0]])


def names(rows: int, kinds: int = 10**6) -> str:
    return "name,target\n" + "".join(f"n{i % kinds},1\n" for i in range(rows))


def reviews(rows: int) -> str:
    return "review,target\n" + "".join(f"the {i} was not so bad,1\n" for i in range(rows))


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("a,b\n1,2\n", {"target": "c"}, r"'c' \(known: a, b\)"),
        ("a,b\n1,2\n", {"drop": ["c"]}, "column of .* 'c'"),
        ("a,b\n1,2\n", {"text": "c"}, "column of .* 'c'"),
        ("a,b\n1,2\n", {"text": ["a", "b", "a"]}, "one column or a pair, not 3"),
        ("a,target\n1,NA\n2,3\n", {}, r"row 0 has no target \(and 0 more\)"),
        ("a,target\nNA,1\n2,3\n", {}, "no column without a missing value"),
        ("a,target\n1,x\n2,y\n", {"task": "regression"}, "column target has 'x' where numbers"),
        ("a,target\n1,x\n2,y\n", {"task": "segmentation"}, "not segmentation"),
        ("a,b,c\n1,2,3\n", {"target": ["b", "c"]}, "the label b has '2', expected 0, 1"),
        ("a,b,c\n1,1,NA\n", {"target": ["b", "c"]}, "row 0 has no c"),
        ("a,b,c\n1,1,1\n", {"target": ["b", "d"]}, "column of .* 'd'"),
        ("a,target\n1,2\n", {"test": 1.5}, "from 0 to below 1"),
        (names(30), {}, r"name .*it has 30 different words in 30 rows: drop it with drop=\[name\]"),
        (names(2500, 1200), {}, "name .*it has 1200 different words: drop it"),
        (reviews(3), {}, r"review .*it holds texts: drop it .* with text=review"),
        ('a,target\n"1,2\n', {}, "cannot be read"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, text, settings, message):
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(DataError, match=message):
        datasets.load(f"csv:{path}", **settings)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe\x00\x01,\x80")
    with pytest.raises(DataError, match=r"a\.csv cannot be read, expected a csv in UTF-8"):
        datasets.load(f"csv:{path}")
    with pytest.raises(DataError, match=r"b\.csv cannot be read"):
        datasets.load(f"csv:{tmp_path / 'b.csv'}")


def test_columns_with_gaps_are_left_out(tmp_path):
    path = write(tmp_path / "t.csv", "a,b,target\n1,,1\n2,3,2\n")
    assert datasets.pool(f"csv:{path}").columns == ("a",)
