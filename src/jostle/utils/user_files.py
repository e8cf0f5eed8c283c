"""Users' own functions and classes, named as `file.py:name`."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from jostle.utils.names import unknown

PREFIX = "jostle_own_"  # of the modules that users' files become


@dataclass
class Sources:
    """The bytes of users' files, each read once: what was hashed is what runs, whatever is edited meanwhile."""

    content: dict[Path, bytes] = field(default_factory=dict)
    imported: dict[Path, list[Path]] = field(default_factory=dict)  # file -> files beside it that it imports

    def read(self, path: Path) -> bytes:
        """A file as it was when it was first read."""
        if path not in self.content:
            self.content[path] = path.read_bytes()
        return self.content[path]


_sources: ContextVar[Sources | None] = ContextVar("sources", default=None)


@contextmanager
def kept_sources(known: Sources | None = None) -> Iterator[Sources]:
    """Read no file of a user's own twice while this lasts; `known` were read before, in another process perhaps."""
    kept = known or Sources()
    token = _sources.set(kept)
    try:
        yield kept
    finally:
        _sources.reset(token)


def is_own(spec: str) -> bool:
    """Whether a name is `file.py:name`, and not one of a registry."""
    return ".py:" in spec


def from_file(spec: str) -> Callable[..., Any]:
    """Return the object that `file.py:name` names; a file is loaded again only when it or its imports changed."""
    sources = _sources.get() or Sources()
    file, name = _parts(spec, sources)
    module, path = _loaded(file, sources), spec.rpartition(":")[0]
    if name not in vars(module):
        raise unknown(f"function in {path}", name, _functions(module))
    found = vars(module)[name]
    if not callable(found):
        raise ValueError(f"{name} in {path} is {type(found).__name__}; expected a function or a class")
    return found  # type: ignore[no-any-return]


def checksums(spec: str) -> dict[str, str]:
    """The sha256 of the file that `file.py:name` names, under "", and of each neighbor it imports, under its path.

    Neighbors are known once the file has been loaded among the same `kept_sources`.
    """
    sources = _sources.get() or Sources()
    file, _ = _parts(spec, sources)
    beside = {path.relative_to(file.parent).as_posix(): path for path in sources.imported.get(file, ())}
    files = {"": file, **beside}
    return {name: hashlib.sha256(sources.read(path)).hexdigest() for name, path in files.items()}


def line_in_own_file(error: BaseException | None) -> str:
    """The last line of a user's own file that an error, or the error behind it, came through; "" for none."""
    while error is not None:
        frames = list(traceback.walk_tb(error.__traceback__))
        for frame, line in reversed(frames):
            if str(frame.f_globals.get("__name__")).startswith(PREFIX):
                return f"{frame.f_code.co_filename}, line {line}"
        error = error.__cause__ or error.__context__
    return ""


class _Loader(SourceFileLoader):
    """Compiles the bytes that were kept, and leaves no bytecode behind."""

    def __init__(self, name: str, path: Path, sources: Sources) -> None:
        super().__init__(name, str(path))
        self.sources = sources

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of the kept bytes, whatever lies on disk or in a cache."""
        return self.source_to_code(self.sources.read(Path(self.path)), self.path)


@dataclass(frozen=True)
class _Neighbors:
    """Finds what a user's file imports from beside it, and notes it."""

    file: Path
    sources: Sources

    def find_spec(
        self, name: str, path: Iterable[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of the folder: on disk, or as it was when first read."""
        for folder in map(Path, path or [str(self.file.parent)]):
            stem = folder / name.rpartition(".")[2]
            for origin, inside in ((stem / "__init__.py", [str(stem)]), (Path(f"{stem}.py"), None)):
                known = origin in self.sources.content or origin.is_file()
                if known and folder.is_relative_to(self.file.parent):
                    self._note(origin)
                    loader = _Loader(name, origin, self.sources)
                    return importlib.util.spec_from_file_location(
                        name, origin, loader=loader, submodule_search_locations=inside
                    )
        return None

    def _note(self, origin: Path) -> None:
        noted = self.sources.imported[self.file]
        if origin not in noted:
            noted.append(origin)


@dataclass(frozen=True)
class _Loaded:
    """Loaded file, with its bytes and those of the neighbors that it imports."""

    module: ModuleType
    beside: dict[str, ModuleType]
    content: dict[Path, bytes]

    def is_made_of(self, sources: Sources) -> bool:
        """Whether loading it now would give the same."""
        try:
            return all(sources.read(path) == content for path, content in self.content.items())
        except OSError:  # a neighbor is gone
            return False


_known: dict[Path, _Loaded] = {}  # file -> what it became when it was last loaded


def _loaded(file: Path, sources: Sources) -> ModuleType:
    known = _known.get(file)
    if known is None or not known.is_made_of(sources):
        known = _known[file] = _load(file, sources)
    sources.imported[file] = [path for path in known.content if path != file]
    _forget_neighbors()
    sys.modules.update(
        {known.module.__name__: known.module, **known.beside}
    )  # so that classes can be pickled
    return known.module


def _load(file: Path, sources: Sources) -> _Loaded:
    name = f"{PREFIX}{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file, loader=_Loader(name, file, sources))
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _finding_neighbors(file, sources), _steady_draws():
        spec.loader.exec_module(module)
    content = {path: sources.read(path) for path in (file, *sources.imported[file])}
    return _Loaded(module, _neighbors(), content)


def _steady_draws() -> AbstractContextManager[None]:
    """Seed the draws of a file while it is loaded, and restore the global state.

    Without torch, which labeling's server never loads, nothing depends on it.
    """
    if "torch" not in sys.modules:
        return nullcontext()
    from jostle.rng import seeded_globals

    return seeded_globals(0)


@contextmanager
def _finding_neighbors(file: Path, sources: Sources) -> Iterator[None]:
    """Let a file's imports find what lies beside it; what an earlier file found there is forgotten."""
    _forget_neighbors()
    sources.imported[file] = []
    finder = _Neighbors(file, sources)
    place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
    sys.meta_path.insert(place, finder)  # after what is built in, before what is installed
    sys.path.insert(0, str(file.parent))
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.path.remove(str(file.parent))


def _neighbors() -> dict[str, ModuleType]:
    """The modules that a file found beside it."""
    return {
        name: module
        for name, module in sys.modules.items()
        if isinstance(getattr(module, "__loader__", None), _Loader) and not name.startswith(PREFIX)
    }


def _forget_neighbors() -> None:
    for name in _neighbors():
        del sys.modules[name]


def _parts(spec: str, sources: Sources) -> tuple[Path, str]:
    path, _, name = spec.rpartition(":")
    file = Path(path).expanduser().resolve()
    if file not in sources.content and not file.is_file():
        raise ValueError(f"there is no file {path!r} to take {name!r} from; write file.py:name")
    return file, name


def _functions(module: ModuleType) -> list[str]:
    """Return the public functions and classes of a file, its own ones where it has any."""
    found = {key: value for key, value in vars(module).items() if callable(value) and key[0] != "_"}
    own = [key for key, value in found.items() if getattr(value, "__module__", None) == module.__name__]
    return own or list(found)
