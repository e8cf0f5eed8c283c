"""What `jostle pick` is asked for: strategies, compositions, labels and committees, and mistakes in it."""

import csv
import re
from pathlib import Path

import pytest
from commands import run_cli
from PIL import Image

MODEL = """
import torch
from torch import nn
from jostle import models

def load():
    return models.build("digits-cnn", channels=3, classes=3, seed=0)

def fit(dataset, seed):
    return models.build("digits-cnn", channels=3, classes=3, seed=seed)

def rows():
    return torch.randn(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))

def nothing():
    return 3

def wrong():
    raise ValueError("no weights")

number = 3
"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(12):
        color = (number * 20, 255 - number * 20, 40)
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.new("RGB", (16, 12), color).save(tmp_path / "photos" / f"photo{number:02}.png")
    (tmp_path / "mine.py").write_text(MODEL)
    return tmp_path


def test_pick_from_a_folder(photos: Path, capsys: pytest.CaptureFixture[str]):
    words = ("pick", "--model", photos / "mine.py:load", "--pool", f"folder:{photos / 'photos'}(size=8)", "-n", 4,
             "--strategy", "noise-stability(num_perturbations=3)", "--out", photos / "picks.csv",
             "--gallery", photos / "p.html")  # fmt: skip
    assert run_cli(*words) == 0, capsys.readouterr().err
    rows = list(csv.DictReader((photos / "picks.csv").open()))
    assert [row["order"] for row in rows] == ["0", "1", "2", "3"]
    assert len({row["name"] for row in rows}) == 4
    assert all(row["name"] == f"photo{int(row['position']):02}.png" for row in rows)
    assert all(float(row["score"]) > 0 for row in rows)
    assert (photos / "p.html").read_text().count("data:image/png;base64") == 4
    page = (photos / "p.html").read_text()
    assert re.findall(r' title="([^"]*)"', page) == [row["name"] for row in rows]
    assert "lie beside it" not in page
    before = (photos / "picks.csv").read_bytes()
    assert run_cli(*words) == 0
    assert (photos / "picks.csv").read_bytes() == before
    capsys.readouterr()
    assert run_cli(*words, "--out", "-") == 0
    assert capsys.readouterr().out.encode() == before


def test_pick_with_labels_and_committees(photos: Path, capsys: pytest.CaptureFixture[str]):
    for place, name in enumerate(("x", "y", "z")):
        (photos / "known" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8), (90 * place, 0, 0)).save(photos / "known" / name / "a.png")
    base = ("pick", "--model", photos / "mine.py:load", "--pool", photos / "mine.py:rows", "-n", 2)
    known = ("--labeled", f"folder:{photos / 'known'}(size=8)", "--out", photos / "picks.csv")
    assert run_cli(*base, *known, "--strategy", "coreset") == 0, capsys.readouterr().err
    assert run_cli(*base, *known, "--strategy", "qbc(committee=2)", "--fit", photos / "mine.py:fit") == 0
    assert run_cli(*base, "--strategy", "coreset", "--out", photos / "none.csv") == 2
    said = capsys.readouterr().err
    assert "labeled examples" in said
    assert "--labeled" in said
    assert run_cli(*base, *known, "--strategy", "qbc") == 2
    assert "--fit" in capsys.readouterr().err
    assert not (photos / "none.csv").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"--model": "mine.py:nothing"}, "expected a torch.nn.Module"),
        ({"--model": "mine.py:absent"}, "absent"),
        ({"--model": "load"}, "--model: expected file.py:function"),
        ({"--model": "mine.py:fit"}, "--model mine.py:fit is called without arguments: missing"),
        ({"--model": "mine.py:number"}, "number in mine.py is int; expected a function"),
        ({"--model": "mine.py:wrong"}, "mine.py, line 19; --debug shows the traceback)"),
        (
            {"--pool": "folder:photos(size=abc)"},
            "folder:photos: size takes a whole number or a list [...] or none; got 'abc'",
        ),
        ({"--pool": "folder:photos(size=[1,2,3])"}, "folder:photos(size=[1, 2, 3])"),
        ({"--pool": "mine.py:fit"}, "mine.py:fit needs a value for dataset"),
    ],
)
def test_picking_badly(
    photos: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    said: str,
):
    monkeypatch.chdir(photos)
    words = {"--model": "mine.py:load", "--pool": "folder:photos(size=8)", "-n": "2"} | changes
    assert run_cli("pick", *(part for pair in words.items() for part in pair)) == 2
    assert said in capsys.readouterr().err
    assert not (photos / "picks.csv").exists()
