"""Files that are written whole or not at all, locks that die with their process, manifests that extend."""

import json
import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from jostle.results import store
from jostle.results.store import ChangedError, Cycle, RunBusyError, RunFile


def cycle(number: int) -> Cycle:
    return Cycle(number, 10 * (number + 1), [number], {"accuracy": 0.1 * number}, 1.5, 0.25, 7)


def test_a_run_reads_what_it_wrote(tmp_path: Path):
    file = RunFile.of(tmp_path, "margin", 3)
    assert file.read() == []
    file.write([cycle(0), cycle(1)])
    assert file.path == tmp_path / "margin" / "3.jsonl"
    assert file.read() == [cycle(0), cycle(1)]
    assert [path.name for path in file.path.parent.iterdir()] == ["3.jsonl"]


@pytest.mark.parametrize(
    "tail", ['{"cycle": 2, "lab', "\x00\x00\x00", '{"cycle": 7}\n', "[]\n", json.dumps({"cycle": 2}) + "\n"]
)
def test_a_torn_tail_is_as_if_it_had_not_been_written(tmp_path: Path, tail: str):
    file = RunFile.of(tmp_path, "margin", 0)
    file.write([cycle(0), cycle(1)])
    with file.path.open("a") as end:
        end.write(tail)
    assert file.read() == [cycle(0), cycle(1)]


def test_a_cycle_out_of_order_ends_the_reading(tmp_path: Path):
    file = RunFile.of(tmp_path, "margin", 0)
    file.write([cycle(0), cycle(2)])
    assert file.read() == [cycle(0)]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = RunFile.of(tmp_path, "margin", 0)
    file.write([cycle(0)])
    before = file.path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        file.write([cycle(0), cycle(1)])
    assert file.path.read_bytes() == before
    assert [path.name for path in file.path.parent.iterdir()] == ["0.jsonl"]


def test_the_new_file_comes_by_renaming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = RunFile.of(tmp_path, "margin", 0)
    file.write([cycle(0)])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        file.write([cycle(0), cycle(1)])
    assert file.read() == [cycle(0)]


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
    assert ready.wait(20)
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
    return {
        "protocol": fields | changes,
        "data": {"x": "00"},
        "versions": {"jostle": "1"},
        "hardware": {},
        "command": ["jostle", "run"],
    }


def test_manifests_extend(tmp_path: Path):
    store.enter(tmp_path, manifest())
    more = manifest(seeds=9, strategies={"margin": {"use": "margin"}}) | {
        "command": ["jostle", "run", "more"]
    }
    store.enter(tmp_path, more)
    merged = store.recorded(tmp_path)
    assert merged is not None
    assert list(merged["protocol"]["strategies"]) == ["random", "margin"]
    assert (merged["command"], merged["earlier_commands"]) == (["jostle", "run", "more"], [["jostle", "run"]])
    store.enter(tmp_path, more)
    assert store.recorded(tmp_path) == merged
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_another_protocol_is_refused_with_the_difference(tmp_path: Path):
    store.enter(tmp_path, manifest())
    before = (tmp_path / "manifest.json").read_bytes()
    changed = manifest(
        rounds=4, training={"lr": 0.2}, strategies={"random": {"use": "random", "head": "x"}}
    ) | {"data": {"x": "11"}}
    with pytest.raises(ChangedError) as refused:
        store.enter(tmp_path, changed)
    said = str(refused.value)
    for part in (
        "rounds: 3 -> 4",
        "training.lr: 0.1 -> 0.2",
        "data.x: '00' -> '11'",
        "strategies.random",
        "--out",
    ):
        assert part in said
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_a_file_of_ones_own_may_change_while_its_strategy_has_no_runs(tmp_path: Path):
    def with_files(**sums: str) -> dict[str, object]:
        return manifest() | {"files": {field.replace("_", "."): each for field, each in sums.items()}}

    store.enter(tmp_path, manifest())  # a folder from before files were noted
    store.enter(tmp_path, with_files(dataset="00", strategies_random="11"))
    store.enter(tmp_path, with_files(dataset="00", strategies_random="22"))  # no runs yet
    store.enter(tmp_path, with_files(strategies_margin="33"))
    merged = store.recorded(tmp_path)
    assert merged is not None
    assert merged["files"] == {"dataset": "00", "strategies.random": "22", "strategies.margin": "33"}
    RunFile.of(tmp_path, "random", 0).write([cycle(0)])
    with pytest.raises(ChangedError, match=r"file of strategies\.random: '22' -> '44'"):
        store.enter(tmp_path, with_files(strategies_random="44"))
    with pytest.raises(ChangedError, match="file of dataset: '00' -> '55'"):
        store.enter(tmp_path, with_files(dataset="55"))


def test_folders_that_cannot_hold_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, full = tmp_path / "file", tmp_path / "full"
    full.mkdir()
    store.check_folder(full)
    store.check_folder(tmp_path / "new" / "deep")
    (full / ".manifest.lock").touch()  # another command has just begun
    store.check_folder(full)
    file.touch()
    (full / "thesis.txt").touch()
    for folder, said in (
        (file, "is a file"),
        (file / "runs", "is a file"),
        (full, r"not empty \(thesis.txt\)"),
    ):
        with pytest.raises(ValueError, match=said):
            store.check_folder(folder)
    store.enter(full, manifest())
    store.check_folder(full)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(ValueError, match="no permission to write"):
        store.check_folder(tmp_path / "new")


def test_a_broken_manifest_is_named(tmp_path: Path):
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ChangedError, match=r"manifest\.json is not JSON"):
        store.enter(tmp_path, manifest())
