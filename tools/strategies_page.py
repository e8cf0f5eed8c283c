"""The page of strategies, written from the registry: `python -m tools.strategies_page docs/reference/strategies.md`."""

import sys
from pathlib import Path

from jostle.advice import record
from jostle.strategies.registry import SHARED, Entry, describe, names

TOP = """# Strategies

`make docs` writes this page from the registry, and `jostle list strategies` prints a summary. To decide, read
[choose a strategy](../how-to/choose-a-strategy.md) first.

Every strategy has the same call, `jostle.select(name, model, pool, n=..., labeled=..., seed=...)`, with its settings as
keywords. All of them have `head` (the layer whose input is the feature; default: found) and `outputs` (a function from
what the model returns to its output tensor). Strategies with rows have `selector`, which picks among rows.

| needs | meaning |
|---|---|
| weights | the network itself, whose parameters are perturbed, read or trained |
| probabilities, features | a classifier's outputs; the input of its last layer; [arrays](../how-to/scikit-learn.md) |
| labeled set | `labeled=`, a dataset of (x, y) |
| dropout | dropout layers in the model, or `insert_dropout=` |
| extra training | time: a further model is trained |
| images | inputs that are images |

"In the benchmark" compares a strategy with random picks on real data ([benchmark](../research/benchmark.md)).
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
        "In the [benchmark](../research/benchmark.md)": record(entry.name),
    }
    lines += [f"- **{title}:** {fact}" for title, fact in facts.items() if fact]
    for name, value in entry.settings.items():
        if name not in SHARED or name in entry.fixed:
            why = f": {entry.docs[name]}" if name in entry.docs else ""
            lines.append(f"- **{name}** = `{getattr(value, '__name__', None) or repr(value)}`{why}")
    return "\n".join([*lines, ""])


def words(items: tuple[str, ...]) -> str:
    """A list in words."""
    return ", ".join(items) or "nothing"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
