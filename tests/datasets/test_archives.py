"""Archives: nothing that unpacks without end is unpacked."""

import gzip
import io
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from official_files import tar_gz

from jostle.datasets import DataError, fetch
from jostle.datasets.fetch import archive_members, read_gzip

ZEROS = bytes(2**22)


def zipped(files: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return whole.getvalue()


def nested(depth: int, pack: Callable[[dict[str, bytes]], bytes], suffix: str) -> bytes:
    content = pack({"a.png": b"x"})
    for _ in range(depth - 1):
        content = pack({f"inner{suffix}": content})
    return content


@pytest.mark.parametrize(("pack", "suffix"), [(zipped, ".zip"), (tar_gz, ".tar.gz")])
def test_bombs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[dict[str, bytes]], bytes], suffix: str
):
    monkeypatch.setattr(fetch, "MAX_BYTES", 2**20)
    monkeypatch.setattr(fetch, "MAX_FILES", 20)
    path = tmp_path / f"a{suffix}"

    def read(content: bytes) -> list[str]:
        path.write_bytes(content)
        tracemalloc.start()
        try:
            return [member.name for member in archive_members(path, lambda name: name.suffix == ".png")]
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 2**21

    packed = {"a.png": pack({"a.png": ZEROS}), "many.png": pack({f"{i}.png": bytes(2**18) for i in range(5)})}
    assert all(len(content) < 2**16 for content in packed.values())
    for content in packed.values():
        with pytest.raises(
            DataError, match=rf"a{suffix} is not unpacked: it holds more than 1,048,576 bytes"
        ):
            read(content)
    with pytest.raises(DataError, match="more than 20 files"):
        read(pack({f"{i}.txt": b"" for i in range(21)}))
    assert read(nested(fetch.MAX_DEPTH, pack, suffix)) == ["a.png"]
    with pytest.raises(DataError, match="archives in archives more than 3 deep"):
        read(nested(fetch.MAX_DEPTH + 1, pack, suffix))
    assert read(pack({"a.png": b"x", "b.txt": b"y"})) == ["a.png"]


def test_a_tar_that_is_not_packed(tmp_path: Path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("x/a.png")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    found = list(archive_members(tmp_path / "a.tar", lambda name: True))
    assert [(member.name, member.content) for member in found] == [("x/a.png", b"abc")]


def test_gzip_within_bounds(tmp_path: Path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"12345"))
    assert read_gzip(path, 5) == b"12345"
    with pytest.raises(DataError, match=r"a\.gz is not unpacked: it holds more than 4 bytes"):
        read_gzip(path, 4)


def test_what_is_skipped_in_a_tar_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetch, "MAX_BYTES", 2**20)
    (tmp_path / "a.tgz").write_bytes(tar_gz({"skipped.bin": ZEROS, "a.png": b"x"}))
    with pytest.raises(DataError, match="more than 1,048,576 bytes"):
        list(archive_members(tmp_path / "a.tgz", lambda name: name.suffix == ".png"))
