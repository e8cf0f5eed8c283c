"""What is imported is declared, in the right place, and what is declared is imported."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tools import oldest

import jostle

ROOT = Path(__file__).parent.parent
SOURCE = Path(jostle.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TESTS = ("attacks", *(path.stem for path in (ROOT / "tests").rglob("*.py")))
OUR_OWN = {"jostle", "tools", "benchmarks", "tests", *TESTS}
BROUGHT_BY = packages_distributions()
MODULES = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in SOURCE.rglob("*.py")]


def names(requirements: list[str]) -> set[str]:
    """Distributions, in the spelling by which they are compared."""
    found = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {spelled(match[0]) for match in found if match} - {PROJECT["name"]}


def spelled(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


REQUIRED = names(PROJECT["dependencies"])
EXTRAS = {extra: names(requirements) for extra, requirements in PROJECT["optional-dependencies"].items()}
USERS_EXTRAS = {extra: found for extra, found in EXTRAS.items() if extra not in oldest.TOOLS}


@cache
def imported(path: Path) -> set[str]:
    """The packages of others that a file imports, lazily or not."""
    return imported_in(ast.parse(path.read_text(encoding="utf-8")))


def imported_in(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found - OUR_OWN - sys.stdlib_module_names


def distributions(packages: set[str]) -> Iterator[tuple[str, set[str]]]:
    """Each package with the distributions that bring it; one that is not installed bears its own name."""
    return ((package, {spelled(name) for name in BROUGHT_BY.get(package, [package])}) for package in packages)


def undeclared(folder: Path, declared: set[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {package}"
        for path in sorted(folder.rglob("*.py"))
        for package, brought_by in distributions(imported(path))
        if not brought_by & declared
    ]


def test_what_the_package_imports_is_declared() -> None:
    assert undeclared(SOURCE, REQUIRED.union(*USERS_EXTRAS.values())) == []


# Peers, installed by `make bench-peers` or by hand.
APART = {"baal", "bmdal_reg", "buscarpy", "cleanlab", "small_text"}


@pytest.mark.parametrize("folder", ["tests", "tools", "benchmarks", "examples"])
def test_what_the_rest_imports_is_declared(folder: str) -> None:
    found = undeclared(ROOT / folder, REQUIRED.union(*EXTRAS.values()))
    assert [each for each in found if each.rpartition(" ")[2] not in APART] == []


def test_what_is_required_is_imported() -> None:
    used: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        used = used.union(*(brought_by for _, brought_by in distributions(imported(path))))
    assert REQUIRED - used == set()


SUBPACKAGES = {
    "jostle.labeling": "label"
}  # need an extra as a whole; elsewhere imports are where they are used

UNIX_ALONE = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline", "curses")
WITHOUT_UNIX = f"""
import importlib, os, signal, sys, warnings
for name in {UNIX_ALONE!r}:
    sys.modules[name] = None  # importing it is an ImportError
warnings.simplefilter("ignore")  # filelock says what it lacks
import matplotlib.pyplot, multiprocessing.connection, rich.console, scipy.stats, sklearn.cluster, torch, typer
for name in ("fork", "register_at_fork", "getuid", "geteuid", "nice", "sched_getaffinity", "O_NOFOLLOW"):
    delattr(os, name) if hasattr(os, name) else None
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGSTOP", "SIGQUIT", "pause"):
    delattr(signal, name) if hasattr(signal, name) else None
"""
OWN = """
import torch

def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
"""


def test_without_unix_and_without_extras_modules_import_and_a_batch_is_picked(tmp_path: Path) -> None:
    """The subpackages of an extra are imported last, once its packages are there again."""
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    first, last = (
        [name for name in MODULES if "__main__" not in name and name.startswith(tuple(SUBPACKAGES)) == later]
        for later in (False, True)
    )
    optional = set().union(*USERS_EXTRAS.values()) - REQUIRED
    extras = [package for package, by in BROUGHT_BY.items() if optional & {spelled(name) for name in by}]
    code = f"""{WITHOUT_UNIX}
for name in {extras!r}:
    sys.modules[name] = None
for name in {first!r}:
    importlib.import_module(name)
for name in {extras!r}:
    del sys.modules[name]
for name in {last!r}:
    importlib.import_module(name)
from jostle.cli import main
main()
"""
    words = ["pick", "--model", "own.py:model", "--pool", "digits", "-n", "3", "--strategy", "margin"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "picks.csv").read_text(encoding="utf-8").splitlines()) == 4


@pytest.mark.parametrize(("part", "extra"), SUBPACKAGES.items())
def test_a_subpackage_imports_at_once_what_its_extra_brings_and_no_other(part: str, extra: str) -> None:
    folder = SOURCE.parent / part.replace(".", "/")
    at_once = [path for path in folder.rglob("*.py") if undeclared_at_once(path, REQUIRED | EXTRAS[extra])]
    assert at_once == []


def undeclared_at_once(path: Path, declared: set[str]) -> list[str]:
    lines = ast.parse(path.read_text(encoding="utf-8")).body
    outermost = ast.Module([line for line in lines if isinstance(line, (ast.Import, ast.ImportFrom))], [])
    return [package for package, by in distributions(imported_in(outermost)) if not by & declared]


def test_the_design_page_says_what_each_dependency_is_for() -> None:
    page = (ROOT / "docs" / "project" / "design.md").read_text(encoding="utf-8")
    told = {spelled(word) for word in re.findall(r"[\w.-]+", page.partition("## Dependencies")[2])}
    assert not REQUIRED.union(*EXTRAS.values()) - told
