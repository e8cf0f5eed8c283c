"""Files that are written whole or not at all, locks that die with their process, manifests that extend."""

import json
import multiprocessing
import os
import re
import signal
from dataclasses import asdict
from pathlib import Path

import pytest

from jostle.experiments import store as manifests
from jostle.experiments.store import (
    ChangedError,
    CorruptRunError,
    Cycle,
    ManifestError,
    RunBusyError,
    RunFile,
    checksum,
    from_line,
)


def cycle(number: int) -> Cycle:
    picked = list(range(10 * number, 10 * number + 10))
    return Cycle(number, 10 * (number + 1), picked, {"accuracy": 0.1 * number}, 1.5, 0.25, 7)


def run_file(folder: Path, label: str, seed: int, *cycles: Cycle) -> RunFile:
    file = RunFile.of(folder, label, seed)
    for each in cycles:
        file.append(each)
    return file


def test_a_run_reads_what_it_wrote(tmp_path: Path):
    assert RunFile.of(tmp_path, "margin", 3).read() == []
    file = run_file(tmp_path, "margin", 3, cycle(0), cycle(1))
    assert file.path == tmp_path / "margin" / "3.jsonl"
    assert file.read() == [cycle(0), cycle(1)]
    assert [path.name for path in file.path.parent.iterdir()] == ["3.jsonl"]


@pytest.mark.parametrize(
    "tail", ['{"cycle": 2, "lab', "\x00\x00\x00", '{"cycle": 7}\n', "[]\n", json.dumps({"cycle": 2}) + "\n"]
)
def test_a_torn_tail_is_as_if_it_had_not_been_written(tmp_path: Path, tail: str):
    file = run_file(tmp_path, "margin", 0, cycle(0), cycle(1))
    with file.path.open("a") as end:
        end.write(tail)
    assert file.read() == [cycle(0), cycle(1)]
    file.append(cycle(2))
    assert file.read() == [cycle(0), cycle(1), cycle(2)]


def outcome(file: RunFile) -> tuple[list[Cycle] | None, str]:
    try:
        return file.read(), ""
    except CorruptRunError as error:
        return None, str(error)


@pytest.mark.parametrize("line", [1, 2])
def test_no_changed_letter_is_taken_for_true(tmp_path: Path, line: int):
    whole = [cycle(0), cycle(1), cycle(2)]
    file = run_file(tmp_path, "margin", 0, *whole)
    lines = file.path.read_text().splitlines()
    refused = 0
    for place, letter in enumerate(lines[line]):
        for other in "17x}" if letter.isdigit() else "5,":
            changed = lines[line][:place] + other + lines[line][place + 1 :]
            file.path.write_text("\n".join([*lines[:line], changed, *lines[line + 1 :]]) + "\n")
            found, error = outcome(file)
            assert (
                found in (None, whole, whole[:line]) if line == 2 else found in (None, whole)
            )  # torn, or no other
            assert found is not None or f"0.jsonl, line {line + 1} is corrupt: " in error
            refused += found is None
    assert refused > 100


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"picked": [*range(9), 3]}, "twice"),
        ({"picked": list(range(10))}, "twice"),
        ({"picked": [-1, *range(11, 20)]}, "negative"),
        (
            {"picked": list(range(10, 19))},
            "its counts do not add up: 20 labeled examples after 10, with 9 new",
        ),
        ({"labeled": 10, "picked": []}, "do not add up"),
        ({"labeled": 20.0}, "labeled: input should be a valid integer"),
        ({"picked": ["x"]}, "picked.0: "),
        ({"metrics": [0.5]}, "metrics: "),
        ({"metrics": {"accuracy": "x"}}, "metrics.accuracy: "),
        ({"acuracy": 1}, "a cycle has no field 'acuracy'"),
        ({"cycle": 4}, "it is cycle 4, where 1 is due"),
    ],
)
def test_lines_without_a_checksum_are_read_and_must_make_sense(
    tmp_path: Path, changes: dict[str, object], why: str
):
    file = RunFile.of(tmp_path, "margin", 0)
    file.path.parent.mkdir()
    first, second = ({**asdict(each)} for each in (cycle(0), cycle(1)))
    file.path.write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    assert file.read() == [cycle(0), cycle(1)]
    file.path.write_text(json.dumps(first) + "\n" + json.dumps({**second, **changes}) + "\n")
    with pytest.raises(CorruptRunError, match="line 2 is corrupt: .*" + re.escape(why)):
        file.read()


def test_lines_that_are_there_stay_as_they_are(tmp_path: Path):
    file = RunFile.of(tmp_path, "margin", 0)
    file.path.parent.mkdir()
    old = json.dumps(asdict(cycle(0)), separators=(",", ":")) + "\n"
    file.path.write_text(old)
    file.append(cycle(1))
    assert file.path.read_text().startswith(old)
    assert file.read() == [cycle(0), cycle(1)]
    file.path.write_text("")
    with pytest.raises(CorruptRunError, match="line 1 is corrupt: it is gone"):
        file.append(cycle(2))


def hold(path: str, ready: object) -> None:
    with RunFile(Path(path)).locked():
        ready.set()  # type: ignore[attr-defined]
        signal.pause()


def test_two_processes_cannot_write_a_run_and_a_lock_dies_with_its_process(tmp_path: Path):
    file = RunFile.of(tmp_path, "margin", 0)
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=hold, args=(str(file.path), ready))
    holder.start()
    assert ready.wait(120)
    with pytest.raises(RunBusyError, match="another process is writing margin/0"), file.locked():
        pass
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with file.locked():
        pass
    assert list(file.path.parent.iterdir()) == []


def manifest(**changes: object) -> dict[str, object]:
    fields = {
        "name": "a",
        "rounds": 3,
        "seeds": 2,
        "training": {"lr": 0.1},
        "strategies": {"random": {"use": "random"}},
    }
    made = {"data": {"x": "00"}, "versions": {"jostle": "1"}, "hardware": {}, "command": ["jostle", "run"]}
    return {"protocol": fields | changes, **made}


def test_manifests_extend(tmp_path: Path):
    manifests.write_manifest(tmp_path, manifest())
    more = manifest(seeds=9, strategies={"margin": {"use": "margin"}}) | {
        "command": ["jostle", "run", "more"]
    }
    manifests.write_manifest(tmp_path, more)
    merged = manifests.read_manifest(tmp_path)
    assert merged is not None
    assert list(merged["protocol"]["strategies"]) == ["random", "margin"]
    assert (merged["command"], merged["earlier_commands"]) == (["jostle", "run", "more"], [["jostle", "run"]])
    manifests.write_manifest(tmp_path, more)
    assert manifests.read_manifest(tmp_path) == merged
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_another_protocol_is_refused_with_the_difference(tmp_path: Path):
    manifests.write_manifest(tmp_path, manifest())
    before = (tmp_path / "manifest.json").read_bytes()
    strategies = {"random": {"use": "random", "head": "x"}}
    changed = manifest(rounds=4, training={"lr": 0.2}, strategies=strategies) | {"data": {"x": "11"}}
    with pytest.raises(ChangedError) as refused:
        manifests.write_manifest(tmp_path, changed)
    differences = ("rounds: 3 -> 4", "training.lr: 0.1 -> 0.2", "data.x: '00' -> '11'", "strategies.random")
    assert all(part in str(refused.value) for part in (*differences, "--out-dir"))
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_folders_that_cannot_hold_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, full = tmp_path / "file", tmp_path / "full"
    full.mkdir()
    manifests.check_folder(full)
    manifests.check_folder(tmp_path / "new" / "deep")
    (full / ".manifest.lock").touch()  # another command has just begun
    manifests.check_folder(full)
    file.touch()
    (full / "thesis.txt").touch()
    for folder, said in (
        (file, "is a file"),
        (file / "runs", "is a file"),
        (full, r"not empty \(thesis.txt\)"),
    ):
        with pytest.raises(ValueError, match=said):
            manifests.check_folder(folder)
    manifests.write_manifest(full, manifest())
    manifests.check_folder(full)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(ValueError, match="no permission to write"):
        manifests.check_folder(tmp_path / "new")


@pytest.mark.parametrize("field", ["protocol", "data", "command", "files"])
def test_a_manifest_of_another_shape_is_named(tmp_path: Path, field: str):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest() | {field: 3}))
    with pytest.raises(ManifestError, match=rf"manifest\.json: {field} is 3, expected"):
        manifests.read_manifest(tmp_path)


def test_lines_of_earlier_versions_are_read_with_their_spelling_and_checksum():
    old = {"cycle": 0, "labelled": 2, "picked": [0, 1], "metrics": {"accuracy": 0.5}}
    line = json.dumps({**old, "checksum": checksum(old)})
    assert from_line(line, 0).labeled == 2
    with pytest.raises(ValueError, match="checksum"):
        from_line(line.replace('"labelled": 2', '"labelled": 3'), 0)
