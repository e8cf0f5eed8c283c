"""What other systems rely on: no encoding left to chance, a terminal of few letters, a start that imports little."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import jostle

ROOT = Path(jostle.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))


def python(code: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, **options
    )


BINARY = re.compile(r"(tarfile|zipfile|gzip|[A-Z]\w+)\.open")  # of modules and classes that open no text


def unnamed_encodings(path: Path) -> list[str]:
    """Calls that open a text file in whatever encoding the system happens to have."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or any(keyword.arg == "encoding" for keyword in node.keywords):
            continue
        if opens_text(node):
            found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def opens_text(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in ("read_text", "write_text"):
        return True
    if name not in ("open", "fdopen", "NamedTemporaryFile") or BINARY.fullmatch(ast.unparse(call.func)):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    modes = [value.value for value in given if isinstance(value, ast.Constant) and is_mode(value.value)]
    if name == "open" and isinstance(call.func, ast.Attribute):  # of a path, or of an archive's member
        return not call.args or any("b" not in mode for mode in modes)
    return not any("b" in mode for mode in modes)


def is_mode(value: object) -> bool:
    return isinstance(value, str) and bool(value) and set(value) <= set("rwaxbt+")


def test_text_files_have_an_encoding() -> None:
    assert [call for path in SOURCES for call in unnamed_encodings(path)] == []


def test_a_terminal_that_knows_few_letters_shows_what_it_can() -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = python("from jostle.cli import main; main()", "show", "noise-stability", env=ascii_only)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert done.stdout.strip()


def test_the_start_and_the_help_of_a_command_need_neither_torch_nor_numpy() -> None:
    done = python(
        "import contextlib, io, sys\nimport jostle.cli\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n    jostle.cli.main()\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)",
        "pick",
        "--help",
    )
    assert done.stdout.split()[-2:] == ["False", "False"]
