"""`jostle report` and `jostle compare`: what came out of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jostle.cli import options
from jostle.cli.console import print_table, say

Folder = Annotated[
    Path,
    typer.Argument(
        help="A folder that `jostle run` wrote, such as runs/mnist, or such a folder packed (.tar.xz)."
    ),
]
Folders = Annotated[
    list[Path],
    typer.Argument(help="Two or more folders that `jostle run` wrote, or such folders packed (.tar.xz)."),
]
SHOWN_COLUMNS = (
    "strategy",
    "rank",
    "error less, %",
    "labels saved, %",
    "worst, %",
    "ahead : behind",
    "p, sets",
)
MetricName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Judge by this metric, such as accuracy, macro_f1, mae, rmse, published, miou. Default: the task's main "
        "metric.",
    ),
]


def report(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out-dir", callback=options.named, metavar="DIR", help="Where to write. Default: FOLDER/report."
        ),
    ] = None,
    baseline: Annotated[
        str, typer.Option(metavar="LABEL", help="Gains and saved labels are counted against this strategy.")
    ] = "random",
    metric: MetricName = None,
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Count the labels needed to reach these values of the metric, by comma; in percent where it is a "
            "share. Default: levels between the first and the last point.",
        ),
    ] = None,
    gallery: Annotated[
        bool, typer.Option("--gallery/--no-gallery", help="Show what each strategy picked first.")
    ] = True,
) -> None:
    """Write report.html with tables (Markdown, LaTeX, CSV) and figures (PNG, SVG), and print the AUBC table.

    Examples:
        jostle report runs/digits
        jostle report runs/digits --baseline margin --goal 80,90
        jostle report results/mnist.tar.xz --metric macro_f1 --out-dir page
    """
    from jostle.experiments.report.report import write_report
    from jostle.experiments.results.curves import load
    from jostle.experiments.results.summary import aubc_table

    check_runs(folder)
    goals = parse_goals(goal)
    results = load(folder)
    page = write_report(results, out, baseline, metric=metric, goals=goals, gallery=gallery)
    print_table(aubc_table(results, results.metric(metric)))
    say(f"Report: {page}")


def compare(
    folders: Folders,
    out: Annotated[
        Path, typer.Option("--out-dir", callback=options.named, metavar="DIR", help="Folder for the page.")
    ] = Path("compare"),
    metric: MetricName = None,
    baseline: Annotated[
        str, typer.Option(metavar="LABEL", help="Gains and saved labels are counted against this strategy.")
    ] = "random",
) -> None:
    """Judge strategies over several folders of runs: ranks, gains, wins, worst cases; compare.html and a table.

    Examples:
        jostle compare runs/digits runs/mnist
        jostle compare runs/* --baseline default
        jostle compare results/arena-*.tar.xz --out-dir page
    """
    from jostle.experiments.report.comparison import load_all, write_comparison
    from jostle.experiments.results.across import Across, overview_table

    across = Across.of(load_all(folders_of_runs(folders)), metric, baseline)
    page = write_comparison(across, out)
    print_table(overview_table(across).only(SHOWN_COLUMNS))
    say(f"Comparison: {page}")


def folders_of_runs(given: list[Path]) -> list[Path]:
    """The folders among what a pattern such as `results/*` gave; files beside them are left out with a word."""
    from jostle.experiments.results.store import PACKED

    others = [path for path in given if path.is_file() and not path.name.endswith(PACKED)]
    for file in others:
        say(f"left out {file}: it is neither a folder nor a {PACKED} file of runs")
    kept = [path for path in given if path not in others]
    for path in kept:
        check_runs(path)
    return kept


def check_runs(folder: Path) -> None:
    """Refuse a folder that `jostle run` did not write."""
    if not folder.is_file() and not (folder / "manifest.json").is_file():
        why = "it has no manifest.json" if folder.is_dir() else "there is no such folder"
        raise ValueError(f"{folder} is not a folder of jostle run: {why}")


def parse_goals(words: str | None) -> list[float] | None:
    """Numbers of `--goal 80,90`, or `80%,90%`."""
    if words is None:
        return None
    try:
        return [float(word.strip().removesuffix("%")) for word in words.split(",")]
    except ValueError:
        raise ValueError(f"--goal takes numbers by comma, such as 80,90; got {words!r}") from None
