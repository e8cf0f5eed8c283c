"""`jostle pick`: the model is fed what it was trained on, what is labeled is not picked, and no file is lost."""

import csv
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from commands import run_cli
from picking import MINE, SPEC, ask, images, names
from PIL import Image

from jostle import Strategy, models, select, strategies
from jostle.cli import picking


@pytest.fixture
def pick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Call `jostle pick` in a folder with 12 gray images of 28 x 28; returns what it said, checks its code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "photos").mkdir()
    for number, pixels in enumerate(images()):
        Image.fromarray(pixels).save(f"photos/{number:02}.png")

    def call(*words: object, code: int = 0) -> str:
        found, said = run_cli("pick", *words), capsys.readouterr()
        assert found == code, said.err
        return said.out + said.err

    return call


@pytest.mark.parametrize("engine", [None, "ray(workers=1)"])
def test_without_a_strategy_the_default_picks_here_and_on_a_cluster(
    pick: Callable[..., str], monkeypatch: pytest.MonkeyPatch, engine: str | None
) -> None:
    asked: list[str] = []

    def build(name: str, **settings: object) -> Strategy:
        asked.append(name)
        return original(name, **settings)

    original = strategies.build
    monkeypatch.setattr(strategies, "build", build)
    pick(*ask(**({} if engine is None else {"engine": engine})), "--plan")
    assert asked[0] == "default"


@pytest.mark.parametrize(
    ("spec", "white", "mean", "std"),
    [
        ("folder:photos(mode=L, size=28, scale=255)", 1, 0, 1),
        ("folder:photos(mode=L, mean=0.1307, std=0.3081)", 255, 0.1307, 0.3081),
    ],
)
def test_images_of_the_right_size_reach_the_model_untouched(
    pick: Callable[..., str], spec: str, white: float, mean: float, std: float
):
    said = pick(*ask(pool=spec, model="mine.py:load"))
    fed = (torch.from_numpy(images()).float()[:, None] / white - mean) / std
    model = models.build("mnist-cnn", classes=3, seed=0)
    expected = select("default", model, fed, n=4, seed=0).indices
    assert names() == [f"{place:02}.png" for place in expected]
    low, high = float(fed.min()), float(fed.max())
    assert f"Fed: float32 (1, 28, 28) from {low:.3g} to {high:.3g}" in said
    assert "such as 00.png" in said


def test_a_transform_of_ones_own(pick: Callable[..., str]):
    said = pick(*ask(pool="folder:photos", transform="mine.py:halved", model="mine.py:load"))
    fed = torch.from_numpy(images()).float()[:, None] / 510
    model = models.build("mnist-cnn", classes=3, seed=0)
    expected = select("default", model, fed, n=4, seed=0).indices
    assert names() == [f"{place:02}.png" for place in expected]
    assert "from 0 to 0.5, as mine.py:halved makes them" in said
    Path("rows.csv").write_text("a,b\n1,2\n3,-4\n5,6\n")
    said = pick(*ask(pool="csv:rows.csv", transform="mine.py:doubled", model="mine.py:by_rows"), "-n", 1)
    assert "float32 (2,) from -8 to 12, as mine.py:doubled makes them" in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transform": "mine.py:wrong"}, "mine.py:wrong returned str for 00.png; expected a tensor"),
        ({"transform": "mine.py:uneven"}, "examples of a batch need one shape"),
        ({"transform": "mine.py:halved", "pool": SPEC}, "mode is the business of --transform"),
        ({"transform": "halved"}, "--transform: expected file.py:function; got 'halved'"),
        ({}, "given a batch of torch.float32 (2, 3, 28, 28), as they are, RGB"),
        ({"pool": "folder:photos(mode=L, size=14)"}, "short side to 14, then the middle 14 x 14, L"),
        ({"pool": "folder:photos(size=abc)"}, "size takes a whole number or a list [...] or none; got 'abc'"),
        ({"pool": "folder:photos(size=[1,2,3])"}, "folder:photos(size=[1, 2, 3])"),
        ({"pool": "mine.py:fit"}, "mine.py:fit needs a value for dataset"),
        ({"pool": "mine.py"}, "write mine.py:FUNCTION"),
        ({"model": "mine.py:nothing"}, "expected a torch.nn.Module"),
        ({"model": "mine.py:absent"}, "absent"),
        ({"model": "nothing.py:load"}, "there is no file 'nothing.py'"),
        ({"model": "mine.py:fit"}, "--model mine.py:fit is called without arguments: missing"),
        ({"model": "mine.py:number"}, "number in mine.py is int; expected a function"),
        ({"model": "mine.py:unknown"}, "mine.py, line 49; --debug shows the traceback)"),
        ({"model": "mine.py:leaving"}, "ended by exit(0) in "),
        ({"strategy": "nose-stability"}, "did you mean 'noise-stability'"),
        ({"strategy": "coreset", "pool": SPEC}, "on the command line, that is --labeled"),
        ({"strategy": "qbc", "pool": SPEC, "labeled": "folder:known(mode=L)"}, "--fit"),
    ],
)
def test_every_mistake_is_a_sentence_and_nothing_is_written(
    pick: Callable[..., str], changes: dict[str, str], message: str
):
    labeled_photos(a=[0], b=[1], c=[2])
    said = pick(*ask(**{"pool": "folder:photos"} | changes), code=2)
    assert message in said
    assert "Traceback" not in said
    assert said.count("cannot take") <= 1  # once is enough
    assert not Path("picks.csv").exists()


def test_picks_are_a_csv_and_a_page_and_the_same_again(pick: Callable[..., str]):
    words = ask(strategy="noise-stability(num_perturbations=3)", gallery="p.html")
    pick(*words)
    with open("picks.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["order"] for row in rows] == ["0", "1", "2", "3"]
    assert len({row["name"] for row in rows}) == 4
    assert all(row["name"] == f"{int(row['position']):02}.png" for row in rows)
    assert all(float(row["score"]) > 0 for row in rows)
    page, before = Path("p.html").read_text(), Path("picks.csv").read_text()
    assert page.count("data:image/png;base64") == 4
    assert re.findall(r' title="([^"]*)"', page) == [row["name"] for row in rows]
    assert "lie beside it" not in page
    pick(*words)
    assert Path("picks.csv").read_text() == before
    assert pick(*words, "--out", "-").startswith(before)


def test_a_committee_learns_from_the_labeled_examples(pick: Callable[..., str]):
    labeled_photos(a=[0], b=[1], c=[2])
    words = ask(labeled="folder:known(mode=L)", strategy="qbc(committee=2)", fit="mine.py:fit")
    assert "Picked: 4 of 9" in pick(*words)


def labeled_photos(**groups: list[int]) -> None:
    """Folders of classes with copies of the pool's images, under other names."""
    for name, numbers in groups.items():
        Path("known", name).mkdir(parents=True)
        for place in numbers:
            Path("known", name, f"copy{place}.png").write_bytes(Path(f"photos/{place:02}.png").read_bytes())


def test_what_is_labeled_is_not_picked_and_the_model_is_tested_on_it(pick: Callable[..., str]):
    bright = [int(place) for place in images().mean((1, 2)).argsort()]
    labeled_photos(dark=bright[:4], light=bright[-4:])
    words = ask(labeled="folder:known(mode=L, classes=[dark, light, other])", model="mine.py:by_brightness")
    said = pick(*words, "--strategy", "random")
    assert "Excluded: 8 of 12: 8 labeled already" in said
    pixels = torch.from_numpy(images()).float().flatten(1) / 255
    right = sum((pixels[i].mean() > 0.5).item() == (i in bright[-4:]) for i in bright[:4] + bright[-4:])
    assert (
        f"Labeled: 8 examples of folder:known, accuracy {100 * right / 8:.1f} % (of the training set" in said
    )
    assert set(names()) == {f"{place:02}.png" for place in bright[4:8]}
    said = pick(*words, "-n", 5, code=2)
    assert "asked for 5 examples from a pool of 12 less 8 excluded" in said


def test_a_model_that_is_no_better_than_guessing_is_warned_of(pick: Callable[..., str]):
    pixels = images().mean((1, 2))
    labeled_photos(a=[int(place) for place in pixels.argsort()[-3:]], b=[int(pixels.argmin())])
    words = ask(labeled="folder:known(mode=L, classes=[a, b, c])", model="mine.py:by_brightness")
    said = pick(*words)
    assert "accuracy 0.0 %" in said
    assert "Warning: always naming the commonest class would be right for 75.0%" in said
    assert "are its classes in the order a, b, c?" in said
    said = pick(*ask(labeled='folder:known(mode=L, classes=["b", "a", "c"])', model="mine.py:by_brightness"))
    assert "accuracy 100.0 %" in said
    assert "Warning" not in said


def test_labels_may_be_a_csv_beside_a_flat_folder(pick: Callable[..., str]):
    Path("labels.csv").write_text("name,label\n03.png,a\n05.png,b\n07.png,c\n")
    said = pick(*ask(labeled="csv:labels.csv"), "--strategy", "random", "-n", 9)
    assert "Excluded: 3 of 12: 3 labeled already" in said
    assert "Labeled: 3 examples of csv:labels.csv, accuracy" in said
    assert not set(names()) & {"03.png", "05.png", "07.png"}
    Path("labels.csv").write_text("name,label\n03.png,a\n99.png,b\n")
    said = pick(*ask(labeled="csv:labels.csv(classes=[a, b, c])"), code=2)
    assert "names 99.png, which is not in folder:photos" in said


TABLE = "id,x,y\np,1,2\nq,3,4\nr,5,6\ns,7,8\n"


@pytest.mark.parametrize(
    ("pool", "known", "left"),
    [
        (TABLE, "id,x,y,target\nq,0,0,1.5\ns,9,9,2.5\n", {"p", "r"}),  # the same ids
        (TABLE, "x,y,target\n3,4,1.5\n1,1,2.5\n", {"p", "r", "s"}),  # no ids: the same content
        ("x,y\n1,2\n3,4\n1,2\n", "x,y,target\n1,2,1.5\n", {"1"}),  # row numbers are no ids
    ],
)
def test_rows_that_are_labeled_are_not_picked(
    pick: Callable[..., str], pool: str, known: str, left: set[str]
):
    Path("pool.csv").write_text(pool)
    Path("known.csv").write_text(known)
    words = ask(pool="csv:pool.csv", labeled="csv:known.csv", model="mine.py:house", strategy="random")
    said = pick(*words, "-n", len(left))
    assert set(names()) == left
    gone = len(pool.splitlines()) - 1 - len(left)
    assert f"Excluded: {gone} of {gone + len(left)}: {gone} labeled already" in said
    errors = [abs(2 * float(row["x"]) - float(row["target"])) for row in csv.DictReader(known.splitlines())]
    assert f"MAE {sum(errors) / len(errors):.4g}" in said


@pytest.mark.parametrize(
    ("labels", "words", "said"),
    [
        ((0, 1), {"model": "mine.py:by_rows"}, "accuracy"),
        ((0, 2), {"model": "mine.py:by_rows"}, "labels run from 0 to 2, but there are 2 classes"),
        ((0.5, 2), {"model": "mine.py:by_rows"}, "has numbers such as 0.5 as labels"),
        (("cat", "dog"), {"strategy": "entropy"}, "accuracy 50.0 %"),  # one logit of two classes: binary
        (
            ("cat", "dog"),
            {"task": "regression"},
            "has classes (cat, dog), but the model's outputs of shape (2, 1)",
        ),
        (("cat", "dog", "cow"), {}, "has classes (cat, cow, dog), but the model's"),
        ((0, 1), {}, "all labels are 0 or 1; if the model's output is a logit of yes, say --task binary"),
        ((0, 1), {"task": "binary"}, "accuracy 50.0 %"),
    ],
)
def test_labels_in_a_csv_are_read_as_the_outputs_are(
    pick: Callable[..., str], labels: tuple[object, ...], words: dict[str, str], said: str
):
    Path("pool.csv").write_text("x,y\n1,2\n3,4\n5,6\n")
    rows = [f"{9 - place},{9 - place},{label}\n" for place, label in enumerate(labels)]
    Path("known.csv").write_text("x,y,label\n" + "".join(rows))
    given = {
        "pool": "csv:pool.csv",
        "labeled": "csv:known.csv",
        "model": "mine.py:house",
        "strategy": "random",
    }
    wrong = any(part in said for part in ("labels run", "has numbers", "has classes"))
    assert said in pick(*ask(**given | words), "-n", 1, code=2 if wrong else 0)


def test_earlier_rounds_are_not_picked_again(pick: Callable[..., str]):
    first = pick(*ask(), "--out", "first.csv")
    assert "Excluded" not in first
    pick(*ask(exclude="first.csv"), "--out", "second.csv")
    said = pick(*ask(exclude="first.csv"), "--exclude", "second.csv", "--out", "third.csv")
    assert "Excluded: 8 of 12: 4 picked in first.csv, 4 picked in second.csv" in said
    assert len({*names("first.csv"), *names("second.csv"), *names("third.csv")}) == 12
    Path(f"photos/{names('first.csv')[0]}").unlink()  # positions move, names do not
    said = pick(*ask(exclude="first.csv"), "--out", "fourth.csv")
    assert "3 picked in first.csv (1 of its 4 names are not in the pool)" in said
    assert not set(names("first.csv")) & set(names("fourth.csv"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"out": "notes.csv"}, "notes.csv exists and is not of jostle's making"),
        ({"gallery": "notes.csv"}, "notes.csv exists and is not of jostle's making"),
        ({"out": "labeled.csv"}, "labeled.csv exists and is not of jostle's making"),
        ({"out": "mine.py"}, "--out mine.py is what --model reads: name another file"),
        ({"out": "first.csv", "exclude": "first.csv"}, "--out first.csv is what --exclude reads"),
        ({"gallery": "mine.py"}, "--gallery mine.py is what --model reads"),
        ({"out": "new.html", "gallery": "new.html"}, "--out and --gallery are one file"),
        ({"out": "new.html", "gallery": "photos/../new.html"}, "--out and --gallery are one file"),
        ({"out": "/dev/null"}, "a device or a pipe"),
        ({"out": ".."}, "it is a folder"),
        ({"out": "notes.csv/picks.csv"}, "notes.csv is not a folder"),
        ({"out": "link.csv"}, "it is a link to notes.csv"),
        ({"pool": "csv:notes.csv", "out": "notes.csv"}, "--out notes.csv is what --pool reads"),
        ({"gallery": "-"}, "- is standard output, where only the csv of picks goes"),
        ({"work": "-"}, "- is standard output, where only the csv of picks goes"),
    ],
)
def test_files_that_are_not_ours_stay(pick: Callable[..., str], changes: dict[str, str], message: str):
    Path("notes.csv").write_text("a,b\n1,2\n")
    Path("first.csv").write_text("name,position,order,score\n00.png,0,0,1.5\n")
    Path("labeled.csv").write_text("name,position,order,score,label\n00.png,0,0,1.5,cat\n")
    Path("link.csv").symlink_to("notes.csv")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    said = pick(*ask(**{"model": "mine.py:never"} | changes), code=2)  # before anything long begins
    assert message in said
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("pool", "out"),
    [(SPEC, "photos/00.png"), ("parquet:rows.parquet", "rows.parquet"), ("parquet:many", "many/a.parquet")],
)
def test_examples_are_not_written_over_whatever_is_said(pick: Callable[..., str], pool: str, out: str):
    Path("rows.parquet").write_bytes(b"PAR1")
    Path("many").mkdir()
    Path("many/a.parquet").write_bytes(b"PAR1")
    before = Path(out).read_bytes()
    words = ask(pool=pool, out=out, model="mine.py:never")
    assert f"--out {out} is what --pool reads" in pick(*words, "--overwrite", code=2)
    assert Path(out).read_bytes() == before


def test_picks_are_not_lost_with_the_file(pick: Callable[..., str], monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, content: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(picking, "write_whole", full)
    said = pick(*ask(), code=2)
    assert "No space left on device; the picks went to standard output" in said
    assert said.startswith("name,position,order,score\n")
    assert len(re.findall(r"^\d\d[.]png,", said, re.MULTILINE)) == 4


def test_what_a_users_file_prints_is_not_in_the_picks(
    pick: Callable[..., str], capsys: pytest.CaptureFixture[str]
):
    with open("mine.py", "a", encoding="utf-8") as file:
        file.write("\nprint('hello')\n")
    assert run_cli("pick", *ask(out="-")) == 0
    said = capsys.readouterr()
    assert said.out.startswith("name,position,order,score\n")
    assert "hello" in said.err
    assert "seed 0: standard output" in said.err


def test_the_example_of_the_page_says_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?def load\(\).*?)^```", page, re.MULTILINE | re.DOTALL)
    shown = re.search(r"^\$ jostle (pick .*)\n((?:.+\n)+)```", page, re.MULTILINE)
    assert code
    assert shown
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(code[1], encoding="utf-8")
    assert run_cli(*shlex.split(shown[1])) == 0
    assert capsys.readouterr().err.split() == shown[2].split()  # the page breaks long lines


def test_a_class_without_a_folder_is_not_replaced_by_the_next(pick: Callable[..., str]):
    labeled_photos(a=[0, 1], c=[2])
    said = pick(*ask(labeled="folder:known(mode=L)"), code=2)
    assert "folder:known has 2 classes (a, c), but the model has 3: pass all classes in the order" in said
    assert "accuracy" not in said
    assert "accuracy" in pick(*ask(labeled="folder:known(mode=L, classes=[a, b, c])"))
    assert "has 4 classes" in pick(*ask(labeled="folder:known(mode=L, classes=[a, b, c, d])"), code=2)


def test_names_that_look_like_formulas(pick: Callable[..., str]):
    odd = ["=1+1", "+a", "-b", "@c", "'=d", "-5", "plain"]
    Path("pool.csv").write_text("id,x,y\n" + "".join(f"{name},{i},{i * i}\n" for i, name in enumerate(odd)))
    words = ask(pool="csv:pool.csv", model="mine.py:by_rows")
    pick(*words, "-n", 7)
    written = names()
    assert sorted(written) == sorted(["'=1+1", "'+a", "'-b", "'@c", "''=d", "-5", "plain"])
    said = pick(*words, "-n", 1, "--exclude", "picks.csv", "--out", "more.csv", code=2)
    assert "Excluded: 7 of 7: 7 picked in picks.csv" in said
