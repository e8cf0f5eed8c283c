"""How commands end: exit codes, interrupts, closed pipes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import run_cli
from interrupted import hear_interrupts

from jostle import cli


@pytest.mark.parametrize(
    "words",
    [
        ["run", "digits", "--out-dir", "-"],
        ["demo", "--out-dir", "-"],
        ["report", "runs", "--out-dir", "-"],
        ["compare", "runs", "--out-dir", "./-"],
        ["label", "simulate", "photos", "folder", "--out-dir", "-"],
        ["label", "photos", "--project", "-"],
    ],
    ids=" ".join,
)
def test_no_file_or_folder_is_named_like_standard_output(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert run_cli(*words) == 2
    said = capsys.readouterr().err
    assert f"jostle: {words[-2]}: - is standard output, where only the csv of picks goes" in said
    assert not list(tmp_path.iterdir())


MINE = """
import time, sys

def slow():
    print("ready", file=sys.stderr, flush=True)
    time.sleep(600)

def quick():
    from torch import nn
    return nn.Linear(2, 2)

def unknown():
    return {}["weights"]

def leaving():
    sys.exit(0)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n3,4\n")
    return tmp_path / "mine.py"


def test_interrupts_end_with_130_however_many(mine: Path):
    words = [
        sys.executable,
        "-m",
        "jostle",
        "pick",
        "--model",
        "mine.py:slow",
        "--pool",
        "csv:rows.csv",
        "-n",
        "1",
    ]
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, cwd=mine.parent, preexec_fn=hear_interrupts
    ) as started:
        assert started.stderr is not None
        assert started.stderr.readline() == "ready\n"
        for _ in range(40):
            if started.poll() is None:
                os.kill(started.pid, signal.SIGINT)
                time.sleep(0.005)
        said = started.stderr.read()
    assert started.returncode == 130, said
    assert "jostle: stopped" in said
    assert "resumes from here" not in said
    assert "Traceback" not in said
    assert not (mine.parent / "picks.csv").exists()


LOST = """
import os, signal, time
from jostle.cli import hear_one_interrupt

class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)  # the interrupt arrives here, where nothing can be raised

hear_one_interrupt()
held = Held()
try:
    del held
    time.sleep(90)
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends a process on Windows")
def test_an_interrupt_that_a_finalizer_swallows_comes_again():
    done = subprocess.run(
        [sys.executable, "-c", LOST],
        capture_output=True, text=True, timeout=60, check=False, preexec_fn=hear_interrupts,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("stopped\n", "")


@pytest.mark.parametrize(
    ("command", "resumes"), [("run", True), ("demo", True), ("pick", False), ("list", False)]
)
def test_only_what_resumes_says_so(
    command: str, resumes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupted(**_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    assert run_cli(command) == 130
    assert ("resumes from here" in capsys.readouterr().err) is resumes


def test_notes_of_an_error_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    error = RuntimeError("mat1 and mat2")
    error.add_note("(jostle gave the model a first batch of torch.float32 (2, 3))")

    def failing(**_: object) -> int:
        raise error

    monkeypatch.setattr(cli, "app", failing)
    assert run_cli("pick") == 1  # not known to be the user's
    said = capsys.readouterr().err
    assert (
        said
        == "jostle: RuntimeError: mat1 and mat2 (jostle gave the model a first batch of torch.float32 (2, 3))\n"
    )


def test_a_reader_that_went_away_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def closed(**_: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(cli, "app", closed)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back afterwards
    assert run_cli("list", "strategies") == 141
    assert capsys.readouterr().err == ""


PICK = ["pick", "--model", "mine.py:quick", "--pool", "csv:rows.csv", "-n", "1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rum"], "No such command"),
        (["run"], "Missing argument"),
        (["run", "nothing.toml"], "nothing.toml"),
        (["run", "mnits"], "did you mean 'mnist'"),
        (["run", "digits", "--seeds", "x"], "--seeds takes a number"),
        (["run", "digits", "--strategies", "badge(x=1)"], "unknown setting of badge 'x'"),
        (["run", "digits", "--dataset", "rows.csv"], "write csv:rows.csv"),
        (["run", "mnist", "--data", "/nowhere"], "/nowhere does not exist"),
        (["run", "digits", "--device", "abacus"], "abacus"),
        (["run", "digits", "--out-dir", "mine.py"], "mine.py is a file"),
        (["report", "nowhere"], "there is no such folder"),
        (["report", "."], "it has no manifest.json"),
        (["compare", "nowhere", "."], "nowhere"),
        (["list", "cats"], "cats"),
        (["show", "nothing-of-the-kind"], "unknown name"),
        (["pick"], "Missing option"),
        ([*PICK, "-n", "0"], "'-n'"),
        ([*PICK, "--strategy", "nose-stability"], "did you mean 'noise-stability'"),
        ([*PICK, "--model", "nothing.py:load"], "there is no file 'nothing.py'"),
        ([*PICK, "--model", "mine.py:unknown"], "KeyError: 'weights' (in "),
        ([*PICK, "--model", "mine.py:leaving"], "ended by exit(0) in "),
        ([*PICK, "--pool", "mine.py"], "write mine.py:FUNCTION"),
        ([*PICK, "--bogus"], "No such option"),
    ],
)
def test_every_mistake_ends_with_2_and_a_sentence(
    mine: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
):
    assert run_cli(*words) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert "Traceback" not in errors
