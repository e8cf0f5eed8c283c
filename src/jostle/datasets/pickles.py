"""Pickles of words, numbers and bytes, read without trusting them: nothing that they name is called."""

import io
import pickle
import pickletools
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_TUPLES = 10_000  # nested without end, their hash would overflow the stack
KEPT = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}  # codes that change nothing
ARRAY_MODULES = (
    "numpy.core.multiarray",
    "numpy._core.multiarray",
    "numpy.core.numeric",
    "numpy._core.numeric",
)


def read_pickle(content: bytes) -> Any:
    """What a pickle holds: dicts, lists, words, numbers, and arrays of bytes (uint8), whatever wrote it.

    An array is rebuilt here from its bytes and its shape. What the pickle says of types is compared with uint8, and
    never given to numpy, which a forged type can crash.
    """
    _check_tuples(content)
    return _settled(_Reader(io.BytesIO(content), encoding="bytes").load())


def _check_tuples(content: bytes) -> None:
    """Refuse a pickle of many tuples, those that are but the arguments of a call aside."""
    names = [code.name for code, _, _ in pickletools.genops(content) if code.name not in KEPT]
    tuples = sum(name.startswith("TUPLE") and after != "REDUCE" for name, after in pairwise(names))
    if tuples > MOST_TUPLES:
        raise pickle.UnpicklingError(f"it has {tuples} tuples; expected a few")


class _Reader(pickle.Unpickler):
    """Finds stand-ins only, made anew for each pickle, so that none can be spoilt for the next."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = _stand_ins()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return self.known[module, name]


class _Bytes:
    """An array of bytes in the making."""

    def array(self) -> NDArray[np.uint8]:
        """The array, of what was told of it."""
        raise NotImplementedError


def _stand_ins() -> dict[tuple[str, str], Any]:
    """Names that numpy's arrays use in pickles -> harmless things of that name."""

    class Type(str):
        """A type's name."""

        def __new__(cls, name: Any, *_: Any) -> "Type":
            return super().__new__(cls, name.decode() if isinstance(name, bytes) else str(name))

        def __setstate__(self, state: Any) -> None:
            """Byte order, fields and the rest: of bytes there is nothing to tell."""

    class Array(_Bytes):
        """What is told of an array, kept until it can be checked."""

        told: Any = None

        def __setstate__(self, state: Any) -> None:
            _, *self.told = state  # a version, then shape, type, whether in Fortran's order, content

        def array(self) -> NDArray[np.uint8]:
            shape, kind, fortran, content = self.told
            return _array(shape, kind, fortran, content)

    class Buffer(Array):
        """The same as protocol 5 writes it."""

        def __init__(self, content: Any, kind: Any, shape: Any, order: Any = "C") -> None:
            self.told = [shape, kind, order != "C", bytes(content)]

    found: dict[tuple[str, str], Any] = {("numpy", "ndarray"): Array, ("numpy", "dtype"): Type}
    for module in ARRAY_MODULES:
        found[module, "_reconstruct"] = lambda *_: Array()
        found[module, "_frombuffer"] = Buffer
    found["_codecs", "encode"] = lambda text, codec: _encoded(text, codec)
    return found


def _encoded(text: Any, codec: Any) -> bytes:
    """Bytes as protocols 0 to 2 write them: text in latin1."""
    words = text.decode("latin1") if isinstance(text, bytes) else str(text)
    if codec not in ("latin1", b"latin1", "latin-1", b"latin-1"):
        raise pickle.UnpicklingError(f"it has text in {codec!r}; expected latin1")
    return words.encode("latin1")


def _array(shape: Any, kind: Any, fortran: Any, content: Any) -> NDArray[np.uint8]:
    if not isinstance(kind, str) or kind.lstrip("|=<>") not in ("u1", "uint8"):
        raise pickle.UnpicklingError(f"it has an array of {kind!s:.20}; expected bytes (uint8)")
    sizes = [int(size) for size in shape]
    raw = content.encode("latin1") if isinstance(content, str) else content
    if fortran or not isinstance(raw, bytes) or min(sizes, default=0) < 0 or prod(sizes) != len(raw):
        raise pickle.UnpicklingError(f"it has an array of shape {tuple(sizes)} whose bytes do not fit")
    return np.frombuffer(raw, np.uint8).reshape(sizes)


def _settled(loaded: Any) -> Any:
    """Arrays in the place of what was told of them, in the outermost dict, where batches have them."""
    if not isinstance(loaded, dict):
        return loaded
    return {key: value.array() if isinstance(value, _Bytes) else value for key, value in loaded.items()}
