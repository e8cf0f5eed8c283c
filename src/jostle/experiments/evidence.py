"""docs/results.md, whose tables are made from the raw results beside it: `python -m jostle.experiments.evidence`.

A block between `<!-- aubc results/mnist accuracy -->` and `<!-- end -->` is that table of that folder's runs.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from jostle.experiments.curves import Results, load
from jostle.experiments.summary import aubc_table, gain_table, time_table
from jostle.experiments.tables import Table
from jostle.names import look_up

TABLES: dict[str, Callable[[Results, str], Table]] = {
    "aubc": aubc_table,
    "gains": lambda results, metric: gain_table(results, metric, "random"),
    "times": lambda results, metric: time_table(results),
}
BLOCK = re.compile(r"(<!-- (\S+) (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str, root: Path) -> str:
    """The page with every marked table as the raw results below `root` give it."""

    def table(found: re.Match[str]) -> str:
        opening, kind, folder, metric, closing = found.groups()
        made = look_up("table", kind, TABLES)(load(root / folder), metric)
        return f"{opening}{made.markdown()}{closing}"

    return BLOCK.sub(table, page)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(filled(target.read_text(), target.parent.parent))
