"""One registry for all that goes by a name: strategies, embeddings, selectors, data sets, networks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Self, TypeVar

from jostle.utils.names import cached_property, unknown
from jostle.utils.settings import argument_docs, bracketed, check_settings, explain_settings, field_docs
from jostle.utils.user_files import from_file, is_own

__all__ = ["Entry", "Registry"]

T = TypeVar("T")
B = TypeVar("B", bound=Callable[..., Any])
E = TypeVar("E", bound="Entry")


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
        return own_doc(self.made_by, self.name).splitlines()[0]

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
        self.kind, self.group = kind, group
        self.entry_type = entry
        self.makes = makes  # the type of what is built, and its name for errors
        self.also = tuple(also)  # spellings that are no names, for errors
        self.hint = hint  # what a name that is not known may have meant, for errors
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
    try:
        found = point.load()
    except Exception as error:
        raise PluginError(
            f"the {kind} {point.name!r} of {package_name(point)} cannot be loaded "
            f"({type(error).__name__}: {error})"
        ) from error
    if not callable(found):
        raise PluginError(
            f"the {kind} {point.name!r} of {package_name(point)} must be a class or function; got {found!r:.80}"
        )
    return found


def package_name(point: EntryPoint) -> str:
    """Return the name of the package of an entry point, or the module where no package is known."""
    return f"the package {point.dist.name}" if point.dist is not None else point.value


def first_words(build: Callable[..., Any], name: str) -> str:
    """The first paragraph of a docstring as one line; the name where there is none."""
    made_by = build.func if isinstance(build, partial) else build
    return " ".join(own_doc(made_by, name).split("\n\n")[0].split())


def own_doc(made_by: Callable[..., Any], name: str) -> str:
    """The docstring that was written for this very thing, not for a base class; the name where there is none."""
    return inspect.cleandoc(made_by.__doc__ or name)


def definition(entry: Entry) -> tuple[str, str, str]:
    """Return the definition of an entry and its fixed settings: equal if the same lines ran again."""
    made_by = entry.made_by
    inside = vars(made_by).values() if isinstance(made_by, type) else [made_by]
    files = [each.__code__.co_filename for each in inside if hasattr(each, "__code__")]
    place = next((file for file in files if not file.startswith("<")), made_by.__module__)
    return place, getattr(made_by, "__qualname__", repr(made_by)), ", ".join(entry.fixed)
