"""Users' own functions and classes, named as `file.py:name`."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jostle.names import unknown


def from_file(spec: str) -> Callable[..., Any]:
    """What `file.py:name` names; the file may import its neighbours."""
    path, _, name = spec.rpartition(":")
    file = Path(path).expanduser()
    if not file.is_file():
        raise ValueError(f"there is no file {path!r} to take {name!r} from; write file.py:name")
    module_name = f"jostle_own_{file.stem}"
    module_spec = importlib.util.spec_from_file_location(module_name, file)
    if module_spec is None or module_spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_name] = module  # so that its classes can be pickled
    with neighbours(file.resolve().parent):
        module_spec.loader.exec_module(module)
    found: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(found):
        raise unknown(f"function in {file}", name, (key for key in vars(module) if not key.startswith("_")))
    return found


@contextmanager
def neighbours(folder: Path) -> Iterator[None]:
    """Let a file's imports find what lies beside it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
