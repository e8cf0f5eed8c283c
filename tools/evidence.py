"""Tables and figures of a page, made from the raw results: `python -m tools.evidence docs/research/results.md`.

A block from `<!-- aubc results/mnist accuracy -->` to `<!-- end -->` holds that table of the runs in
`results/mnist.tar.xz`, or the link to that figure, which is drawn into `docs/figures`. The paper's own numbers stand in
`results/paper.toml`. Several experiments, `results/arena-*`, are judged together by the strategies that all of them
have, against random or `baseline=default`. `make bench-scale` records `results/scale.json`. `tools/confirmation.py` has
the blocks of the default and its confirmation, `tools/guide_page.py` those that `jostle advise` reads, and
`tools/conditions.py` those of harder conditions, a row for each word, and of the ceiling.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jostle.experiments import figures, statistics
from jostle.experiments.across import Across, overview_table
from jostle.experiments.page import svg
from jostle.experiments.report import YARDSTICK, varied_setting
from jostle.experiments.results import Results, load
from jostle.experiments.statistics import average_ranks, times
from jostle.experiments.store import PACKED, experiment_name
from jostle.experiments.tables import Table, aubc_table, gain_table, over, ratio_table
from jostle.utils.names import look_up
from tools import conditions, confirmation, guide_page, scale_page
from tools.extrapolation import full_cycle

BLOCK = re.compile(r"(<!-- (\w+) (results/\S+)((?: \S+)*) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CATALOG = ("strategy", "rank", "error less, %", "worst, %", "where", "ahead : behind", "p, runs", "passes")
Paper = Mapping[str, Any]  # of one protocol: what -> label -> number


@dataclass(frozen=True)
class Evidence:
    """A page with every block made anew, and the figures that it shows."""

    page: str
    figures: Mapping[str, str]  # file name -> SVG


def load_once(path: Path) -> Results:
    """Load an experiment, or return it as it was loaded before if its file has not changed since."""
    return _load_at(path, path.stat().st_mtime_ns)


@cache
def _load_at(path: Path, changed: int) -> Results:
    return load(path)


def gathered(page: str, root: Path) -> Evidence:
    """Make every block of the page from the raw results below `root`."""
    printed = tomllib.loads((root / "results" / "paper.toml").read_text())
    drawn: dict[str, str] = {}

    def made(found: re.Match[str]) -> str:
        opening, kind, folder, rest, body, closing = found.groups()
        if "<!--" in body:
            raise ValueError(f"the block {opening.strip()} has no <!-- end --> before the next one begins")
        if kind in scale_page.BLOCKS:
            record = json.loads((root / folder).read_text())
            return f"{opening}{scale_page.BLOCKS[kind](record)}{closing}"
        if kind == "guide_table":
            return f"{opening}{guide_page.table()}{closing}"
        if kind == "guide_figure":
            drawn["guide.svg"] = svg(guide_page.figure())
            alt = "Random's error that five strategies take away, by kind of data"
            return f"{opening}![{alt}]({rest.strip()}/guide.svg)\n{closing}"
        if kind in confirmation.BLOCKS:
            paths = sorted(root.glob(folder + PACKED), key=experiment_name)
            settings = [confirmation.read(load_once(path)) for path in paths]
            return f"{opening}{confirmation.BLOCKS[kind](settings)}{closing}"
        if kind == "conditions":
            judgments = [judged([word]) for word in [folder, *rest.split()]]
            return f"{opening}{without_legend(conditions.conditions_table(judgments))}{closing}"
        if kind in (*TABLES_ACROSS, *FIGURES_ACROSS):
            return f"{opening}{together(kind, [folder, *rest.split()])}{closing}"
        results = load_once(root / (folder + PACKED))
        if kind in FIGURES:
            name = "-".join([results.name, kind, *rest.split()]) + ".svg"
            drawn[name] = svg(FIGURES[kind](results, *rest.split()))
            return f"{opening}![{results.name}: {kind}](../figures/{name})\n{closing}"
        table = look_up("block", kind, TABLES)(results, printed.get(results.name, {}), *rest.split())
        return f"{opening}{without_legend(table)}{closing}"

    def judged(words: list[str]) -> Across:
        paths = [path for word in words if "=" not in word for path in root.glob(word + PACKED)]
        settings = dict(word.split("=") for word in words if "=" in word)
        runs = {experiment_name(path): load_once(path) for path in sorted(paths, key=experiment_name)}
        return shared(Across.of(runs, **settings))

    def together(kind: str, words: list[str]) -> str:
        across = judged(words)
        if kind in TABLES_ACROSS:
            return without_legend(TABLES_ACROSS[kind](across))
        drawn[f"{kind}.svg"] = svg(FIGURES_ACROSS[kind](across))
        return f"![{kind}](../figures/{kind}.svg)\n"

    return Evidence(BLOCK.sub(made, page), drawn)


def without_legend(table: Table) -> str:
    """Return a table as Markdown; a page explains its tables once."""
    return replace(table, note="").markdown()


def areas(results: Results, paper: Paper, metric: str) -> Table:
    """AUBC and ranks, beside what the paper prints; its ranks are among its own strategies, and so are ours there."""
    table = aubc_table(results, metric)
    if "aubc" not in paper:
        return table
    shared = results.only([label for label in results.labels if label in paper["aubc"]])
    table = table.beside("AUBC in the paper", paper["aubc"])
    if "rank" in paper:
        table = table.beside("rank among the paper's", average_ranks(shared, metric))
        table = table.beside("rank in the paper", paper["rank"])
    return table


def gains(results: Results, paper: Paper, metric: str, reference: str = "random") -> Table:
    """Paired gains over a reference."""
    return gain_table(results, metric, reference, statistics.gains(results, metric, reference))


def ratios(results: Results, paper: Paper, reference: str = YARDSTICK) -> Table:
    """Selection times over the reference's as they were run, and of a full-size cycle beside the paper's."""
    table = ratio_table(results, times(results), reference)
    minutes = paper.get("minutes")
    if not minutes:
        return table
    cycles = over(full_cycle(results), reference)
    return table.beside("full cycle", cycles).beside("in the paper", over(minutes, reference))


def setting(results: Results, metric: str) -> Figure:
    """The figure of the one setting in which the runs differ."""
    varied = varied_setting(results.protocol["strategies"], results.labels)
    return figures.setting_dots(results, metric, *varied)


def shared(across: Across) -> Across:
    """Return runs of the strategies that all folders have."""
    runs = {name: results.only(across.everywhere) for name, results in across.runs.items()}
    return replace(across, runs=runs)


def gain_map(across: Across) -> Figure:
    """What each strategy gains in each setting."""
    labels = [label for label in across.labels if label != across.baseline]
    found = [[100 * across.gains(label).get(name, np.nan) for name in across.runs] for label in labels]
    return figures.gain_map(labels, [name.removeprefix("arena-") for name in across.runs], np.array(found))


def rank_diagram(across: Across) -> Figure:
    """Draw average ranks, and join strategies that are not significantly different."""
    return figures.rank_diagram(
        across.average_ranks, across.critical_difference, across.cliques, across.labels
    )


TABLES: dict[str, Callable[..., Table]] = {"aubc": areas, "gains": gains, "ratios": ratios}
TABLES_ACROSS: dict[str, Callable[[Across], Table]] = {
    "overview": overview_table,
    "catalog": lambda across: overview_table(across).only(CATALOG),
    "ceiling": conditions.ceiling_table,
}
FIGURES_ACROSS: dict[str, Callable[[Across], Figure]] = {"arena_ranks": rank_diagram, "arena_gains": gain_map}
FIGURES: dict[str, Callable[..., Figure]] = {"curves": figures.learning_curves, "setting": setting}


def main(page: Path) -> None:
    """Write the page and its figures."""
    root = next(folder for folder in page.resolve().parents if (folder / "results" / "paper.toml").is_file())
    evidence = gathered(page.read_text(), root)
    page.write_text(evidence.page)
    for name, drawing in evidence.figures.items():
        (root / "docs" / "figures" / name).write_text(drawing)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
