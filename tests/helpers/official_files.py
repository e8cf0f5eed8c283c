"""Writers of tiny files in exactly the formats in which the data sets are published."""

import gzip
import io
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(folder: Path, train: int = 12, test: int = 10) -> dict[str, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for stem, n in (("train", train), ("t10k", test)):
        arrays[f"{stem}-images-idx3-ubyte"] = rng(n).integers(0, 256, (n, 28, 28), dtype=np.uint8)
        arrays[f"{stem}-labels-idx1-ubyte"] = (np.arange(n) % 10).astype(np.uint8)
    for stem, array in arrays.items():
        (folder / f"{stem}.gz").write_bytes(gzip.compress(idx(array)))
    return arrays


def python2_batch(batch: dict[str, object]) -> bytes:
    """As Python 2 wrote them: protocol 2, keys and words as bytes."""
    return pickle.dumps({key.encode(): value for key, value in batch.items()}, protocol=2)


def cifar10_files(rows: int = 4) -> dict[str, bytes]:
    files = {}
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        pixels = rng(i).integers(0, 256, (rows, 3072), dtype=np.uint8)
        files[name] = python2_batch({"data": pixels, "labels": [(i + j) % 10 for j in range(rows)]})
    return files


def cifar100_files(rows: int = 5) -> dict[str, bytes]:
    names = [f"thing {i}".encode() for i in range(100)]
    files = {"meta": python2_batch({"fine_label_names": names, "coarse_label_names": []})}
    for i, name in enumerate(("train", "test")):
        pixels = rng(i).integers(0, 256, (rows, 3072), dtype=np.uint8)
        labels = {"fine_labels": [99 - j for j in range(rows)], "coarse_labels": [0] * rows}
        files[name] = python2_batch({"data": pixels, **labels})
    return files


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def tar_gz(files: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return whole.getvalue()


def write_svhn(folder: Path) -> dict[str, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    pixels = {}
    for name, labels in (("train", [10, 1, 2, 9, 10]), ("test", [5, 10])):
        x = rng(len(labels)).integers(0, 256, (32, 32, 3, len(labels)), dtype=np.uint8)
        savemat(folder / f"{name}_32x32.mat", {"X": x, "y": np.array(labels, np.uint8)[:, None]})
        pixels[name] = x
    return pixels


def picture(height: int = 6, width: int = 8, seed: int = 0, mode: str = "RGB") -> Image.Image:
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(rng(seed).integers(0, 256, shape, dtype=np.uint8))


def encoded(image: Image.Image, form: str) -> bytes:
    content = io.BytesIO()
    image.save(content, form)
    return content.getvalue()


def write_classes(folder: Path, counts: dict[str, int], height: int = 20, width: int = 30) -> None:
    for k, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(1, count + 1):
            picture(height, width, seed=100 * k + i).save(folder / name / f"image_{i:04d}.jpg")


def write_camvid(folder: Path, counts: dict[str, int]) -> None:
    for part, count in counts.items():
        for i in range(count):
            (folder / part).mkdir(parents=True, exist_ok=True)
            (folder / f"{part}annot").mkdir(parents=True, exist_ok=True)
            picture(6, 8, seed=i).save(folder / part / f"scene_{i}.png")
            labels = ((np.arange(48) + i) % 12).astype(np.uint8).reshape(6, 8)
            Image.fromarray(labels).save(folder / f"{part}annot" / f"scene_{i}.png")


def write_cityscapes(root: Path, labels: np.ndarray, counts: dict[str, int]) -> None:
    for part, count in counts.items():
        scenes, maps = root / "leftImg8bit" / part / "ulm", root / "gtFine" / part / "ulm"
        scenes.mkdir(parents=True)
        maps.mkdir(parents=True)
        for i in range(count):
            stem = f"ulm_{i:06d}_000019"
            picture(*labels.shape, seed=i).save(scenes / f"{stem}_leftImg8bit.png")
            Image.fromarray(labels).save(maps / f"{stem}_gtFine_labelIds.png")
            picture(*labels.shape, seed=i).save(maps / f"{stem}_gtFine_color.png")


MSR_HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"


def write_mrpc(folder: Path, train: list[str], test: list[str], end: str = "\r\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in (("train", train), ("test", test)):
        text = end.join([MSR_HEADER, *rows, ""])
        (folder / f"msr_paraphrase_{part}.txt").write_bytes(text.encode())
