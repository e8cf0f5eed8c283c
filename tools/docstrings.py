"""How docstrings reach the site: they are plain text to `help()`, and Sphinx reads reStructuredText."""

from __future__ import annotations

import re
import sys
from dataclasses import is_dataclass
from importlib import import_module
from inspect import getdoc, isclass, isfunction, ismodule, isroutine, signature
from typing import TYPE_CHECKING, Any, get_type_hints

from sphinx.addnodes import desc_signature
from sphinx.util.docutils import SphinxDirective

from jostle.inference.context import Options
from jostle.utils.registry import SETTINGS

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.domains import Domain

INSIDE = ("jostle.strategies.", "jostle.embeddings.")  # modules whose classes are known by their settings
ARGUMENT = re.compile(r"^    (\w+):")


class Values(SphinxDirective):
    """`.. values:: module` documents what the module lists and is neither class nor function: autodoc would not."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """An entry for each value."""
        module = import_module(self.arguments[0])
        listed = {name: getattr(module, name) for name in module.__all__}
        values = [
            name
            for name, thing in listed.items()
            if not (isclass(thing) or isroutine(thing) or ismodule(thing))
        ]
        return self.parse_text_to_nodes(
            "\n\n".join(f".. autodata:: {module.__name__}.{name}" for name in values)
        )


def mark_code(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """An indented block after a colon is code, which Sphinx wants to be told."""
    following = [*lines[1:], "", ""]
    for place in reversed(range(len(lines))):
        empty, after = following[place : place + 2]
        if lines[place].endswith(":") and not empty.strip() and after.startswith("    "):
            lines[place + 1 : place + 1] = ["", ".. code-block:: python"]


def mark_arguments(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """The arguments of a function, each on a line below `Args:`, as Sphinx wants them said; errors as a list."""
    if "Args:" in lines:
        start = lines.index("Args:")
        end = next((n for n, line in enumerate(lines) if n > start and line[:1].strip()), len(lines))
        lines[start:end] = ["", *(ARGUMENT.sub(r":param \1:", line) for line in lines[start + 1 : end])]
    if "Raises:" in lines:
        start = lines.index("Raises:") + 1
        end = next((n for n, line in enumerate(lines) if n >= start and line[:1].strip()), len(lines))
        indented = lines[start:end]
        errors = (re.sub("^ {8}", " " * 6, line) for line in indented)  # as far in as an entry's words
        lines[start - 1 : end] = ["Raises", "", *(ARGUMENT.sub(r"    * ``\1``:", line) for line in errors)]


def drop_borrowed(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """What Python says of all dicts and numbers says nothing of one of ours."""
    if what == "data" and type(thing).__module__ == "builtins" and lines[:1] == first_line(type(thing)):
        lines.clear()


def drop_settings(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """What `help()` shows of settings the page shows below each of them."""
    if SETTINGS in lines:
        del lines[lines.index(SETTINGS) :]


def first_line(thing: Any) -> list[str]:
    """How a docstring begins, if there is one."""
    return (getdoc(thing) or "").splitlines()[:1]


def shorten_constructor(app: Sphinx, what: str, name: str, thing: Any, *rest: Any) -> tuple[str, None] | None:
    """The fields of a dataclass are listed with types and defaults, those of a pydantic model with their types: its
    constructor need not say them again. A protocol is never constructed.
    """
    if what != "class":
        return None
    if is_dataclass(thing) or getattr(thing, "_is_protocol", False):
        return "", None
    if not hasattr(thing, "model_fields"):
        return None
    given = signature(thing).parameters.values()
    shown = [each.name if each.default is each.empty else f"{each.name}={each.default!r}" for each in given]
    return f"({', '.join(shown)})", None


def is_told_above(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """A method that does what its base class promises is not told again, and of a strategy settings are enough."""
    if name == "model_config":  # pydantic's, of no use to a reader
        return True
    qualified = getattr(thing, "__qualname__", "").split(".")
    if len(qualified) != 2 or not isfunction(thing):
        return None
    owner = getattr(sys.modules.get(thing.__module__), qualified[0], object)
    promised = any(name in vars(base) for base in owner.__mro__[1:-1])
    return True if promised or thing.__module__.startswith(INSIDE) else None


def evaluate_options(app: Sphinx, thing: Any, bound_method: bool) -> None:
    """Types of a call's options as what they mean: as words, `Sequence` would be taken for the task of that name."""
    if "__signature__" in vars(thing):
        meant = get_type_hints(Options)
        shown = [
            p.replace(annotation=meant.get(p.name, p.annotation))
            for p in signature(thing).parameters.values()
        ]
        vars(thing)["__signature__"] = signature(thing).replace(parameters=shown)


def may_stay_a_word(app: Sphinx, domain: Domain | None, node: pending_xref) -> bool | None:
    """Whether a name that no page documents is no mistake: in backticks, in a signature, or of another package."""
    in_backticks = node["reftype"] == "obj"
    package, _, name = node["reftarget"].partition(".")
    of_others = bool(name) and package != app.config.project
    return True if in_backticks or of_others or is_in_signature(node) else None


def is_in_signature(node: Node) -> bool:
    """Whether a name stands in the signature of a class, function or setting."""
    while node is not None:
        if isinstance(node, desc_signature):
            return True
        node = node.parent
    return False


def home(app: Sphinx, module: str, attribute: str) -> str:
    """The module whose source page shows a name; of a named tuple's field Sphinx alone would not find it."""
    owner = getattr(import_module(module), attribute.split(".")[0])
    return str(getattr(owner, "__module__", module))


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx."""
    app.add_directive("values", Values)
    app.connect("autodoc-process-docstring", drop_borrowed)
    app.connect("autodoc-process-docstring", drop_settings)
    app.connect("autodoc-process-docstring", mark_arguments)
    app.connect("autodoc-process-docstring", mark_code)
    app.connect("autodoc-before-process-signature", evaluate_options)
    app.connect("autodoc-process-signature", shorten_constructor)
    app.connect("autodoc-skip-member", is_told_above)
    if "sphinx.ext.viewcode" in app.extensions:
        app.connect("viewcode-follow-imported", home)
    app.connect("warn-missing-reference", may_stay_a_word)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
