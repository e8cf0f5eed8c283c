"""The versions that this environment has, as constraints for pip: `make constraints` writes them down."""

import sys
from collections.abc import Iterator
from importlib.metadata import distributions

HEAD = "# The versions that this project is tested with: `make constraints` and `make constraints-TOOL` write them.\n"
OURS = frozenset({"jostle", "pip"})


def versions() -> Iterator[tuple[str, str]]:
    """Every installed package with its version, but for the mark of a build such as +cpu."""
    for found in distributions():
        name = found.metadata["Name"]
        if name.lower() not in OURS:
            yield name.lower(), found.version.partition("+")[0]


def main() -> None:
    """Print a constraint a line."""
    sys.stdout.write(HEAD)
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in sorted(set(versions())))


if __name__ == "__main__":
    main()
