"""Imports point down only, and the command line is the only place that prints."""

import ast
import re
from pathlib import Path

import pytest
from tools.subpackages import ROOT, files, imported_from, subpackage_of, syntax_nodes

LAYERS = [  # from the lowest up; a module imports from layers below its own, or from its own package
    {"rng", "statistics"},
    {"utils"},
    {"rows"},
    {"selectors"},
    {"inputs", "tasks"},
    {"inference"},
    {"core"},
    {"embeddings", "training", "engines"},
    {"strategies", "datasets", "models"},
    {"advice", "experiments", "labeling"},
    {"cli"},
    {"__main__"},
]


def layer_of(name: str) -> int:
    return next(level for level, names in enumerate(LAYERS) if name in names)


def test_imports_point_down() -> None:
    wrong = []
    for path in files():
        part = subpackage_of(path)
        for other in imported_from(path) - {part}:
            if layer_of(other) >= layer_of(part):
                wrong.append(f"{path.relative_to(ROOT)} imports {other}")
    assert not wrong


MADE_RUNS = {"setup", "loop", "runners", "experiment"}  # modules of `experiments`
READ_RUNS = {"store", "results", "statistics", "tables", "across"}
SHOWN_RUNS = {"figures", "page", "report", "comparison"}


@pytest.mark.parametrize(
    ("part", "unseen"),
    [(READ_RUNS, MADE_RUNS | SHOWN_RUNS), (MADE_RUNS, SHOWN_RUNS), (SHOWN_RUNS, MADE_RUNS)],
)
def test_results_are_read_and_shown_without_what_made_them(part: set[str], unseen: set[str]) -> None:
    folder = ROOT / "experiments"
    wrong = [
        f"{path.relative_to(ROOT)} imports {other}"
        for path in (folder / f"{name}.py" for name in sorted(part))
        for other in unseen
        if f"jostle.experiments.{other} import" in path.read_text()
        or f"jostle.experiments import {other}" in path.read_text()
    ]
    assert not wrong
    assert part | unseen <= {path.stem for path in folder.glob("*.py")}


LABELING = [  # parts of `labeling`, from the lowest up
    {"answers"},
    {"answer_types"},
    {"store"},
    {"sources"},
    {"records", "project", "guide"},
    {"export"},
    {"audit"},
    {"review", "training"},
    {"find", "session"},
    {"server"},
    {"labelstudio", "simulation"},
]
WHEN_CALLED = {
    ("session", "training"),
    ("session", "server"),
    ("training", "session"),
}  # when a function is called


def labeling_imports(path: Path) -> list[tuple[str, bool]]:
    """Parts of `labeling`, and "torch", that a file imports, each with whether that is inside a function."""
    tree = ast.parse(path.read_text())
    typing = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node)]
    for_types = {id(node) for block in typing for node in ast.walk(block)}
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom) or id(node) in for_types:
            continue
        prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        parts = [(prefix + alias.name).split(".") for alias in node.names]
        called = node not in tree.body
        found += [(name[2], called) for name in parts if name[:2] == ["jostle", "labeling"]]
        found += [("torch", called) for name in parts if name[0] == "torch"]
    return found


def test_parts_of_labeling_import_downward_and_training_alone_imports_torch() -> None:
    """So the store knows no server, the audit no training, an export the store alone; the server runs without torch."""
    level = {part: number for number, parts in enumerate(LABELING) for part in parts}
    home, wrong = ROOT / "labeling", []
    for path in sorted(home.rglob("*.py")):
        part = path.relative_to(home).with_suffix("").parts[0]
        for other, called in [] if part == "__init__" else labeling_imports(path):
            below = part == "training" if other == "torch" else other == part or level[other] < level[part]
            if not below and not (called and (part, other) in WHEN_CALLED):
                wrong.append(f"{path.relative_to(ROOT)} imports {other}")
    assert not wrong


EXECUTION = (  # modules on where and how work is done
    "jostle.core.planning",
    "jostle.engines",
    "jostle.inference.perturbed",
    "jostle.inference.memory",
    "jostle.inference.perturbed",
    "jostle.selectors.shards",
)


def execution_imports(path: Path) -> list[str]:
    """Modules of memory, plans, shards or clusters that a file imports, in whatever way."""
    found = []
    for node in syntax_nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [name for name in found if name in EXECUTION]


def test_strategies_define_and_nothing_else() -> None:
    """They import nothing of memory, plans, shards or clusters; rows under perturbations have one executor."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files()
        if subpackage_of(path) in ("embeddings", "strategies")
        for module in execution_imports(path)
    ]
    assert wrong == ["embeddings/deviations.py imports jostle.inference.perturbed"]


@pytest.mark.parametrize(
    "line",
    [
        "from jostle.inference.memory import Placement",
        "from jostle.inference import memory",
        "import jostle.core.planning",
        "def late() -> None:\n    from jostle.selectors.shards import Shard",
        "from jostle.engines import Ray",
    ],
)
def test_every_way_to_import_execution_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "strategy.py").write_text(line)
    assert execution_imports(tmp_path / "strategy.py")


def test_only_the_command_line_prints() -> None:
    talkers = [
        str(path.relative_to(ROOT))
        for path in files()
        if subpackage_of(path) != "cli"
        for node in syntax_nodes(path)
        if isinstance(node, ast.Name) and node.id == "print"
    ]
    assert not talkers


def test_only_inference_knows_of_a_networks_trace() -> None:
    reaching = [
        str(path.relative_to(ROOT))
        for path in files()
        if subpackage_of(path) != "inference" and re.search(r"runner\.trace\b", path.read_text())
    ]
    assert not reaching, "ask the context or the runner a question by name"


def test_no_strategy_has_two_parents() -> None:
    mixed = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in files()
        if subpackage_of(path) in ("core", "embeddings", "strategies", "selectors")
        for node in syntax_nodes(path)
        if isinstance(node, ast.ClassDef) and len(node.bases) > 1 and ast.unparse(node.bases[-1]) != "Generic"
    ]
    assert not mixed


def test_modules_stay_small() -> None:
    """Those of the tests, tools, benchmarks and examples too."""
    home = ROOT.parents[1]
    folders = ("src", "tests", "tools", "benchmarks", "examples")
    sizes = {
        path: len(path.read_text().splitlines()) for name in folders for path in (home / name).rglob("*.py")
    }
    assert not {path: size for path, size in sizes.items() if size > 400}


def test_torchvision_is_never_imported() -> None:
    assert not [path for path in files() if "torchvision" in path.read_text()]
