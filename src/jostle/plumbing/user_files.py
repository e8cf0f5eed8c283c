"""Users' own functions and classes, named as `file.py:name`."""

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from jostle.plumbing.names import unknown

PREFIX = "jostle_own_"  # of the modules that users' files become


def is_own(spec: str) -> bool:
    """Whether a name is `file.py:name`, and not one of a catalogue."""
    return ".py:" in spec


def from_file(spec: str) -> Callable[..., Any]:
    """What `file.py:name` names; the file may import its neighbours."""
    file, name = _parts(spec)
    module_name = f"{PREFIX}{file.stem}"
    module_spec = importlib.util.spec_from_file_location(module_name, file)
    if module_spec is None or module_spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_name] = module  # so that its classes can be pickled
    with neighbours(file.resolve().parent):
        module_spec.loader.exec_module(module)
    if name not in vars(module):
        raise unknown(f"function in {file}", name, _functions(module))
    found = vars(module)[name]
    if not callable(found):
        raise ValueError(f"{name} in {file} is {type(found).__name__}; expected a function or a class")
    return found  # type: ignore[no-any-return]


def checksum(spec: str) -> str:
    """The sha256 of the file that `file.py:name` names; what the file imports is not part of it."""
    return hashlib.sha256(_parts(spec)[0].read_bytes()).hexdigest()


def place_of(error: BaseException | None) -> str:
    """The last line of a user's own file that an error, or the error behind it, came through; "" for none."""
    while error is not None:
        frames = list(traceback.walk_tb(error.__traceback__))
        for frame, line in reversed(frames):
            if str(frame.f_globals.get("__name__")).startswith(PREFIX):
                return f"{frame.f_code.co_filename}, line {line}"
        error = error.__cause__ or error.__context__
    return ""


@contextmanager
def neighbours(folder: Path) -> Iterator[None]:
    """Let a file's imports find what lies beside it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _parts(spec: str) -> tuple[Path, str]:
    path, _, name = spec.rpartition(":")
    file = Path(path).expanduser()
    if not file.is_file():
        raise ValueError(f"there is no file {path!r} to take {name!r} from; write file.py:name")
    return file, name


def _functions(module: ModuleType) -> list[str]:
    """What a file has to offer: its public functions and classes, its own ones where it has any."""
    found = {key: value for key, value in vars(module).items() if callable(value) and key[0] != "_"}
    own = [key for key, value in found.items() if getattr(value, "__module__", None) == module.__name__]
    return own or list(found)
