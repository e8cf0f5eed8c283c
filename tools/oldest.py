"""The oldest versions that pyproject.toml allows, as constraints for pip: `make test-oldest` installs them."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
NEWEST = PROJECT.with_name("constraints.txt")
TOOLS = frozenset(
    {"test", "dev", "docs", "integrations"}
)  # extras of those who work on the project; they use what is new
ORACLE = (
    "scikit-activeml"  # compared with in tests; its releases follow those of scikit-learn, so it is as old
)
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


def tools() -> Iterator[tuple[str, str]]:
    """The build tool and packages that only those who work on the project install, with versions of constraints.txt."""
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    extras = declared["project"]["optional-dependencies"]
    wanted = [*declared["build-system"]["requires"], *(each for name in TOOLS for each in extras[name])]
    names = {plain(re.split(r"[^\w.-]", each)[0]) for each in wanted} - {plain(name) for name, _ in bounds()}
    for line in NEWEST.read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        if plain(name) in names - {ORACLE}:
            yield name, version
    yield next(
        (found["name"], found["bound"])
        for each in wanted
        if (found := REQUIREMENT.match(each)) and found["name"] == ORACLE
    )


def plain(name: str) -> str:
    """Spell a package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Print a constraint a line."""
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in (*bounds(), *tools()))


if __name__ == "__main__":
    main()
