"""One registry for all that goes by a name, such as strategies and data sets; settings are checked and explained."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from textwrap import dedent
from types import NoneType, UnionType
from typing import Any, Generic, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from jostle.utils.names import cached_property, unknown
from jostle.utils.user_files import from_file, is_own

__all__ = ["Entry", "Registry"]

T = TypeVar("T")
B = TypeVar("B", bound=Callable[..., Any])
E = TypeVar("E", bound="Entry")

SETTINGS = "Settings:"  # the line above them in a docstring
PLAIN_TYPES: dict[Any, tuple[Any, str]] = {  # hint -> the types of its values, and what they are called
    int: (Integral, "a whole number"),  # numpy's numbers too
    float: (Real, "a number"),
    bool: (bool, "true or false"),
    str: (str, "a word"),
    Path: ((str, Path), "a path"),
    NoneType: (NoneType, "none"),
}


@dataclass(frozen=True)
class Entry:
    """A name, what it stands for, and what a reader wants to know of it."""

    name: str
    """What every call and command knows it by."""
    build: Callable[..., Any]
    """A class, a function, or one of these with settings fixed by `functools.partial`."""
    idea: str
    """What it is, in a sentence or two: the first paragraph of its docstring unless said otherwise."""
    listed: bool = True
    """Whether lists show it."""

    @classmethod
    def of_file(cls, name: str) -> Self:
        """Return the entry of a user's own class or function, `file.py:name`."""
        build = from_file(name)
        return cls(name=name, build=build, idea=first_words(build, name))

    @property
    def line(self) -> str:
        """The first line of its docstring; its name where there is none."""
        return inspect.cleandoc(self.made_by.__doc__ or self.name).splitlines()[0]

    @property
    def made_by(self) -> Callable[..., Any]:
        """The class or function itself, under whatever is fixed."""
        return self.build.func if isinstance(self.build, partial) else self.build

    @property
    def fixed(self) -> dict[str, Any]:
        """Settings that differ from the defaults of what it is made by."""
        return self.build.keywords if isinstance(self.build, partial) else {}

    @property
    def settings(self) -> dict[str, Any]:
        """Settings by name with their defaults, fixed ones included; `inspect.Parameter.empty` where there is none."""
        parameters = inspect.signature(self.build).parameters
        return {name: each.default for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD}

    @property
    def docs(self) -> dict[str, str]:
        """Return the description of each setting that has one."""
        fields = field_docs(self.made_by) if isinstance(self.made_by, type) else {}
        return fields | argument_docs(self.made_by)


class Registry(Generic[T, E]):
    """Names of one kind, and what they stand for; `file.py:name` stands for what a user's file defines.

    Packages add to it by entry points of its group, which are looked for once and loaded when they are asked for.

    Args:
        kind: What it holds, in a word, for errors.
        group: The entry points that belong to it.
        entry: The type of its entries.
        makes: The type of what is built, and its name for errors; None: anything.
        also: Spellings that are no names, for errors.
        hint: What a name that is not known may have meant, for errors.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        entry: type[E],
        makes: tuple[type[T], str] | None = None,
        also: Iterable[str] = (),
        hint: Callable[[str], str] = lambda name: "",
    ) -> None:
        self.kind, self.group, self.entry_type = kind, group, entry
        self.makes, self.also, self.hint = makes, tuple(also), hint
        self._entries: dict[str, E] = {}

    def register(self, name: str, *, idea: str = "", **card: Any) -> Callable[[B], B]:
        """Decorate what goes by a name from now on: `@register("mine")` over a class or function.

        A name that is taken by another definition is an error; running the same definition again replaces it.

        Args:
            name: What every call and command will know it by.
            idea: What it is, in a sentence or two; otherwise the docstring's first paragraph.
            card: What else a reader wants to know, as the fields of the registry's entries.
        """

        def entered(build: B) -> B:
            entry = self.entry_type(name=name, build=build, idea=idea or first_words(build, name), **card)
            taken = self._entries.get(name)
            if taken is not None and definition(taken) != definition(entry):
                raise ValueError(
                    f"the {self.kind} name {name!r} is taken by {definition(taken)[1]}: choose another"
                )
            self._entries[name] = entry
            if isinstance(entry.made_by, type):
                explain_settings(entry.made_by)
            return build

        return entered

    def enter(self, builders: Mapping[str, Callable[..., T]]) -> None:
        """Register several `builders` by name at once, what is known of each being its docstring."""
        for name, build in builders.items():
            self.register(name)(build)

    def names(self) -> list[str]:
        """Every name, those of installed plug-ins included, in the order they were entered."""
        own = [name for name, entry in self._entries.items() if entry.listed]
        return own + [name for name in self._points if name not in self._entries]

    def entry(self, name: str) -> E:
        """Return the entry of a `name`, or of the definition in `file.py:name`."""
        if name not in self._entries and name in self._points:
            self.register(name)(load(self._points[name], self.kind))
        if name in self._entries:
            return self._entries[name]
        if is_own(name):
            return self.entry_type.of_file(name)
        if hint := self.hint(name):
            raise ValueError(f"unknown {self.kind} {name!r}: {hint}")
        raise unknown(self.kind, name, [*self.names(), *self.also])

    def entries(self) -> list[E]:
        """Return the entries of all names; a plug-in that cannot be loaded is left out with a warning."""
        found = []
        for name in self.names():
            try:
                found.append(self.entry(name))
            except PluginError as broken:
                warnings.warn(f"{broken}: it is left out", stacklevel=2)
        return found

    def build(self, name: str, settings: Mapping[str, Any], options: Iterable[str] = ()) -> T:
        """Build the entry of a name with settings.

        Args:
            name: A name of the registry, or `file.py:name`.
            settings: By name.
            options: What else a user may have meant by a setting that is not known.
        """
        build = self.entry(name).build
        check_settings(name, build, settings, [*inspect.signature(build).parameters, *options])
        try:
            made = build(**settings)
        except TypeError as wrong:
            raise ValueError(f"{name}{bracketed(settings)}: {wrong}") from wrong
        if self.makes is not None and not isinstance(made, self.makes[0]):
            raise TypeError(f"{name} made {type(made).__name__}; expected {self.makes[1]}")
        return made  # type: ignore[no-any-return]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Forget afterwards what is registered meanwhile."""
        before = dict(self._entries)
        try:
            yield
        finally:
            self._entries = before

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        """Entry points of other packages, by name; one that would take a name that is here is left out."""
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if point.name in self._entries:
                warnings.warn(
                    f"{point.value} offers the {self.kind} {point.name!r}, which is taken: it is left out",
                    stacklevel=3,
                )
            else:
                found[point.name] = point
        return found


class PluginError(ValueError):
    """An entry point of an installed package that cannot be loaded."""


def load(point: EntryPoint, kind: str) -> Any:
    """Return what an entry point names; raise an error that names the package where it cannot be loaded."""
    package = point.value if point.dist is None else f"the package {point.dist.name}"
    try:
        found = point.load()
        if not callable(found):
            raise TypeError(f"must be a class or function; got {found!r:.80}")
    except Exception as error:
        raise PluginError(
            f"the {kind} {point.name!r} of {package} cannot be loaded ({type(error).__name__}: {error})"
        ) from error
    return found


def first_words(build: Callable[..., Any], name: str) -> str:
    """The first paragraph of the docstring, without that of a base class, as one line; the name where there is none."""
    made_by = build.func if isinstance(build, partial) else build
    return " ".join(inspect.cleandoc(made_by.__doc__ or name).split("\n\n")[0].split())


def definition(entry: Entry) -> tuple[str, str, str]:
    """Return the definition of an entry and its fixed settings: equal if the same lines ran again."""
    made_by = entry.made_by
    inside = vars(made_by).values() if isinstance(made_by, type) else [made_by]
    files = [each.__code__.co_filename for each in inside if hasattr(each, "__code__")]
    place = next((file for file in files if not file.startswith("<")), made_by.__module__)
    return place, getattr(made_by, "__qualname__", repr(made_by)), ", ".join(entry.fixed)


def check_settings(
    owner: str, build: Callable[..., Any], settings: Mapping[str, Any], known: Iterable[str] | None = None
) -> None:
    """Refuse settings that `build` does not take, values that cannot be theirs, and any that it still lacks.

    A misspelled one is answered from `known`: its names may be more or fewer than those that `build` takes.
    """
    kind = build.func if isinstance(build, partial) else build
    parameters = inspect.signature(build).parameters
    free = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    hints = _hints(kind)
    for name, value in settings.items():
        if name not in parameters and not free:
            raise unknown(f"setting of {owner}", name, parameters if known is None else known)
        if not fits(value, hints.get(name, Any)):
            raise ValueError(f"{owner}: {name} takes {type_in_words(hints[name])}; got {value!r}")
    for name, each in parameters.items():
        needed = each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        if needed and name not in settings:
            raise ValueError(f"{owner} needs a value for {name}: write {owner}({name}=...)")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value may be what a type hint says; what is no plain type is not judged."""
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is Sequence:
        return _is_list(value) and all(fits(each, get_args(hint)[0]) for each in value)
    if hint in (int, float) and isinstance(value, bool):
        return False
    return hint not in PLAIN_TYPES or isinstance(value, PLAIN_TYPES[hint][0])


def type_in_words(hint: Any) -> str:
    """Describe the values that a type hint admits."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(type_in_words, get_args(hint))))
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) is Sequence:
        return "a list [...]"
    return PLAIN_TYPES[hint][1] if hint in PLAIN_TYPES else getattr(hint, "__name__", str(hint))


def bracketed(settings: Mapping[str, Any]) -> str:
    """Settings as the command line writes them: `(num_perturbations=10, noise_scale=0.1)`, and nothing for none."""
    shown = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"({shown})" if shown else ""


def _is_list(value: Any) -> bool:
    """Whether a value is a list, a tuple, an array or a ModuleList; words have an order too, but are one value."""
    return (
        isinstance(value, Sized)
        and isinstance(value, Iterable)
        and not isinstance(value, str | bytes | Mapping | Set)
    )


def _hints(kind: Any) -> dict[str, Any]:
    """Type hints of a function or a class's fields; none where they cannot be resolved."""
    try:
        return get_type_hints(kind)
    except (NameError, TypeError, AttributeError):
        return {}


def field_docs(kind: type) -> dict[str, str]:
    """Field -> the string literal below it, as one line; those of base classes included."""
    found: dict[str, str] = {}
    for base in reversed(inspect.getmro(kind)):
        found |= _own_docs(base)
    return found


def argument_docs(function: Callable[..., Any]) -> dict[str, str]:
    """Argument -> what the docstring's part `Args:` says of it, as one line."""
    _, _, part = (inspect.getdoc(function) or "").partition("Args:\n")
    found: dict[str, str] = {}
    for line in part.split("\n\n")[0].splitlines():
        start = re.match(r"    (\w+): (.*)", line)
        if start:
            name, found[start[1]] = start[1], start[2]
        elif line.startswith("     ") and found:
            found[name] += " " + line.strip()
    return found


@cache
def _own_docs(kind: type) -> dict[str, str]:
    """Those that stand in the class itself; none where its source cannot be read."""
    if kind.__module__ == "builtins":
        return {}
    try:
        (definition,) = ast.parse(dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(definition, ast.ClassDef)
    body = definition.body
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def explain_settings(kind: type) -> None:
    """Let `help()` show the strings below the fields of a class, by ending its docstring with them."""
    words, said = vars(kind).get("__doc__") or "", field_docs(kind)
    lines = [f"    {name}: {said[name]}" for name in inspect.signature(kind).parameters if name in said]
    if words and lines and SETTINGS not in words:
        kind.__doc__ = "\n".join([inspect.cleandoc(words), "", SETTINGS, *lines])


def with_options(options: type, defaults: Mapping[str, Any]) -> Callable[[B], B]:
    """Let `help()` show the keywords of `**options: Unpack[options]` one by one, with what is said of each.

    An option that is not among the `defaults` is None unless given. A function that takes further keywords of any kind
    keeps them, after the options.
    """

    def show(function: B) -> B:
        signature = inspect.signature(function)
        given = signature.parameters.values()
        free = [each for each in given if each.kind is not each.VAR_KEYWORD]
        further = [
            each for each in given if each.kind is each.VAR_KEYWORD and "Unpack" not in str(each.annotation)
        ]
        for name, hint in options.__annotations__.items():
            written = getattr(hint, "__forward_arg__", hint)  # as the source has it
            default = defaults.get(name)
            free.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=written)
            )
        vars(function)["__signature__"] = signature.replace(parameters=[*free, *further])
        said = field_docs(options)
        lines = [f"    {name}: {said[name]}" for name in options.__annotations__ if name in said]
        before, heading, args = (inspect.getdoc(function) or "").partition("Args:\n")
        own, gap, rest = args.partition("\n\n")
        function.__doc__ = "\n".join([before + heading + own, *lines]) + gap + rest
        return function

    return show
