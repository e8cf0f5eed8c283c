"""Data sets by name, a user's own data, and their common form: inputs, targets, a task.

`load("mnist")`, `load("folder:PATH")`, `load("csv:PATH")`, `load("file.py:function")`. Local copies come
first, then the cache, then a download where the license allows one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jostle.datasets.fetch import DataError, MissingDataError

if TYPE_CHECKING:
    from jostle.datasets.catalog import describe, entry, load, named, names, pool, register, settings
    from jostle.datasets.data import Batch, Data, Fields, Inputs, Split, Targets, Texts
    from jostle.datasets.images import ImageFiles
    from jostle.datasets.tables import tokenize

__all__ = [
    "Batch", "Data", "DataError", "Fields", "ImageFiles", "Inputs", "MissingDataError", "Split", "Targets",
    "Texts", "describe", "entry", "load", "named", "names", "pool", "register", "settings", "tokenize",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: the labeling server reads pictures and tables without torch."""
    if name in (*__all__, "OWN", "REGISTRY"):
        for home in ("data", "images", "tables", "catalog"):
            module = import_module(f"jostle.datasets.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'jostle.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
