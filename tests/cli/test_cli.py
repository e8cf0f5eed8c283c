"""The command line: every command and option documented, plain output where it is piped, and the practitioner's job."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image
from synthetic_runs import FOUR, write_runs
from tiny import numbers, tiny_file

import jostle
from jostle import cli, datasets, embeddings, models, selectors, strategies
from jostle.cli.reading import preview_in
from jostle.cli.running import seeds_of
from jostle.cli.screen import Clock, Lines, score
from jostle.results.cycles import Cycle
from jostle.results.previews import preview_of
from jostle.runs import protocol
from jostle.runs.experiment import Plan
from jostle.runs.workers import Event, Job

DOCS = Path(__file__).parents[2] / "docs"


def run_cli(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    return int(end.value.code or 0)


def walked(group: Any, before: str = "") -> dict[str, Any]:
    """Every command by its words, those of groups included."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found |= {f"{before}{name}": command} if inner is None else walked(command, f"{before}{name} ")
    return found


COMMANDS = walked(typer.main.get_command(cli.app))


def commands() -> dict[str, list[str]]:
    return {
        name: [
            option
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("-")
        ]
        for name, command in COMMANDS.items()
    }


def test_every_command_and_option_is_documented():
    page = (DOCS / "cli.md").read_text()
    sections = dict(re.findall(r"^## `jostle ([\w ]+)`\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    assert set(sections) == set(commands())
    for command, options in commands().items():
        for option in options:
            assert re.search(rf"`{option}[ `]", sections[command]), f"jostle {command} {option}"


@pytest.mark.parametrize("command", commands())
def test_help_is_complete(command: str, capsys: pytest.CaptureFixture[str]):
    assert run_cli(*command.split(), "--help") == 0
    said = capsys.readouterr().out
    for parameter in COMMANDS[command].params:
        assert parameter.name == "help" or parameter.help, f"{command} {parameter.name}"
    for option in commands()[command]:
        assert option in said


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("strategies", strategies.names),
        ("embeddings", embeddings.names),
        ("selectors", selectors.names),
        ("datasets", datasets.names),
        ("protocols", protocol.names),
        ("models", models.names),
    ],
)
def test_lists_are_plain_when_piped(kind: str, names: object, capsys: pytest.CaptureFixture[str]):
    assert run_cli("list", kind) == 0
    assert capsys.readouterr().out.splitlines() == names()  # type: ignore[operator]


def test_lists_have_a_line_about_each_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "90")
    assert run_cli("list", "selectors") == 0
    shown = capsys.readouterr()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.out).splitlines()
    assert [line.split()[0] for line in plain] == selectors.names()
    assert all(len(line.split()) > 3 for line in plain)
    assert max(map(len, plain)) <= 90
    assert "jostle show NAME" in shown.err


@pytest.mark.parametrize(
    "name",
    ["mnist", "noise-stability", "digits", "mlp", "badge", "deviations", "typical", "folder", "csv:my.csv"],
)
def test_show_explains(name: str, capsys: pytest.CaptureFixture[str]):
    assert run_cli("show", name) == 0
    assert name in capsys.readouterr().out


def test_show_explains_settings(capsys: pytest.CaptureFixture[str]):
    run_cli("show", "noise-stability")
    said = capsys.readouterr().out
    assert "scale = 0.001: Zeta, the length of a jolt relative to that of the parameters" in said
    assert "head = none" in said


def test_embeddings_and_selectors_explain_their_settings(capsys: pytest.CaptureFixture[str]):
    run_cli("show", "deviations")
    assert "jolts = 30: K, how often the parameters are nudged." in capsys.readouterr().out
    run_cli("show", "k-center-unit")
    assert "unit = True: Scale rows to unit length first." in capsys.readouterr().out
    run_cli("show", "entropy")
    assert capsys.readouterr().out.count("Take the examples whose predicted distribution is flattest") == 1


def test_data_sets_explain_their_settings(capsys: pytest.CaptureFixture[str]):
    run_cli("show", "camvid")
    said = capsys.readouterr().out
    assert "part = 'test': What to test on" in said
    assert "root" not in said  # that is --data
    run_cli("show", "folder")
    assert "size = none: A pair (height, width) stretches" in capsys.readouterr().out


NETWORK = """
from torch import nn

def small(classes, channels, width=8):
    return nn.Sequential(nn.Conv2d(channels, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(width * 36, classes))

def number():
    return 7
"""


def test_a_composition_and_a_network_of_ones_own_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mine.py").write_text(NETWORK)
    words = ("run", tiny_file(tmp_path), "--seeds", "1", "--no-report", "--set", "rounds=1")
    words += (
        "--strategies",
        "mine=compose(embedding=deviations(jolts=2, space=logits), selector=lcmd),coreset",
    )
    out = tmp_path / "runs"
    assert run_cli(*words, "--model", f"{tmp_path}/mine.py:small(width=4)", "--out", out) == 0
    assert set(numbers(out)) == {"mine/0", "coreset/0"}
    manifest = json.loads((out / "manifest.json").read_text())["protocol"]
    assert manifest["model"] == {"use": f"{tmp_path}/mine.py:small", "width": 4}
    assert manifest["strategies"]["mine"]["embedding"] == "deviations(jolts=2, space=logits)"
    capsys.readouterr()
    assert run_cli(*words, "--model", f"{tmp_path}/mine.py:number", "--out", tmp_path / "other") == 2
    assert "made int; expected a torch.nn.Module" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]):
    assert run_cli("--version") == 0
    assert capsys.readouterr().out == f"jostle {jostle.__version__}\n"


def test_starting_imports_nothing_that_is_slow_and_not_needed():
    slow = ("torch", "matplotlib", "sklearn", "scipy", "transformers", "pydantic", "pandas")
    code = f"import sys, jostle.cli; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_show_prints_a_protocol_with_its_comments(capsys: pytest.CaptureFixture[str]):
    run_cli("show", "mnist")
    said = capsys.readouterr().out
    assert "candidates = 1000" in said
    assert "published code" in said
    assert run_cli("show", "mnits") == 2
    assert "did you mean 'mnist'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["rum"], ["list", "cats"], ["run"], ["run", "digits", "--job", "2"]])
def test_words_that_are_not_understood(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert run_cli(*words) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_run_report_and_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tiny_file(tmp_path)
    for name, pick in (("a", 4), ("b", 5)):
        words = ("run", file, "--set", f"pick={pick}", "--set", "rounds=2", "--out", tmp_path / name)
        assert run_cli(*words, "--strategies", "random,ns=noise-stability(jolts=2)", "--seeds", "2") == 0
    said = capsys.readouterr()
    assert re.search(r"^random +\d", said.out, re.MULTILINE)
    assert "[4/4]" in said.err
    page = tmp_path / "a" / "report" / "report.html"
    assert "data:image/png;base64" in page.read_text()  # the gallery
    for suffix in ("md", "tex", "csv"):
        assert (tmp_path / "a" / "report" / "tables" / f"aubc.{suffix}").is_file()
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert set(manifest) == {"protocol", "data", "versions", "hardware", "command"}
    assert manifest["protocol"]["strategies"]["ns"] == {"use": "noise-stability", "jolts": 2}
    assert {len(value) for value in manifest["data"].values()} == {64}
    assert run_cli("report", tmp_path / "a", "--out", tmp_path / "again", "--metric", "macro_f1") == 0
    assert run_cli("compare", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "both") == 0
    assert (tmp_path / "both" / "compare.html").is_file()
    capsys.readouterr()
    (tmp_path / "notes.txt").touch()
    both = (tmp_path / "notes.txt", tmp_path / "a", tmp_path / "b")
    assert run_cli("compare", *both, "--out", tmp_path / "both") == 0
    said = capsys.readouterr()
    assert f"{tmp_path / 'notes.txt'} is a file and is left out" in said.err
    assert re.search(r"^random +\d", said.out, re.MULTILINE)
    assert run_cli("report", tmp_path / "none") == 2
    assert run_cli("report", tmp_path) == 2
    assert "not a folder of jostle run: it has no manifest.json" in capsys.readouterr().err
    assert run_cli("report", tmp_path / "a", "--levels", "abc") == 2
    assert "--levels takes numbers by comma, such as 80,90; got 'abc'" in capsys.readouterr().err
    assert run_cli("report", tmp_path / "a", "--baseline", "margin") == 2


def test_pictures_are_those_of_the_data_that_the_runs_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    table, out = tmp_path / "rows.csv", tmp_path / "runs"
    rows = [f"{i},{i % 7},{'even' if i % 2 == 0 else 'odd'}" for i in range(60)]
    table.write_text("\n".join(["x,y,label", *rows]))
    changes = ("candidates=all", "test=all", "model={use='mlp'}", "initial=6", "rounds=1")
    words = ("run", tiny_file(tmp_path), "--dataset", f"csv:{table}", "--strategies", "random", "--seeds", 1)
    sets = [word for change in changes for word in ("--set", change)]
    assert run_cli(*words, *sets, "--out", out) == 0, capsys.readouterr().err
    first = (out / "report" / "report.html").read_text()
    assert "What each picked first" in first
    table.write_text("\n".join(["x,y,label", *rows[:10]]))
    assert run_cli("report", out) == 0
    assert (out / "report" / "report.html").read_text() == first  # the runs keep what they showed
    (out / "previews.json").unlink()
    assert "missing" not in capsys.readouterr().err
    assert run_cli("report", out) == 0  # whose file is it?
    said = f"Pictures of some picks are missing: the data is csv:{table}: --trust reads such files"
    assert said in capsys.readouterr().err
    assert said in (out / "report" / "report.html").read_text()
    assert run_cli("report", out, "--trust") == 0
    assert "missing: rows.csv is not what the runs read; it has changed since" in capsys.readouterr().err
    table.write_text("\n".join(["x,y,label", *rows]))
    assert run_cli("report", out, "--trust") == 0
    assert (out / "report" / "report.html").read_text() == first
    data = datasets.load(f"csv:{table}")
    assert preview_in(data, 1) == preview_of(data.preview(1))
    assert "training examples, and no number 60" in preview_in(data, 60).text


def test_a_report_runs_no_code_of_the_folder_unless_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = write_runs(tmp_path / "theirs", FOUR, dataset={"use": f"{tmp_path}/evil.py:data"})
    (tmp_path / "evil.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('harm').touch()\ndef data(): return [[0.0]]\n"
    )
    assert run_cli("report", folder) == 0
    said = capsys.readouterr().err
    assert (
        f"missing: the data is {tmp_path}/evil.py:data: --trust reads such files, or runs such code" in said
    )
    assert not (tmp_path / "harm").exists()
    page = (folder / "report" / "report.html").read_text()
    assert "What each picked first" not in page
    assert "--trust" in page
    assert run_cli("compare", folder, folder / "..", "--out", tmp_path / "both") == 2
    assert not (tmp_path / "harm").exists()
    run_cli("report", folder, "--trust")
    assert (tmp_path / "harm").exists()


def test_a_report_downloads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("jostle.datasets.fetch.cache", lambda: tmp_path / "cache")
    monkeypatch.setattr("jostle.datasets.fetch.download", lambda *_: pytest.fail("downloaded"))
    monkeypatch.delenv("JOSTLE_DATA", raising=False)
    assert run_cli("report", write_runs(tmp_path / "runs", FOUR, dataset={"use": "mnist"})) == 0
    assert "Nothing is downloaded here" in capsys.readouterr().err


def test_seeds():
    chosen = protocol.load("digits")
    assert list(seeds_of(None, chosen)) == [0, 1, 2, 3, 4]
    assert list(seeds_of("3", chosen)) == [0, 1, 2]
    assert list(seeds_of("3,5", chosen)) == [3, 5]
    assert list(seeds_of("3,", chosen)) == [3]


def test_the_order_of_strategies_is_that_of_the_command(tmp_path: Path):
    file = tiny_file(tmp_path)
    out = tmp_path / "runs"
    base = ("run", file, "--set", "rounds=1", "--seeds", "1", "--no-report", "--out", out)
    assert run_cli(*base, "--strategies", "margin") == 0
    assert run_cli(*base, "--strategies", "random") == 0
    assert set(numbers(out)) == {"margin/0", "random/0"}
    assert run_cli(*base, "--strategies", "random=entropy") == 2  # a label keeps its meaning


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
        colour = (number * 20, 255 - number * 20, 40)
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.new("RGB", (16, 12), colour).save(tmp_path / "photos" / f"photo{number:02}.png")
    (tmp_path / "mine.py").write_text(MODEL)
    return tmp_path


def test_pick_from_a_folder(photos: Path, capsys: pytest.CaptureFixture[str]):
    words = ("pick", "--model", photos / "mine.py:load", "--pool", f"folder:{photos / 'photos'}(size=8)", "-n", 4,
             "--strategy", "noise-stability(jolts=3)", "--out", photos / "picks.csv",
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


def test_pick_composes(photos: Path, capsys: pytest.CaptureFixture[str]):
    base = (
        "pick",
        "--model",
        photos / "mine.py:load",
        "--pool",
        photos / "mine.py:rows",
        "-n",
        3,
        "--out",
        "-",
    )
    assert run_cli(*base, "--strategy", "noise-stability(jolts=3, selector=lcmd)") == 0
    plain = capsys.readouterr().out
    assert run_cli(*base, "--strategy", "compose(embedding=deviations(jolts=3), selector=lcmd)") == 0
    assert capsys.readouterr().out == plain
    assert run_cli(*base, "--strategy", "compose(embedding=featurs, selector=lcmd)") == 2
    assert "unknown embedding 'featurs'; did you mean 'features'" in capsys.readouterr().err
    assert run_cli(*base, "--strategy", "compose(selector=lcmd)") == 2
    assert "compose needs a value for embedding" in capsys.readouterr().err


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
    assert "labelled examples" in said
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
        ({"--device": "abacus"}, "cannot compute on the device 'abacus'"),
        ({"--strategy": "noise-stability(jolts=x)"}, "jolts takes a whole number; got 'x'"),
        ({"--pool": "folder:nowhere"}, "nowhere"),
        ({"-n": "13"}, "asked for 13 examples from a pool of 12"),
        ({"--strategy": "nose-stability"}, "did you mean 'noise-stability'"),
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


def cycle(number: int) -> Cycle:
    return Cycle(number, 10, [], {"macro_f1": 0.5, "accuracy": 0.813}, 1, 1, 1)


def test_the_time_left_counts_what_each_strategy_takes(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    slow, quick = Job("slow", 0), Job("quick", 0)
    plan = Plan({slow: 0, quick: 0, Job("slow", 1): 0}, points=4)
    clock = Clock(plan, processes=2)
    assert clock.left() is None
    for job, seconds in ((slow, 10.0), (quick, 2.0)):
        for event in (Event("began", job), Event("cycle", job, cycle(0))):
            plan.note(event)
            clock.note(event)
            now[0] += seconds
    # slow: 3 + 4 cycles of 10 s, quick: 3 of 2 s, two at a time
    assert clock.left() == pytest.approx((7 * 10 + 3 * 2) / 2)


def test_piped_progress_is_lines(capsys: pytest.CaptureFixture[str]):
    plan = Plan({Job("random", 0): 0, Job("badge", 0): 0}, points=1)
    with Lines(1).shown(plan) as tell:
        for event in (
            Event("done", Job("random", 0), cycle(0)),
            Event("failed", Job("badge", 0), reason="no"),
        ):
            plan.note(event)
            tell(event)
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] random seed 0: done, accuracy 81.3 % with 10 labels",
        "[1/2] badge seed 0: failed: no",
    ]
    assert score(Cycle(0, 20, [], {"mae": 23456.7}, 0, 0, 0)) == "MAE 23457 with 20 labels"
