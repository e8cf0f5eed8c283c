"""What goes wrong: interrupts, kills, a full disk, bad folders, bad files, a strategy that raises. Nothing is lost."""

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tiny import numbers, tiny, tiny_file

from jostle import cli
from jostle.plumbing.user_files import kept_sources
from jostle.results import manifest as manifests
from jostle.results import store
from jostle.results.store import CorruptRunError
from jostle.runs import workers
from jostle.runs.bench import Bench
from jostle.runs.experiment import conduct
from jostle.runs.workers import Event, Job, ending, explained

RAISES = '''
from dataclasses import dataclass
from pathlib import Path
from jostle.strategies import NoiseStability

@dataclass(frozen=True, kw_only=True)
class Fragile(NoiseStability):
    """Raises when 18 examples of seed 1 are labelled."""

    def embedding(self, request):
        known = request.labeled.targets()
        if len(known) == 18 and int(known.sum()) == int(Path(__file__).with_name("deadly.txt").read_text()):
            raise RuntimeError("the third cycle is too much")
        return super().embedding(request)
'''


OWN = """
import math, torch
from dataclasses import dataclass
from jostle.strategies import NoiseStability as Own_

class Own(Own_):
    ...

@dataclass(frozen=True, kw_only=True)
class Raising(Own_):
    def embedding(self, request):
        return {}["colour"]

points = [1, 2]

def data(rows=40):
    x = torch.randn(rows, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    y = (x.mean((1, 2, 3)) > 0).long()
    return x[:-10], y[:-10], x[-10:], y[-10:]
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from jostle.cli import main; main()", *words]


def run_cli(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    return int(end.value.code or 0)


def test_killed_at_random_moments_it_ends_with_the_same_numbers(tmp_path: Path):
    protocol = tiny(tmp_path, "rounds=5", "training.epochs=12")
    conduct(protocol, tmp_path / "whole", [0])
    words = command("run", str(tmp_path / "tiny.toml"), "--set", "rounds=5", "--set", "training.epochs=12",
                    "--seeds", "1", "--jobs", "2", "--no-report", "--out", str(tmp_path / "killed"))  # fmt: skip
    chance, kills = random.Random(0), 0
    for _ in range(3):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: any((tmp_path / "killed").glob("*/*.jsonl")), 120)
        time.sleep(chance.uniform(0, 1.0))
        kills += process.poll() is None
        process.kill()
        process.wait()
    assert kills
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")
    names = {path.name for path in (tmp_path / "killed").rglob("*") if path.is_file()}
    assert {name for name in names if name.endswith(".jsonl")} == {"0.jsonl"}


def wait_for(true: object, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_workers_end_when_their_parent_is_killed(tmp_path: Path):
    tiny_file(tmp_path)
    words = command("run", str(tmp_path / "tiny.toml"), "--set", "training.epochs=2000",
                    "--jobs", "2", "--no-report", "--out", str(tmp_path / "runs"))  # fmt: skip
    parent = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list((tmp_path / "runs").glob("*/.*.lock"))) == 2, 120)
    workers = children(parent.pid)
    assert len(workers) >= 2
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(alive(worker) for worker in workers), 20)


def children(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if f"\nPPid:\t{pid}\n" in text:
            found.append(int(status.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_ctrl_c_ends_quietly_and_keeps_what_is_done(tmp_path: Path):
    process = started(tmp_path, "--jobs", "1")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in said
    assert "Traceback" not in said
    assert numbers(tmp_path / "runs")["random/0"]


def test_a_second_ctrl_c_changes_nothing(tmp_path: Path):
    process = started(tmp_path, "--jobs", "2")
    while process.poll() is None:  # a whole salvo, to all processes, as a terminal sends it
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.002)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "jostle: stopped; the same command goes on from here"
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
    assert numbers(tmp_path / "runs")


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A long command that has done its first cycle."""
    tiny_file(folder)
    process = subprocess.Popen(
        command("run", str(folder / "tiny.toml"), "--set", "training.epochs=200", "--seeds", "60", "--no-report",
                "--out", str(folder / "runs"), *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    )  # fmt: skip
    wait_for(lambda: any((folder / "runs").glob("*/*.jsonl")), 120)
    time.sleep(0.3)
    return process


def test_a_worker_that_dies_fails_its_run_alone(tmp_path: Path):
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n"
        "from dataclasses import dataclass\n"
        "from jostle.strategies import Random\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Deadly(Random):\n"
        "    def query(self, request, n):\n"
        "        if len(request.pool) == 40:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().query(request, n)\n"
    )
    protocol = tiny(tmp_path, "rounds=1", f"strategies.random.use={tmp_path}/deadly.py:Deadly")
    finished = conduct(protocol, tmp_path / "runs", [0], processes=2)
    assert [(event.job, event.reason) for event in finished.failures] == [
        (Job("random", 0), "its process ended with signal SIGKILL (out of memory?)")
    ]
    assert {job.label for job in finished.missing} == {"random"}


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    file, out = tiny_file(tmp_path), tmp_path / "runs"
    words = ("run", file, "--seeds", 1, "--strategies", "random", "--no-report", "--out", out)
    write, left = store.write_whole, [3]  # three lines fit

    def fills(path: Path, text: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, text)

    monkeypatch.setattr(store, "write_whole", fills)
    assert run_cli(*words) == 1
    said = capsys.readouterr().err
    assert "random seed 0: No space left on device" in said
    assert "Traceback" not in said
    assert len(numbers(out)["random/0"]) == 3
    monkeypatch.undo()
    assert run_cli(*words) == 0
    conduct(tiny(tmp_path).model_copy(update={"strategies": {"random": tiny(tmp_path).strategies["random"]}}),
            tmp_path / "whole", [0])  # fmt: skip
    assert numbers(out) == numbers(tmp_path / "whole")


def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "taken").write_text("a file")
    assert (
        run_cli("run", tiny_file(tmp_path), "--strategies", "random", "--out", tmp_path / "taken" / "runs")
        == 2
    )
    said = capsys.readouterr().err
    assert "taken" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("kind", ["file", "full"])
def test_a_folder_of_something_else_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
):
    out = tmp_path / "out"
    out.write_text("") if kind == "file" else (out.mkdir(), (out / "thesis.txt").touch())
    monkeypatch.setattr("jostle.runs.experiment.try_out", lambda bench: pytest.fail("tried out"))
    assert run_cli("run", tiny_file(tmp_path), "--out", out) == 2
    assert f"--out {out}" in capsys.readouterr().err


def test_an_edited_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    own, out = tmp_path / "own.py", tmp_path / "runs"
    own.write_text(OWN)
    base = ("run", tiny_file(tmp_path), "--set", "rounds=1", "--seeds", 1, "--no-report", "--out", out)
    words = (*base, "--strategies", f"random,{own}:Own(jolts=2)", "--dataset", f"{own}:data(rows=60)")
    assert run_cli(*words) == 0, capsys.readouterr().err
    before = numbers(out)
    assert run_cli(*words) == 0
    own.write_text(OWN + "# edited\n")
    assert run_cli(*words) == 2
    said = capsys.readouterr().err
    assert "sha256 of the file of dataset: " in said
    assert "sha256 of the file of strategies.Own: " in said
    assert numbers(out) == before
    own.write_text(OWN)
    assert run_cli(*words) == 0


IMPORTING = """
from jostle.strategies import Margin, Random
from helper import first

class Own(first(Margin, Random)):
    ...
"""
HELPER = "def first(one, other): return one"


@pytest.mark.parametrize(("processes", "edited"), [(1, "own.py"), (2, "helper.py")])
def test_a_file_edited_while_runs_are_under_way_changes_nothing(tmp_path: Path, processes: int, edited: str):
    (tmp_path / "own.py").write_text(IMPORTING)
    (tmp_path / "helper.py").write_text(HELPER)
    use = f"{tmp_path}/own.py:Own"
    protocol = tiny(tmp_path, "rounds=1", "strategies.margin.use=margin", f"strategies.random.use={use}")
    edits = {
        "own.py": IMPORTING.replace("(Margin, Random)", "(Random, Margin)"),
        "helper.py": "def first(one, other): return other",
    }

    def edit(event: Event) -> None:
        (tmp_path / edited).write_text(edits[edited])

    finished = conduct(protocol, tmp_path / "runs", [0, 1, 2], processes=processes, tell=lambda plan: edit)
    assert not finished.failures
    found = numbers(tmp_path / "runs")
    for seed in range(3):
        assert (
            found[f"random/{seed}"] == found[f"margin/{seed}"]
        )  # the label random is margin, as it was at first
    recorded = manifests.read(tmp_path / "runs")
    assert recorded is not None
    assert recorded["files"] == {
        "strategies.random": sha256(IMPORTING.encode()).hexdigest(),
        "strategies.random (helper.py)": sha256(HELPER.encode()).hexdigest(),
    }
    with pytest.raises(manifests.ChangedError, match=r"sha256 of the file of strategies\.random"):
        conduct(protocol, tmp_path / "runs", [0])


def test_data_that_changes_while_runs_are_under_way_stops_them(tmp_path: Path):
    table = tmp_path / "table.csv"
    rows = ["a,b,label", *(f"{i % 7},{i % 5},{'xy'[i % 2]}" for i in range(90))]
    table.write_text("\n".join(rows))
    protocol = tiny(tmp_path, f'dataset="csv:{table}(target=label)"', "model.use=mlp", "test=all", "rounds=1")

    def edit(event: Event) -> None:
        if event.kind == "done":
            table.write_text("\n".join(rows[:-9]))

    finished = conduct(protocol, tmp_path / "runs", [0, 1, 2, 3], tell=lambda plan: edit)
    assert finished.failures
    for event in finished.failures:
        assert "is not what it was when the command began (table.csv changed): bring it back" in event.reason
    before = numbers(tmp_path / "runs")
    assert len(before) < 12
    table.write_text("\n".join(rows))
    assert conduct(protocol, tmp_path / "runs", [0, 1, 2, 3]).missing == []


def test_data_that_is_other_data_each_time_is_refused_by_workers(tmp_path: Path):
    (tmp_path / "own.py").write_text(
        OWN.replace(".manual_seed(0)", "").replace("generator=torch.Generator()", "")
    )
    protocol = tiny(tmp_path, f"dataset.use={tmp_path}/own.py:data", "candidates=all", "pick=2", "test=all")
    with kept_sources() as sources:
        recorded = Bench.of(protocol).data.checksums
        order = workers.Order(protocol, tmp_path / "runs", None, "cpu", recorded, sources)
        heard: list[Event] = []
        workers.Worker.of(order).attempt(Job("random", 0), heard.append)
    assert [event.kind for event in heard] == ["failed"]
    assert "(train inputs, train targets, test inputs, test targets changed)" in heard[0].reason


def test_images_that_change_within_a_run_are_not_written_down(tmp_path: Path):
    for name, shade in (("a", 0), ("b", 100)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            Image.new("L", (8, 8), shade + 5 * number).save(tmp_path / "photos" / name / f"{number}.png")
    protocol = tiny(
        tmp_path, f'dataset="folder:{tmp_path}/photos(mode=L)"', "test=all", "candidates=all", "pick=2"
    )

    def edit(event: Event) -> None:
        if event.cycle is not None and event.cycle.cycle == 1:
            (tmp_path / "photos" / "a" / "0.png").unlink()

    finished = conduct(protocol, tmp_path / "runs", [0], tell=lambda plan: edit)
    assert [event.job.label for event in finished.failures] == ["random", "margin", "noise-stability"]
    assert {run: len(lines) for run, lines in numbers(tmp_path / "runs").items()} == {"random/0": 2}


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (
            lambda line: {**line, "picked": [*line["picked"][:-1], 1297]},
            "line 2 is corrupt: it labels example 1297 of",
        ),
        (
            lambda line: {**line, "picked": line["picked"][:-1], "labelled": 13},
            "labels 3 examples, where the protocol",
        ),
    ],
)
def test_a_run_that_the_protocol_cannot_have_made_is_refused(tmp_path: Path, edit: Any, why: str):
    protocol = tiny(tmp_path, "rounds=1")
    conduct(protocol, tmp_path / "runs", [0])
    path = tmp_path / "runs/margin/0.jsonl"
    first, second = path.read_text().splitlines()
    changed = {key: value for key, value in edit(json.loads(second)).items() if key != "checksum"}
    path.write_text(first + "\n" + json.dumps(changed) + "\n")
    with pytest.raises(CorruptRunError, match=why):
        conduct(protocol, tmp_path / "runs", [0])


def test_a_run_of_another_seed_is_refused(tmp_path: Path):
    protocol = tiny(tmp_path, "rounds=1")
    conduct(protocol, tmp_path / "runs", [0])
    runs = tmp_path / "runs/margin"
    (runs / "0.jsonl").rename(runs / "1.jsonl")
    with pytest.raises(
        CorruptRunError, match="line 1 is corrupt: its examples are not the initial set that seed 1"
    ):
        conduct(protocol, tmp_path / "runs", [0, 1])


def test_a_corrupt_run_is_refused_with_its_line_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = (
        "run",
        tiny_file(tmp_path),
        "--set",
        "rounds=2",
        "--seeds",
        1,
        "--strategies",
        "random",
        "--no-report",
    )
    assert run_cli(*words, "--out", tmp_path / "runs") == 0
    path = tmp_path / "runs/random/0.jsonl"
    whole, text = numbers(tmp_path / "runs"), path.read_text()
    path.write_text(text.replace('"labelled": 14', '"labelled": 15'))
    capsys.readouterr()
    for command_line in ((*words, "--out", tmp_path / "runs"), ("report", tmp_path / "runs")):
        assert run_cli(*command_line) == 2
        said = capsys.readouterr().err
        assert (
            f"{path}, line 2 is corrupt: its checksum does not fit. Delete the line and all after it" in said
        )
    path.write_text("".join(text.splitlines(keepends=True)[:1]))
    assert run_cli(*words, "--out", tmp_path / "runs") == 0
    assert numbers(tmp_path / "runs") == whole


def test_a_corrupt_tail_is_mended(tmp_path: Path):
    protocol = tiny(tmp_path, "rounds=2")
    one = protocol.model_copy(update={"strategies": {"margin": protocol.strategies["margin"]}})
    conduct(one, tmp_path / "runs", [0])
    path = tmp_path / "runs/margin/0.jsonl"
    whole, text = numbers(tmp_path / "runs"), path.read_text()
    path.write_text(text[: len(text) - 40])
    conduct(one, tmp_path / "runs", [0])
    assert numbers(tmp_path / "runs") == whole


def test_a_strategy_that_raises_in_one_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tiny_file(tmp_path)
    (tmp_path / "fragile.py").write_text(RAISES)
    (tmp_path / "deadly.txt").write_text("-1")
    spec = f"fragile={tmp_path}/fragile.py:Fragile(jolts=2),random"
    words = ("run", tmp_path / "tiny.toml", "--strategies", spec, "--seeds", 2, "--no-report")
    assert run_cli(*words, "--out", tmp_path / "whole") == 0
    picked = [example for line in numbers(tmp_path / "whole")["fragile/1"][:3] for example in line["picked"]]  # type: ignore[attr-defined]
    from jostle import datasets

    (tmp_path / "deadly.txt").write_text(str(int(datasets.load("digits").train.targets[picked].sum())))
    capsys.readouterr()
    assert run_cli(*words, "--out", tmp_path / "runs") == 1
    said = capsys.readouterr().err
    assert "1 of 4 runs failed" in said
    assert "fragile seed 1: RuntimeError: the third cycle is too much" in said
    assert re.search(r"fragile\.py, line 13\)", said)
    assert "--debug shows the tracebacks" in said
    assert "Traceback" not in said
    found = numbers(tmp_path / "runs")
    assert {run: len(lines) for run, lines in found.items()} == {
        "fragile/0": 4, "fragile/1": 3, "random/0": 4, "random/1": 4,
    }  # fmt: skip
    (tmp_path / "deadly.txt").write_text("-1")
    assert run_cli(*words, "--out", tmp_path / "runs") == 0
    assert numbers(tmp_path / "runs") == numbers(tmp_path / "whole")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "pick=2000", "--set", "candidates=all"], "1297 training examples, but the budget is 6010"),
        (["--dataset", "ames", "--data", "."], "train.csv"),
        (["--dataset", "ames", "--data", "nowhere"], "nowhere"),
        (["--dataset", "folder:nowhere"], "nowhere"),
        (["--strategies", "margni"], "did you mean 'margin'"),
        (["--strategies", "margin(depth=3)"], "depth"),
        (["--strategies", "noise-stability(jolts=0)"], "jolts"),
        (["--strategies", "noise-stability(jolts=x)"], "jolts takes a whole number; got 'x'"),
        (["--strategies", "own.py:Own(depth=3)"], "unknown setting of own.py:Own 'depth'"),
        (
            ["--strategies", "own.py:Own(jolts=3)", "--set", "model.use=mlp"],
            "the network mlp cannot be trained",
        ),
        (["--strategies", "own.py:points"], "points in own.py is list; expected a function or a class"),
        (["--strategies", "own.py:data"], "own.py:data made tuple; expected a jostle.Strategy"),
        (["--strategies", "own.py:Raising"], "Raising does not work in tiny: KeyError: 'colour'"),
        (["--strategies", "own.py:Raising"], "own.py, line 12) (--debug shows the traceback)"),
        (["--dataset", "own.py:dat"], "'data'? (known: Own, Raising, data)"),
        (["--dataset", "own.py:data(rows=abc)"], "own.py:data(rows='abc'): "),
        (["--dataset", "own.py:data(colour=abc)"], "unknown setting of own.py:data 'colour'"),
        (
            ["--dataset", "folder:photos(size=abc)"],
            "folder:photos: size takes a whole number or a list [...] or none; got 'abc'",
        ),
        (["--dataset", "folder:photos(size=[1,2,3])"], "folder:photos(size=[1, 2, 3]): "),
        (["--set", "model.use=resnet"], "unknown model 'resnet'"),
        (["--set", "model.depth=3"], "depth"),
        (["--seeds", "none"], "--seeds takes a number"),
        (["--seeds", "0"], "--seeds takes a number"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_a_users_mistake_ends_with_2_and_writes_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
):
    monkeypatch.delenv("JOSTLE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    for name in "ab":
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(5):
            Image.new("L", (8, 8), 20 * number).save(tmp_path / "photos" / name / f"{number}.png")
    assert run_cli("run", tiny_file(tmp_path), *words, "--out", tmp_path / "runs") == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists()


def test_debug_shows_the_traceback(tmp_path: Path):
    with pytest.raises(ValueError, match="unknown protocol"):
        cli.main(["run", "digitz", "--debug"])


def test_a_run_under_way_elsewhere_is_left_alone(tmp_path: Path):
    protocol = tiny(tmp_path, "rounds=1")
    conduct(protocol, tmp_path / "runs", [])
    with store.RunFile.of(tmp_path / "runs", "margin", 0).locked():
        finished = conduct(protocol, tmp_path / "runs", [0])
    assert [event.reason for event in finished.failures] == ["another process is writing margin/0"]
    assert {job.label for job in finished.missing} == {"margin"}


def test_reasons_are_a_line():
    assert explained(OSError(errno.ENOSPC, "No space left on device", "x")) == "No space left on device (x)"
    assert explained(ValueError("asked for 3")) == "asked for 3"
    assert explained(RuntimeError("shape")) == "RuntimeError: shape"
    assert (ending(3), ending(-15)) == ("exit code 3", "signal SIGTERM")


def test_events_of_a_run_come_in_order(tmp_path: Path):
    heard: list[Event] = []
    protocol = tiny(tmp_path, "rounds=1")
    one = protocol.model_copy(update={"strategies": {"random": protocol.strategies["random"]}})
    conduct(one, tmp_path / "runs", [0], tell=lambda plan: heard.append)
    assert [event.kind for event in heard] == ["began", "cycle", "cycle", "done"]
    assert workers.Job("random", 0) == heard[0].job
