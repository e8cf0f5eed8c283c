"""What the documentation says runs, and what is written from code is up to date."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from tools import evidence, strategies_page, words
from tools.subpackages import syntax_nodes

from jostle.strategies.registry import REGISTRY

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
DRAWN_WITH = (3, 11)  # the release of Matplotlib that drew the figures
NUMBER = re.compile(r"-?\d+\.\d+")  # in a drawing; the last digits may differ between machines


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def integrations(code: str) -> set[str]:
    """The packages of the extra `integrations` that code imports."""
    packages = {re.split(r"\W", requirement)[0] for requirement in EXTRAS["integrations"]}
    return packages & set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE))


@pytest.mark.parametrize("path", [p for p in PAGES if python_blocks(p)], ids=lambda p: p.name)
def test_python_blocks_run_in_order(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = python_blocks(path)
    for package in integrations("\n".join(blocks)) - {"jostle"}:
        if package not in packages_distributions():  # a folder of that name is not the package
            pytest.skip(f"{package} is not installed: make test-integrations")
    with REGISTRY.restored():  # a page may register a strategy of its own
        for block in blocks:
            exec(compile(block, str(path), "exec"), names)


def test_the_page_of_strategies_is_the_registry() -> None:
    written = (ROOT / "docs" / "reference" / "strategies.md").read_text()
    assert written == strategies_page.page(), "run `make docs`"


@pytest.mark.skipif(
    not (ROOT / "results").is_dir(), reason="results/ is in the repository, not in the source distribution"
)
@pytest.mark.parametrize(
    ("page", "row", "rows"),
    [
        ("README.md", "`default` | ", 1),
        ("docs/explanation/evidence.md", "<!-- end -->", 1),
        ("docs/explanation/default.md", "<!-- end -->", 1),
        ("docs/how-to/choose-a-strategy.md", "<!-- end -->", 1),
        ("docs/how-to/large-pools.md", " GB |", 3),
        ("docs/research/benchmark.md", "default | ", 1),
        ("docs/research/results.md", "noise-stability-code | ", 2),
    ],
)
def test_tables_and_figures_of_results_are_those_of_the_raw_results(page: str, row: str, rows: int) -> None:
    written = (ROOT / page).read_text()
    found = evidence.gathered(written, ROOT)
    assert written == found.page, "run `make docs`"
    assert written.count(row) >= rows  # the tables are there
    assert found.figures or page not in (
        "README.md",
        "docs/research/benchmark.md",
        "docs/research/results.md",
    )
    if matplotlib.__version_info__ < DRAWN_WITH:
        pytest.skip("older releases of Matplotlib write the same drawings in other words")
    for name, drawing in found.figures.items():
        stored = (ROOT / "docs" / "figures" / name).read_text()
        assert NUMBER.sub("", stored) == NUMBER.sub("", drawing), f"{name}: run `make docs`"
        places = [np.array(NUMBER.findall(text), dtype=float) for text in (stored, drawing)]
        np.testing.assert_allclose(*places, atol=0.02, err_msg=f"{name}: run `make docs`")


FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.py)`")
TEST = re.compile(r"`((?:test_|Test)\w+)`")


def test_files_and_tests_that_pages_name_exist() -> None:
    """A name may stand below the package, as `strategies/bait.py`, and `mine.py` and `file.py` are the reader's."""
    folders = ("src", "tests", "tools", "benchmarks", "examples", "docs")
    modules = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    known = {path.name for path in modules} | {path.name for path in ROOT.glob("*.py")}
    homes = (ROOT, ROOT / "src" / "jostle")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        files = set(FILE.findall(text)) - {"mine.py", "file.py"}
        missing = [
            each for each in files if "/" in each and not any((home / each).exists() for home in homes)
        ]
        missing += [each for each in files if "/" not in each and each not in known]
        missing += [each for each in TEST.findall(text) if not re.search(rf"(def|class) {each}\b", tests)]
        assert not missing, page.name


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_commands_that_are_named_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make ([\w-]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert targets
    assert not [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


def test_names_are_american() -> None:
    files = [path for folder in ("src", "tools") for path in (ROOT / folder).rglob("*.py")]
    assert not [
        f"{path.name}: {name}" for path in files for name in names_given(path) if words.BRITISH.search(name)
    ]


def names_given(path: Path) -> Iterator[str]:
    """What a module itself names: functions, classes, arguments, variables; not constants, nor names of others."""
    for node in syntax_nodes(path):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and not node.id.isupper():
            yield node.id
