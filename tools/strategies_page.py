"""docs/strategies.md, written from the catalogue: `python -m tools.strategies_page docs/strategies.md`."""

import sys
from pathlib import Path

from jostle.advice import record
from jostle.strategies.cards import default_as_code, own_settings
from jostle.strategies.catalogue import Entry, describe, names

TOP = """# Strategies

Written from the catalogue by `make docs`; `jostle list strategies` prints the same in short.
Every strategy takes the same call, `jostle.select(name, model, pool, n=..., labeled=..., seed=...)`, with its settings
as further keywords. All of them share `head` (the layer whose input is the feature; found by itself) and `outputs` (a
function from what the model returns to its output tensor), and those that have rows `selector` (how rows become picks).

| needs | which is |
|---|---|
| weights | the model itself, which is jolted, looked into or trained along |
| probabilities, features | a classifier's outputs; the input of its last layer. [Arrays](scikit-learn.md) will do |
| labelled set | `labeled=`, a dataset of (x, y) |
| dropout | dropout layers in the model, or `insert_dropout=` |
| extra training | time: something is trained beside the model |
| images | inputs that are images |

"In the arena" says how a strategy did beside random picking on real data of many kinds ([arena.md](arena.md)).
"""


def page() -> str:
    """The whole page: a table to choose from, then a section for each strategy."""
    every = [describe(name) for name in names()]
    table = ["| name | needs | tasks | cost |", "|---|---|---|---|"]
    table += [f"| [{e.name}](#{e.name}) | {words(e.needs)} | {words(e.tasks)} | {e.cost} |" for e in every]
    return "\n".join([TOP, *table, "", *map(section, every)])


def section(entry: Entry) -> str:
    """One strategy."""
    lines = [f"## {entry.name}", "", entry.idea, ""]
    facts = {
        "Formula": f"`{entry.formula}`" if entry.formula else "",
        "Needs": words(entry.needs),
        "Tasks": words(entry.tasks),
        "Cost": entry.cost,
        "Reference": entry.paper,
        "When": entry.when,
        "In the [arena](arena.md)": record(entry.name),
    }
    lines += [f"- **{title}:** {fact}" for title, fact in facts.items() if fact]
    lines += [f"- **{name}** = `{default_as_code(value)}`{why}" for name, value, why in own_settings(entry)]
    return "\n".join([*lines, ""])


def words(items: tuple[str, ...]) -> str:
    """A list in words."""
    return ", ".join(items) or "nothing"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
