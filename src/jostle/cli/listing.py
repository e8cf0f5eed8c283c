"""`jostle list` and `jostle show`: names, and what is behind them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from textwrap import fill
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from jostle.cli.console import say
from jostle.utils.names import unknown
from jostle.utils.registry import Entry, Registry
from jostle.utils.user_files import is_own

Kind = Literal["strategies", "embeddings", "selectors", "datasets", "protocols", "models"]


def list_names(
    kind: Annotated[
        Kind, typer.Argument(help="strategies, embeddings, selectors, datasets, protocols or models.")
    ],
) -> None:
    """List names that commands take. Each has a line about it: piped, a tab is between the two.

    Examples:
        jostle list strategies
        jostle list protocols
        jostle list datasets | cut -f 1
    """
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        said = dict(sentences(kind))
    for each in raised:  # plug-ins that are left out
        say(f"Warning: {each.message}")
    console = Console(highlight=False)
    if not console.is_terminal:
        print("\n".join(f"{name}\t{sentence}" for name, sentence in said.items()))
        return
    column = max(map(len, said), default=0) + 2
    for name, sentence in said.items():
        line = Text.assemble((name.ljust(column), "bold"), sentence)
        console.print(line, no_wrap=True, overflow="ellipsis")
    Console(stderr=True, highlight=False).print("\njostle show NAME explains one of them", style="dim")


def registries() -> dict[str, Registry[Any, Any]]:
    """The registries by what `jostle list` calls them."""
    from jostle import embeddings, models, selectors, strategies
    from jostle.datasets import catalog

    homes = {"embeddings": embeddings, "selectors": selectors, "datasets": catalog, "models": models}
    return {
        "strategies": strategies.registry.REGISTRY,
        **{kind: home.REGISTRY for kind, home in homes.items()},
    }


def sentences(kind: Kind) -> Iterator[tuple[str, str]]:
    """Names with a sentence about each."""
    from jostle.experiments import protocol as protocols

    if kind == "protocols":
        yield from ((name, protocols.load(name).title) for name in protocols.names())
        return
    entries = registries()[kind].entries()
    for entry in sorted(entries, key=lambda entry: entry.name) if kind == "strategies" else entries:
        whole = kind in ("datasets", "models")
        sentence = getattr(entry, "gist", "") or entry.idea.partition(". ")[0].rstrip(".")
        yield entry.name, entry.line if whole else sentence


def show(
    name: Annotated[
        str,
        typer.Argument(
            help="A protocol, strategy, embedding, selector, data set or network, a .toml file, or file.py:name."
        ),
    ],
) -> None:
    """Explain a protocol (its whole file), a strategy, an embedding, a selector, a data set or a network.

    Examples:
        jostle show default
        jostle show mnist
        jostle show k-center
    """
    from jostle.experiments import protocol as protocols

    found = list(explanations(name))
    if not found:
        known = {each for registry in registries().values() for each in registry.names()}
        raise unknown("name", name, known | {*protocols.names()})
    console = Console()
    print("\n\n".join(folded(text, console.width) if console.is_terminal else text for text in found))


def folded(text: str, width: int) -> str:
    """Sentences longer than a line of the terminal go on below, a little to the right."""
    return "\n".join(
        fill(line, width, subsequent_indent=" " * (len(line) - len(line.lstrip()) + 4))
        for line in text.split("\n")
    )


def explanations(name: str) -> Iterator[str]:
    """All that goes by this name."""
    from jostle.datasets import catalog
    from jostle.experiments import protocol as protocols

    if is_own(name):
        yield own_info(name)
        return
    if name in protocols.names() or name.endswith(".toml"):
        title = protocols.load(name).title
        yield f"Protocol {name}: {title}\n\n{protocols.source(name).strip()}"
    found = {kind: each.entry(name) for kind, each in registries().items() if name in each.names()}
    if "strategies" in found:
        yield strategy_info(found["strategies"])
    elif "embeddings" in found:  # an embedding that is a strategy too has been explained
        yield f"Embedding {name}: {found['embeddings'].idea}" + settings_of(found["embeddings"])
    if "selectors" in found:
        yield f"Selector {name}: {found['selectors'].idea}" + settings_of(found["selectors"])
    if "datasets" in found:
        yield f"Data set {found['datasets'].line}" + settings_of(found["datasets"])
    elif name.partition(":")[0] in catalog.OWN:
        entry = catalog.entry(name if ":" in name else f"{name}:...")
        yield f"Data set {entry.name}: {entry.idea}" + settings_of(entry)
    if "models" in found:
        yield f"Network {name}: {found['models'].line}" + settings_of(found["models"])


def own_info(name: str) -> str:
    """Return the docstring and the settings of a user's own `file.py:name`."""
    from jostle.core import Strategy
    from jostle.selectors import Selector

    entry = Entry.of_file(name)
    made_by = entry.made_by
    if not isinstance(made_by, type):
        kind = "Function"
    elif issubclass(made_by, Strategy):
        kind = "Strategy"
    else:
        kind = "Selector" if issubclass(made_by, Selector) else "Class"
    return f"{kind} {name}: {entry.idea}" + settings_of(entry)


def strategy_info(info: Any) -> str:
    """All that the registry says of a strategy, its own settings explained."""
    parts = {
        "formula": info.formula,
        "needs": ", ".join(info.needs),
        "tasks": ", ".join(info.tasks),
        "cost": info.cost,
        "use it when": info.when,
        "paper": info.paper,
    }
    lines = [f"  {key}: {text}" for key, text in parts.items() if text]
    return "\n".join([f"Strategy {info.name}: {info.idea}", *lines]) + settings_of(info)


def settings_of(entry: Entry) -> str:
    """Settings, their defaults and what is said of them, a line each; those that nearly all share come last."""
    from jostle.strategies.registry import SHARED

    shown = sorted((name for name in entry.settings if name != "root"), key=SHARED.__contains__)
    lines = [f"    {name} = {_value(entry.settings[name])}: {entry.docs.get(name, '')}" for name in shown]
    return "\n".join(["", "  settings:", *lines]) if lines else ""


def _value(value: object) -> str:
    if value is None:
        return "none"
    return "(required)" if value is inspect.Parameter.empty else repr(value)
