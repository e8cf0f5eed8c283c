"""Interrupts, kills, a full disk, edited files, corrupt lines: nothing is lost, and what was hashed is what runs."""

import errno
import json
import os
import re
import signal
import subprocess
import time
from hashlib import sha256
from pathlib import Path

import pytest
from commands import command, run_cli
from PIL import Image
from tiny import OWN, numbers, tiny, tiny_file

from jostle.experiments import store
from jostle.experiments import store as manifests
from jostle.experiments.experiment import open_experiment, run_experiment
from jostle.experiments.store import CorruptRunError
from jostle.utils.names import parse_specs

RAISES = '''
from dataclasses import dataclass
from pathlib import Path
from jostle.strategies import NoiseStability

@dataclass(frozen=True, kw_only=True)
class Fragile(NoiseStability):
    """Raises when 18 examples of seed 1 are labeled."""

    def embedding(self, context):
        known = context.labeled.targets()
        if len(known) == 18 and int(known.sum()) == int(Path(__file__).with_name("deadly.txt").read_text()):
            raise RuntimeError("the third cycle is too much")
        return super().embedding(context)
'''


def wait_for(true: object) -> None:
    end = time.monotonic() + 300  # seconds, on a busy machine
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_workers_end_when_their_parent_is_killed(tmp_path: Path):
    tiny_file(tmp_path)
    words = command("run", str(tmp_path / "tiny.toml"), "--set", "training.epochs=10", "--set", "rounds=300",
                    "--jobs", "2", "--no-report", "--out-dir", str(tmp_path / "runs"))  # fmt: skip
    parent = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list((tmp_path / "runs").glob("*/*.jsonl"))) == 2)  # both compute
    workers = children(parent.pid)
    assert len(workers) >= 2
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(alive(worker) for worker in workers))


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


def test_many_ctrl_c_end_quietly_and_keep_what_is_done(tmp_path: Path):
    process = started(tmp_path, "--jobs", "2")
    while process.poll() is None:  # to all processes, as a terminal sends it
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.02)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "jostle: stopped; the same command resumes from here"
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
    assert numbers(tmp_path / "runs")


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A long command that has done its first cycle."""
    tiny_file(folder)
    process = subprocess.Popen(
        command("run", str(folder / "tiny.toml"), "--set", "training.epochs=20", "--seeds", "200", "--no-report",
                "--out-dir", str(folder / "runs"), *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    )  # fmt: skip
    wait_for(lambda: any((folder / "runs").glob("*/*.jsonl")))
    return process


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    file, out = tiny_file(tmp_path), tmp_path / "runs"
    words = ("run", file, "--seeds", 1, "--strategies", "random", "--no-report", "--out-dir", out)
    write, left = store.write_whole, [4]  # the manifest and three lines fit

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
    run_experiment(tiny(tmp_path).model_copy(update={"strategies": {"random": tiny(tmp_path).strategies["random"]}}),
            tmp_path / "whole", [0])  # fmt: skip
    assert numbers(out) == numbers(tmp_path / "whole")


def test_a_strategy_that_raises_in_one_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tiny_file(tmp_path)
    (tmp_path / "fragile.py").write_text(RAISES)
    (tmp_path / "deadly.txt").write_text("-1")
    spec = f"fragile={tmp_path}/fragile.py:Fragile(num_perturbations=2),random"
    words = ("run", tmp_path / "tiny.toml", "--strategies", spec, "--seeds", 2, "--no-report")
    assert run_cli(*words, "--out-dir", tmp_path / "whole") == 0
    picked = [example for line in numbers(tmp_path / "whole")["fragile/1"][:3] for example in line["picked"]]  # type: ignore[attr-defined]
    from jostle import datasets

    (tmp_path / "deadly.txt").write_text(str(int(datasets.load("digits").train.targets[picked].sum())))
    capsys.readouterr()
    assert run_cli(*words, "--out-dir", tmp_path / "runs") == 1
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
    assert run_cli(*words, "--out-dir", tmp_path / "runs") == 0
    assert numbers(tmp_path / "runs") == numbers(tmp_path / "whole")


def test_a_run_under_way_elsewhere_is_left_alone(tmp_path: Path):
    protocol = tiny(tmp_path, "rounds=1")
    run_experiment(protocol, tmp_path / "runs", [])
    with store.RunFile.of(tmp_path / "runs", "margin", 0).locked():
        finished = run_experiment(protocol, tmp_path / "runs", [0])
    assert [event.reason for event in finished.failures] == ["another process is writing margin/0"]
    assert {job.label for job in finished.missing} == {"margin"}


def test_an_edited_file_is_refused(tmp_path: Path):
    own, out = tmp_path / "own.py", tmp_path / "runs"
    own.write_text(OWN)
    strategy = f"strategies={{Own={{use='{own}:Own', num_perturbations=2}}}}"
    protocol = tiny(tmp_path, "rounds=1", f"dataset={own}:data(rows=60)", strategy)
    assert not run_experiment(protocol, out, [0]).failures
    before = numbers(out)
    own.write_text(OWN + "# edited\n")
    with pytest.raises(manifests.ChangedError) as refused:
        run_experiment(protocol, out, [0])
    for field in ("dataset", "strategies.Own"):
        assert f"sha256 of the file of {field}: " in str(refused.value)
    assert numbers(out) == before
    own.write_text(OWN)
    run_experiment(protocol, out, [0])


IMPORTING = """
from jostle.strategies import Margin, Random
from helper import first

class Own(first(Margin, Random)):
    ...
"""


HELPER = "def first(one, other): return one"


DEADLY = """
import os, signal
from jostle.strategies import Random

class Deadly(Random):
    def query(self, context, n):
        if len(context.pool) == 40:  # not in the smoke test, which has fewer candidates
            os.kill(os.getpid(), signal.SIGKILL)
        return super().query(context, n)
"""


def test_runs_of_several_processes_are_those_of_one_whoever_dies_and_whatever_is_edited(tmp_path: Path):
    """The strategy `own` is margin by way of a helper, which is edited as soon as runs are under way."""
    for name, text in (("own.py", IMPORTING), ("helper.py", HELPER), ("deadly.py", DEADLY)):
        (tmp_path / name).write_text(text)
    own, deadly = (f"{tmp_path}/{name}" for name in ("own.py:Own", "deadly.py:Deadly"))
    protocol = tiny(
        tmp_path, "rounds=1", f"strategies.random.use={own}", f"strategies.noise-stability={{use='{deadly}'}}"
    )
    with open_experiment(protocol, tmp_path / "runs", [0, 1]) as experiment:
        for _ in experiment.execute(processes=2):
            (tmp_path / "helper.py").write_text("def first(one, other): return other")
    assert {(event.job.label, event.reason) for event in experiment.plan.failures} == {
        ("noise-stability", "its process ended with signal SIGKILL (out of memory?)")
    }
    assert {job.label for job in experiment.plan.missing} == {"noise-stability"}
    found = numbers(tmp_path / "runs")
    run_experiment(tiny(tmp_path, "rounds=1").chosen(parse_specs("margin")), tmp_path / "alone", [0, 1])
    alone = numbers(tmp_path / "alone")
    for seed in (0, 1):
        assert found[f"random/{seed}"] == found[f"margin/{seed}"] == alone[f"margin/{seed}"]
    recorded = manifests.read_manifest(tmp_path / "runs")
    assert recorded is not None
    assert recorded["files"] == {
        "strategies.random": sha256(IMPORTING.encode()).hexdigest(),
        "strategies.random (helper.py)": sha256(HELPER.encode()).hexdigest(),
        "strategies.noise-stability": sha256(DEADLY.encode()).hexdigest(),
    }
    with pytest.raises(manifests.ChangedError, match=r"sha256 of the file of strategies\.random"):
        run_experiment(protocol, tmp_path / "runs", [0])


def test_data_that_changes_while_runs_are_under_way_stops_them(tmp_path: Path):
    table = tmp_path / "table.csv"
    rows = ["a,b,label", *(f"{i % 7},{i % 5},{'xy'[i % 2]}" for i in range(90))]
    table.write_text("\n".join(rows))
    protocol = tiny(tmp_path, f'dataset="csv:{table}(target=label)"', "model.use=mlp", "test=all", "rounds=1")

    with open_experiment(protocol, tmp_path / "runs", [0, 1, 2, 3]) as experiment:
        for event in experiment.execute():
            if event.kind == "done":
                table.write_text("\n".join(rows[:-9]))
    finished = experiment.plan
    assert finished.failures
    for event in finished.failures:
        assert "is not what it was when the command began (table.csv changed): restore it" in event.reason
    before = numbers(tmp_path / "runs")
    assert len(before) < 12
    table.write_text("\n".join(rows))
    assert run_experiment(protocol, tmp_path / "runs", [0, 1, 2, 3]).missing == []


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ([1297], "line 2 is corrupt: it labels example 1297 of"),
        ([], "labels 3 examples, where the protocol"),
    ],
)
def test_a_run_that_the_protocol_cannot_have_made_is_refused(tmp_path: Path, last: list[int], why: str):
    protocol = tiny(tmp_path, "rounds=1", "strategies={margin={}}")
    run_experiment(protocol, tmp_path / "runs", [0])
    path = tmp_path / "runs/margin/0.jsonl"
    first, second = path.read_text().splitlines()
    changed = json.loads(second)
    del changed["checksum"]
    changed["picked"][-1:] = last
    path.write_text(first + "\n" + json.dumps({**changed, "labeled": 13 + len(last)}) + "\n")
    with pytest.raises(CorruptRunError, match=why):
        run_experiment(protocol, tmp_path / "runs", [0])


def test_images_that_change_within_a_run_are_not_written_down(tmp_path: Path):
    for name, shade in (("a", 0), ("b", 100)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            Image.new("L", (8, 8), shade + 5 * number).save(tmp_path / "photos" / name / f"{number}.png")
    protocol = tiny(
        tmp_path, f'dataset="folder:{tmp_path}/photos(mode=L)"', "test=all", "candidates=all", "pick=2"
    )

    with open_experiment(protocol, tmp_path / "runs", [0]) as experiment:
        for event in experiment.execute():
            if event.kind == "cycle" and event.cycle.cycle == 1:
                (tmp_path / "photos" / "a" / "0.png").unlink()
    finished = experiment.plan
    assert [event.job.label for event in finished.failures] == ["random", "margin", "noise-stability"]
    assert {run: len(lines) for run, lines in numbers(tmp_path / "runs").items()} == {"random/0": 2}
