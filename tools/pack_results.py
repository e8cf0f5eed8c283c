"""Pack folders of runs into one file each: `python -m tools.pack_results RUNS [RUNS ...] [--out results]`.

`runs/mnist` becomes `results/mnist.tar.xz`, which `jostle report` and `jostle.experiments.load` read and `tar xf`
unpacks. The same runs give the same bytes. Lock files and reports stay out.
"""

import argparse
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

from jostle.experiments.results import load
from jostle.experiments.store import PACKED
from jostle.utils.files import write_whole


def pack(folder: Path, out: Path) -> Path:
    """Write `out/NAME.tar.xz` from a folder of runs, read it back and compare, and return its path."""
    folder = folder.resolve()
    files = [folder / "manifest.json", folder / "previews.json", *folder.glob("*/*.jsonl")]
    contents = {
        file.relative_to(folder.parent).as_posix(): file.read_bytes() for file in files if file.is_file()
    }
    path = out / f"{folder.name}{PACKED}"
    write_whole(path, packed_bytes(contents))
    # repr, because a value that was not measured is nan, which does not equal itself
    if repr(load(path).runs) != repr(load(folder).runs):
        raise ValueError(f"{path} does not read back as {folder}: is a run still writing?")
    return path


def packed_bytes(contents: dict[str, bytes]) -> bytes:
    """Archive of contents by path; it depends on nothing else."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9, format=tarfile.USTAR_FORMAT) as archive:
        for path, content in sorted(contents.items()):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    """Pack every folder that was named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, help="folders that `jostle run` wrote")
    parser.add_argument(
        "--out", type=Path, default=Path("results"), help="where the files go (default: results)"
    )
    words = parser.parse_args(arguments)
    for folder in words.folders:
        print(pack(folder, words.out))


if __name__ == "__main__":
    main()
