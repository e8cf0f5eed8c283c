"""Files are written whole or not at all, nothing that is not ours is replaced; cells that are no formulas."""

import csv
import io
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jostle.utils import files
from jostle.utils.files import check_target, existing_folder, hidden, replacing, sheet, unhidden, write_whole


def is_ours(head: bytes) -> bool:
    return head.startswith(b"ours")


def test_a_file_is_there_whole_and_nothing_else_is(tmp_path: Path):
    write_whole(tmp_path / "new" / "a.txt", "é\n")
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"\xc3\xa9\n"
    write_whole(tmp_path / "new" / "a.txt", b"other")
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"other"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_file_and_no_part(tmp_path: Path):
    path = tmp_path / "a.txt"
    write_whole(path, "old")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_links_are_replaced_and_never_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("precious")
    link.symlink_to(precious)
    write_whole(link, "new")
    assert (precious.read_text(), link.read_text(), link.is_symlink()) == ("precious", "new", False)
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "guessed")
    (tmp_path / ".guessed.part").symlink_to(precious)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a.txt", "new")
    assert precious.read_text() == "precious"


def test_permissions_are_kept(tmp_path: Path):
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    write_whole(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_not_ours_is_refused(tmp_path: Path):
    path = tmp_path / "a.txt"
    check_target(path, is_ours)
    for content in (b"", b"ours, of last week"):
        path.write_bytes(content)
        check_target(path, is_ours)
    path.write_bytes(b"theirs")
    with pytest.raises(FileExistsError, match=r"not of jostle's making.*overwrite=True"):
        check_target(path, is_ours)
    check_target(path, is_ours, overwrite=True)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(FileExistsError, match="it is a link to"):
        check_target(link, is_ours)
    check_target(link, is_ours, overwrite=True)


@pytest.mark.parametrize("place", ["/dev/null", "/dev/full"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such devices")
def test_devices_are_no_files(place: str):
    with pytest.raises(FileExistsError, match="a device or a pipe; name a file"):
        check_target(Path(place), is_ours, overwrite=True)


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(FileExistsError, match="a folder; name a file"):
        check_target(tmp_path, is_ours, overwrite=True)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is not a folder"):
        check_target(tmp_path / "file" / "new" / "a.txt", is_ours)
    assert existing_folder(tmp_path / "not" / "yet") == tmp_path
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(PermissionError, match="no permission"):
        check_target(tmp_path / "a.txt", is_ours)


ODD = st.text(alphabet="=+-@\t\r'a1. \n\",", max_size=8)


@given(ODD)
def test_every_cell_reads_back(cell: str):
    assert unhidden(hidden(cell)) == cell
    rows = list(csv.reader(io.StringIO(sheet([[cell, 1.5]]), newline="")))
    assert [unhidden(rows[0][0]), rows[0][1]] == [cell, "1.5"]


@given(ODD)
def test_no_cell_is_a_formula(cell: str):
    written = hidden(cell)
    try:
        float(written)
    except ValueError:
        assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize("number", [-5, 1.5, -1e-300, 2e22, float("inf"), float("-inf"), float("nan"), 0])
def test_numbers_stay_numbers(number: float):
    assert hidden(str(number)) == str(number)


@pytest.mark.parametrize(
    "cell", ["-1+1", "+cmd|' /C calc'!A0", "@SUM(A1)", "=1", "\t=1", "\r=1", "-inf()", "--1"]
)
def test_formulas_are_hidden(cell: str):
    assert hidden(cell) == f"'{cell}"
