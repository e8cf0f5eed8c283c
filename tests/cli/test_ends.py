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
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n3,4\n")
    return tmp_path / "mine.py"


def test_interrupts_end_with_130_however_many(mine: Path):
    words = [sys.executable, "-m", "jostle", "pick"]
    words += ["--model", "mine.py:slow", "--pool", "csv:rows.csv", "-n", "1"]
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


NOTED = RuntimeError("mat1 and mat2")
NOTED.add_note("(jostle gave the model a first batch)")


@pytest.mark.parametrize(
    ("words", "error", "code", "said"),
    [
        (["run"], KeyboardInterrupt(), 130, "jostle: stopped; the same command resumes from here\n"),
        (["demo"], KeyboardInterrupt(), 130, "jostle: stopped; the same command resumes from here\n"),
        (
            ["pick", "--work=w"],
            KeyboardInterrupt(),
            130,
            "jostle: stopped; the same command resumes from here\n",
        ),
        (["pick"], KeyboardInterrupt(), 130, "jostle: stopped\n"),
        (["pick"], NOTED, 1, "jostle: RuntimeError: mat1 and mat2 (jostle gave the model a first batch)\n"),
        (["list"], BrokenPipeError(), 141, ""),  # whoever read our output has had enough
    ],
)
def test_how_a_command_ended_is_said(
    words: list[str], error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    def ended(**_: object) -> int:
        raise error

    monkeypatch.setattr(cli, "app", ended)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back afterwards
    assert run_cli(*words) == code
    assert capsys.readouterr().err == said


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
        (["pick", "-n", "0"], "'-n'"),
        (["pick", "--bogus"], "No such option"),
    ],
)
def test_every_mistake_ends_with_2_and_a_sentence(
    mine: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
):
    assert run_cli(*words) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert "Traceback" not in errors
