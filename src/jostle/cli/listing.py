"""`jostle list` and `jostle show`: what there is."""

import inspect
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from jostle.plumbing.names import unknown


class Kind(StrEnum):
    """What can be listed."""

    strategies = "strategies"
    datasets = "datasets"
    protocols = "protocols"
    models = "models"


def list_names(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
) -> None:
    """List what there is. On a terminal with a line about each, piped one name a line."""
    rows = dict(rows_of(kind))
    if not sys.stdout.isatty():
        print("\n".join(rows))
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in HEADINGS[kind]:
        table.add_column(heading, no_wrap=heading == "name")
    for name, cells in rows.items():
        table.add_row(name, *cells)
    Console().print(table)


HEADINGS = {
    Kind.strategies: ("name", "idea", "needs", "tasks", "paper"),
    Kind.datasets: ("name", "what"),
    Kind.protocols: ("name", "what"),
    Kind.models: ("name", "what"),
}


def rows_of(kind: Kind) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names with what is said of them."""
    from jostle import datasets, models, strategies
    from jostle.runs import protocol as protocols

    if kind is Kind.strategies:
        for name in strategies.names():
            card = strategies.describe(name)
            idea = card.idea.partition(". ")[0].rstrip(".")
            yield name, (idea, ", ".join(card.needs), ", ".join(card.tasks), card.paper)
    elif kind is Kind.datasets:
        yield from ((name, (datasets.describe(name),)) for name in datasets.names())
    elif kind is Kind.models:
        yield from ((name, (models.describe(name),)) for name in models.names())
    else:
        yield from ((name, (protocols.load(name).title,)) for name in protocols.names())


def show(
    name: Annotated[str, typer.Argument(help="A protocol, strategy, data set or network, or a .toml file.")],
) -> None:
    """Explain a protocol (its whole file), a strategy, a data set or a network."""
    from jostle import datasets, models, strategies
    from jostle.runs import protocol as protocols

    found = list(explanations(name))
    if not found:
        known = {*strategies.names(), *datasets.names(), *models.names(), *protocols.names()}
        raise unknown("name", name, known)
    print("\n\n".join(found))


def explanations(name: str) -> Iterator[str]:
    """All that goes by this name."""
    from jostle import datasets, models, strategies
    from jostle.runs import protocol as protocols

    if name in protocols.names() or name.endswith(".toml"):
        title = protocols.load(name).title
        yield f"Protocol {name}: {title}\n\n{protocols.source(name).strip()}"
    if name in strategies.names():
        yield strategy_card(name)
    if name in datasets.names():
        yield f"Data set {datasets.describe(name)}" + settings_of(datasets.settings(name))
    if name in models.names():
        yield f"Network {name}: {models.describe(name)}" + settings_of(models.settings(name))


def strategy_card(name: str) -> str:
    """All that the catalogue says of a strategy, its own settings explained."""
    from jostle import strategies
    from jostle.strategies.cards import SHARED, own_settings

    card = strategies.describe(name)
    parts = {
        "formula": card.formula,
        "needs": ", ".join(card.needs),
        "tasks": ", ".join(card.tasks),
        "cost": card.cost,
        "use it when": card.when,
        "paper": card.paper,
    }
    lines = [f"  {key}: {text}" for key, text in parts.items() if text]
    own = own_settings(card)
    usual = [key for key in SHARED if key not in (each for each, _, _ in own)]
    lines += ["  settings:", *(f"    {key} = {_value(value)}{why}" for key, value, why in own)]
    lines += [f"    {key} = {_value(card.settings[key])}" for key in usual if key in card.settings]
    return "\n".join([f"Strategy {name}: {card.idea}", *lines])


def settings_of(settings: dict[str, object]) -> str:
    """Settings and their defaults, a line each."""
    if not settings:
        return ""
    shown = [f"    {key} = {_value(value)}" for key, value in settings.items()]
    return "\n" + "\n".join(["  settings:", *shown])


def _value(value: object) -> str:
    if value is None:
        return "none"
    return "(required)" if value is inspect.Parameter.empty else repr(value)
