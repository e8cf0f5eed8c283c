"""Experiments from the command line: run, report, compare, and what is shown on the way."""

import json
import re
from pathlib import Path

import pytest
from commands import run_cli
from rich.console import Console
from synthetic_runs import FOUR, write_runs
from tiny import tiny_file

from jostle.cli.console import Clock, progress_display, score
from jostle.cli.experiments import seeds_of
from jostle.experiments import protocol
from jostle.experiments.experiment import Plan
from jostle.experiments.runners import Event, Job
from jostle.experiments.store import Cycle


def test_run_report_and_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tiny_file(tmp_path)
    for name, pick in (("a", 4), ("b", 5)):
        words = ("run", file, "--set", f"pick={pick}", "--set", "rounds=2", "--out-dir", tmp_path / name)
        assert (
            run_cli(*words, "--strategies", "random,ns=noise-stability(num_perturbations=2)", "--seeds", "2")
            == 0
        )
    said = capsys.readouterr()
    assert re.search(r"^random +\d", said.out, re.MULTILINE)
    assert "[4/4]" in said.err
    page = tmp_path / "a" / "report" / "report.html"
    assert "data:image/png;base64" in page.read_text()  # the gallery
    for suffix in ("md", "tex", "csv"):
        assert (tmp_path / "a" / "report" / "tables" / f"aubc.{suffix}").is_file()
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert set(manifest) == {"protocol", "data", "versions", "hardware", "command"}
    assert manifest["protocol"]["strategies"]["ns"] == {"use": "noise-stability", "num_perturbations": 2}
    assert {len(value) for value in manifest["data"].values()} == {64}
    assert run_cli("report", tmp_path / "a", "--out-dir", tmp_path / "again", "--metric", "macro_f1") == 0
    assert run_cli("compare", tmp_path / "a", tmp_path / "b", "--out-dir", tmp_path / "both") == 0
    assert (tmp_path / "both" / "compare.html").is_file()
    capsys.readouterr()
    (tmp_path / "notes.txt").touch()
    both = (tmp_path / "notes.txt", tmp_path / "a", tmp_path / "b")
    assert run_cli("compare", *both, "--out-dir", tmp_path / "both") == 0
    said = capsys.readouterr()
    assert f"left out {tmp_path / 'notes.txt'}: it is neither" in said.err
    assert re.search(r"^random +\d", said.out, re.MULTILINE)
    assert run_cli("report", tmp_path / "a", "--goal", "abc") == 2
    assert "--goal takes numbers by comma, such as 80,90; got 'abc'" in capsys.readouterr().err
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
    assert run_cli(*words, *sets, "--out-dir", out) == 0, capsys.readouterr().err
    first = (out / "report" / "report.html").read_text()
    assert "What each picked first" in first
    table.write_text("\n".join(["x,y,label", *rows[:10]]))
    assert run_cli("report", out) == 0
    assert (out / "report" / "report.html").read_text() == first  # the runs keep what they showed


def test_a_report_neither_runs_code_nor_reads_data_that_a_manifest_names(tmp_path: Path):
    folder = write_runs(tmp_path / "theirs", FOUR, dataset={"use": f"{tmp_path}/evil.py:data"})
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath(__file__).with_name('harm').touch()\n")
    assert run_cli("report", folder) == 0
    assert "What each picked first" not in (folder / "report" / "report.html").read_text()
    assert run_cli("compare", folder, folder / "..", "--out-dir", tmp_path / "both") == 2
    assert not (tmp_path / "harm").exists()


def cycle(number: int) -> Cycle:
    return Cycle(number, 10, [], {"macro_f1": 0.5, "accuracy": 0.813}, 1, 1, 1)


def test_piped_progress_is_lines(capsys: pytest.CaptureFixture[str]):
    plan = Plan({Job("random", 0): 0, Job("badge", 0): 0}, points=1)
    with progress_display(Console(), plan, 1) as show:
        for event in (
            Event("done", Job("random", 0), cycle(0)),
            Event("failed", Job("badge", 0), reason="no"),
        ):
            plan.update(event)
            show(event)
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] random seed 0: done, accuracy 81.3 % with 10 labels",
        "[1/2] badge seed 0: failed: no",
    ]
    assert score(Cycle(0, 20, [], {"mae": 23456.7}, 0, 0, 0)) == "MAE 23457 with 20 labels"


def test_the_time_left_counts_what_each_strategy_takes(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    slow, quick = Job("slow", 0), Job("quick", 0)
    plan = Plan({slow: 0, quick: 0, Job("slow", 1): 0}, points=4)
    clock = Clock(plan, processes=2)
    assert clock.left() is None
    for job, seconds in ((slow, 10.0), (quick, 2.0)):
        for event in (Event("started", job), Event("cycle", job, cycle(0))):
            plan.update(event)
            clock.note(event)
            now[0] += seconds
    # slow: 3 + 4 cycles of 10 s, quick: 3 of 2 s, two at a time
    assert clock.left() == pytest.approx((7 * 10 + 3 * 2) / 2)


def test_seeds():
    chosen = protocol.load("digits")
    assert list(seeds_of(None, chosen)) == [0, 1, 2, 3, 4]
    assert list(seeds_of("3", chosen)) == [0, 1, 2]
    assert list(seeds_of("3,5", chosen)) == [3, 5]
    assert list(seeds_of("3,", chosen)) == [3]
