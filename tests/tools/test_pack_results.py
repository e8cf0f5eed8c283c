"""Packed experiments: read back as they were, the same bytes from the same runs, nothing but runs inside."""

import tarfile
from pathlib import Path

import pytest
from synthetic_runs import FOUR, write_runs
from tools.pack_results import main, pack

from jostle.experiments import results as previews
from jostle.experiments.results import load


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = write_runs(tmp_path / "runs" / "four", FOUR)
    previews.add_previews(folder, [7], lambda i: f"text {i}")
    return folder


def test_a_packed_experiment_reads_as_its_folder_does(runs: Path, tmp_path: Path) -> None:
    packed, folder = load(pack(runs, tmp_path / "results")), load(runs)
    assert packed.runs == folder.runs
    assert packed.manifest == folder.manifest
    assert packed.previews == folder.previews == {7: previews.Preview(text="text 7")}
    assert packed.name == folder.name == "four"


def test_the_same_runs_give_the_same_bytes_wherever_and_whenever_they_were_written(
    runs: Path, tmp_path: Path
) -> None:
    again = write_runs(tmp_path / "elsewhere" / "four", dict(reversed(FOUR.items())))
    for name in ("manifest.json", "previews.json"):
        (again / name).write_bytes((runs / name).read_bytes())
    first, second = pack(runs, tmp_path / "a"), pack(again, tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


def test_locks_and_reports_stay_out(runs: Path, tmp_path: Path) -> None:
    (runs / "random" / ".0.lock").touch()
    (runs / "report").mkdir()
    (runs / "report" / "report.html").write_text("page")
    main([str(runs), "--out", str(tmp_path / "results")])
    with tarfile.open(tmp_path / "results" / "four.tar.xz") as archive:
        names = archive.getnames()
    assert len(names) == 2 + sum(map(len, FOUR.values()))
    assert not [name for name in names if "lock" in name or "report" in name]


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_half_an_archive_or_none_is_an_error_that_names_it(
    runs: Path, tmp_path: Path, content: bytes | None
) -> None:
    path = pack(runs, tmp_path)
    path.write_bytes(path.read_bytes()[:-200] if content is None else content)
    with pytest.raises(ValueError, match=r"four\.tar\.xz cannot be read"):
        load(path)
