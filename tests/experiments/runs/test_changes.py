"""What changes under runs or in them: edited files, other data, corrupt lines. What was hashed is what runs."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from commands import run_cli
from PIL import Image
from tiny import OWN, numbers, tiny, tiny_file

from jostle.experiments import store as manifests
from jostle.experiments.experiment import open_experiment, run_experiment
from jostle.experiments.store import CorruptRunError
from jostle.utils.names import parse_specs


def test_an_edited_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    own, out = tmp_path / "own.py", tmp_path / "runs"
    own.write_text(OWN)
    base = ("run", tiny_file(tmp_path), "--set", "rounds=1", "--seeds", 1, "--no-report", "--out-dir", out)
    words = (
        *base,
        "--strategies",
        f"random,{own}:Own(num_perturbations=2)",
        "--dataset",
        f"{own}:data(rows=60)",
    )
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
    ("edit", "why"),
    [
        (
            lambda line: {**line, "picked": [*line["picked"][:-1], 1297]},
            "line 2 is corrupt: it labels example 1297 of",
        ),
        (
            lambda line: {**line, "picked": line["picked"][:-1], "labeled": 13},
            "labels 3 examples, where the protocol",
        ),
    ],
)
def test_a_run_that_the_protocol_cannot_have_made_is_refused(tmp_path: Path, edit: Any, why: str):
    protocol = tiny(tmp_path, "rounds=1")
    run_experiment(protocol, tmp_path / "runs", [0])
    path = tmp_path / "runs/margin/0.jsonl"
    first, second = path.read_text().splitlines()
    changed = {key: value for key, value in edit(json.loads(second)).items() if key != "checksum"}
    path.write_text(first + "\n" + json.dumps(changed) + "\n")
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
