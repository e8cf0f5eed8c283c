"""The oldest versions that pyproject.toml allows, as constraints for pip: `make test-oldest` installs them."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
TOOLS = frozenset(
    {"test", "dev", "docs", "integrations"}
)  # extras of those who work on the project; they use what is new
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?>=(?P<bound>[\d.]+)")


def bounds() -> Iterator[tuple[str, str]]:
    """What users install, each with its lower bound."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(extras[name] for name in extras if name not in TOOLS)]
    for requirement in (each for each_list in lists for each in each_list):
        if requirement.startswith(f"{project['name']}["):
            continue
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise ValueError(f"{requirement!r} has no lower bound to test: write name>=version")
        yield found["name"], found["bound"]


def main() -> None:
    """Print a constraint a line."""
    sys.stdout.writelines(f"{name}=={bound}\n" for name, bound in bounds())


if __name__ == "__main__":
    main()
