"""Imports point down only, and the command line is the only place that prints."""

import ast
from pathlib import Path

import jostle

ROOT = Path(jostle.__file__).parent
LAYERS = [  # from the ground up; a module imports from layers below its own, or from its own package
    {"plumbing", "rng"},
    {"rows"},
    {"selectors"},
    {"inputs", "tasks"},
    {"scoring"},
    {"core"},
    {"embeddings", "training"},
    {"strategies", "datasets", "models"},
    {"results"},
    {"runs"},
    {"report", "labelling"},
    {"cli"},
    {"__main__"},
]


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def layer_of(name: str) -> int:
    return next(level for level, names in enumerate(LAYERS) if name in names)


def imported_from(path: Path) -> set[str]:
    """The packages of jostle that a file imports, lazily or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jostle"):
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("jostle.")}
    return found


def files() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def test_imports_point_down() -> None:
    wrong = []
    for path in files():
        package = package_of(path)
        for other in imported_from(path) - {package}:
            if layer_of(other) >= layer_of(package):
                wrong.append(f"{path.relative_to(ROOT)} imports {other}")
    assert not wrong


def test_only_the_command_line_prints() -> None:
    talkers = [
        str(path.relative_to(ROOT))
        for path in files()
        if package_of(path) not in ("cli",)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not talkers


def test_only_scoring_knows_of_a_networks_trace() -> None:
    reaching = [
        str(path.relative_to(ROOT))
        for path in files()
        if package_of(path) != "scoring"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr == "trace"
        and ast.unparse(node.value).endswith("network")
    ]
    assert not reaching, "ask the request or the network a question by name"


def test_no_strategy_has_two_parents() -> None:
    mixed = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in files()
        if package_of(path) in ("core", "embeddings", "strategies", "selectors")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and len(node.bases) > 1 and ast.unparse(node.bases[-1]) != "Generic"
    ]
    assert not mixed


def test_modules_stay_small() -> None:
    large = {str(p.relative_to(ROOT)): n for p in files() if (n := len(p.read_text().splitlines())) > 400}
    assert not large


def test_torchvision_is_never_imported() -> None:
    assert not [path for path in files() if "torchvision" in path.read_text()]
