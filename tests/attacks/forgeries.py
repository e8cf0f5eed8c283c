"""Ways to spoil a file: bytes flipped, cut, added, and contents that were made to harm."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

Spoil = Callable[[Random, bytes], bytes]


def spoilt(chance: Random, path: Path, content: bytes) -> tuple[str, bytes]:
    """How it was spoilt, and the new content."""
    crafted = [forge for suffixes, forge in CRAFTED if path.name.endswith(suffixes)]
    way = chance.choice([*SPOILS, *crafted] if chance.random() < 0.3 else SPOILS)
    return way.__name__.replace("_", " "), way(chance, content)


def a_flipped_bit(chance: Random, content: bytes) -> bytes:
    at = chance.randrange(len(content) or 1)
    return content[:at] + bytes([(content or b"\0")[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]


def another_digit(chance: Random, content: bytes) -> bytes:
    digits = [i for i, byte in enumerate(content) if 48 <= byte < 58]
    if not digits:
        return a_flipped_bit(chance, content)
    at = chance.choice(digits)
    return content[:at] + str((content[at] - 48 + chance.randint(1, 9)) % 10).encode() + content[at + 1 :]


def a_piece_lost_or_put_in(chance: Random, content: bytes) -> bytes:
    """The file cut short, or with a piece cut out, put in, set to zero or doubled."""
    start = chance.randrange(len(content) or 1)
    end = min(start + chance.randint(1, 256), len(content))
    before, piece, after = content[:start], content[start:end], content[end:]
    noise = chance.randbytes(chance.randint(1, 64))
    pieces = [b"", noise + piece, bytes(len(piece)), piece + piece]
    return chance.choice([before, *(before + each + after for each in pieces)])


def emptied(chance: Random, content: bytes) -> bytes:
    return b""


def noise(chance: Random, content: bytes) -> bytes:
    return chance.randbytes(chance.randint(1, 3000))


def lines_lost_or_exchanged(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines and chance.random() < 0.5:
        lines.pop(chance.randrange(len(lines)))
    else:
        chance.shuffle(lines)
    return b"".join(lines)


SPOILS: list[Spoil] = [
    a_flipped_bit, another_digit, *[a_piece_lost_or_put_in] * 5, emptied, noise, *[lines_lost_or_exchanged] * 2,
]  # fmt: skip


def a_vast_picture(chance: Random, content: bytes) -> bytes:
    """A PNG of few bytes that asks for many: its header says what it likes, with the right sum."""
    sizes = [(1, 100_000), (100_000, 1), (60_000, 60_000), (0, 5), (2**31 - 1, 2**31 - 1)]
    width, height = chance.choice(sizes)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(1 + 3 * min(width, 10)))
    chunks = [(b"IHDR", header), (b"IDAT", body), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


class Command:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        import os

        return os.system, ("touch ../escaped escaped",)


def a_pickle_that_runs(chance: Random, content: bytes) -> bytes:
    return pickle.dumps({b"data": Command(), b"labels": [1]}, protocol=chance.choice([0, 2, 4]))


def an_archive_that_climbs(chance: Random, content: bytes) -> bytes:
    """Members that would lie outside, and links that lead there."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        inside = "cifar-100-python/"
        for name in ("../escaped", "/tmp/jostle-escaped", f"{inside}../../escaped", f"{inside}train"):
            info = tarfile.TarInfo(name)
            info.size = 4
            archive.addfile(info, io.BytesIO(b"evil"))
        link = tarfile.TarInfo(f"{inside}test")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return whole.getvalue()


def an_archive_that_swells(chance: Random, content: bytes) -> bytes:
    """Few bytes that become very many."""
    if chance.random() < 0.5:
        return gzip.compress(bytes(2**28), 9)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cifar-100-python/train", bytes(2**28))
    return whole.getvalue()


def json_that_nests(chance: Random, content: bytes) -> bytes:
    return b"[" * 100_000 + b"]" * 100_000


def json_of_another_kind(chance: Random, content: bytes) -> bytes:
    return (
        chance.choice([b"null", b"[]", b"3", b'"a"', b"{}", b'{"protocol": null}', b"NaN", b"1e999"]) + b"\n"
    )


def a_formula(chance: Random, content: bytes) -> bytes:
    return b'a,b,label\n=cmd|"/C calc"!A0,1e400,nan\n"never closed,2,3\n' + b"1," * 100_000


CRAFTED: list[tuple[tuple[str, ...], Spoil]] = [
    ((".png", ".jpg"), a_vast_picture),
    (("_batch", *(f"batch_{i}" for i in range(1, 6))), a_pickle_that_runs),
    ((".tar.gz",), an_archive_that_climbs),
    ((".tar.gz", ".gz"), an_archive_that_swells),
    ((".json", ".jsonl"), json_that_nests),
    ((".json", ".jsonl"), json_of_another_kind),
    ((".csv",), a_formula),
]
