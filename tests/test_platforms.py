"""What other systems rely on: no module of Unix alone, no encoding left to chance, a start that imports little."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import jostle

ROOT = Path(jostle.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
UNIX_ALONE = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline", "curses")
MODULES = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in SOURCES]
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


def python(code: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, **options
    )


def test_every_module_imports_where_there_is_no_unix() -> None:
    modules = [name for name in MODULES if not name.endswith(".__main__")]
    done = python(f"{WITHOUT_UNIX}\nfor name in {modules!r}:\n    importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


def test_a_batch_is_picked_where_there_is_no_unix(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    words = ["pick", "--model", "own.py:model", "--pool", "digits", "-n", "3", "--strategy", "margin"]
    done = python(f"{WITHOUT_UNIX}\nfrom jostle.cli import main\nmain()", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "picks.csv").read_text(encoding="utf-8").splitlines()) == 4


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
