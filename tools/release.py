"""Whether this tree can be released: `make release-check` says what is missing, or where the files lie that may go out.

Nothing is uploaded and nothing tagged: that is a person's decision, `twine upload dist/*`.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import jostle

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
NEEDED = (  # what a source distribution must hold, to be built, tested and read without the repository
    "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "PKG-INFO", "README.md", "SECURITY.md",
    "constraints.txt",
    "docs/index.md", "examples/01_pick_a_batch.py", "pyproject.toml",
    "src/jostle/__init__.py", "src/jostle/experiments/protocols/mnist.toml", "src/jostle/py.typed",
    "tests/test_contracts.py",
    "tools/release.py",
)  # fmt: skip
UNWANTED = re.compile(r"^(results|site|runs|build|dist)/|(^|/)(__pycache__|\.venv|\.git)(/|$)|\.(part|pyc)$")


class NotReadyError(Exception):
    """What keeps this tree from being released."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; one that fails ends the check with what it said."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotReadyError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def check_tree(status: str) -> None:
    """Everything is committed: a release can be made again from its commit."""
    if status:
        raise NotReadyError(f"the tree is not clean, commit or remove:\n{status}")


def check_changelog(text: str, version: str) -> None:
    """The newest section is this version's, with a date and something to say."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    title, _, body = (sections or [""])[0].partition("\n")
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", title):
        raise NotReadyError(f"CHANGELOG.md begins with {title!r}; expected '{version} (year-month-day)'")
    if not re.search(r"^\* ", body, re.MULTILINE):
        raise NotReadyError(f"CHANGELOG.md says nothing of {version}")


def check_contents(names: list[str]) -> None:
    """The source distribution has what it must have, and nothing that is made from it."""
    inside = [name.partition("/")[2] for name in names]  # below the folder of name and version
    missing = [name for name in NEEDED if name not in inside]
    unwanted = [name for name in inside if UNWANTED.search(name)]
    if missing or unwanted:
        raise NotReadyError(
            f"the source distribution lacks {missing or 'nothing'} and should not hold {unwanted or 'it'}"
        )


def check_wheel(wheel: Path, version: str) -> None:
    """The wheel installs into a fresh environment, imports there, and its command tells the version."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        run(programs / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
        told = [
            run(programs / "python", "-c", "import jostle; print(jostle.__version__)", cwd=Path(folder)),
            run(programs / "jostle", "--version", cwd=Path(folder)).split()[-1],
        ]
    if told != [version, version]:
        raise NotReadyError(f"{wheel.name} says it is {told[0]} (python) and {told[1]} (jostle --version)")


def steps() -> Iterator[str]:
    """Each check in turn, and a line when it has passed."""
    version = jostle.__version__
    check_tree(run("git", "status", "--porcelain"))
    yield "the tree is clean"
    check_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    yield f"CHANGELOG.md tells of {version}"
    for old in DIST.glob("jostle-*"):
        old.unlink()
    # The wheel is built from the source distribution, by the build tool that constraints.txt pins.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST)
    wheel, source = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
    yield f"built {source.name} and {wheel.name}"
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    yield "twine finds nothing wrong"
    with tarfile.open(source) as archive:
        check_contents(archive.getnames())
    yield f"{source.name} holds what it must"
    check_wheel(wheel, version)
    yield f"{wheel.name} installs and runs in a fresh environment"


def main() -> int:
    """Say what passes until something does not."""
    try:
        for passed in steps():
            print(f"ok  {passed}", flush=True)
    except NotReadyError as problem:
        print(f"not ready: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
