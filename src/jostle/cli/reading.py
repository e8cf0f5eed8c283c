"""`jostle report` and `jostle compare`: what came out of runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jostle.cli import options
from jostle.cli.console import print_table, say

if TYPE_CHECKING:
    from jostle.datasets import Data
    from jostle.experiments.results.curves import Results
    from jostle.experiments.results.previews import Preview

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
    data: options.DataRoot = None,
    gallery: Annotated[
        bool, typer.Option("--gallery/--no-gallery", help="Show what each strategy picked first.")
    ] = True,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="For the gallery, run the file.py and read the files that the folder's manifest names.",
        ),
    ] = False,
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
    previews, why_not = previews_of(results, data, trust) if gallery else ({}, "")
    gaps = [f"Pictures of some picks are missing: {why_not}."] if why_not else []
    page = write_report(results, out, baseline, previews=previews, metric=metric, goals=goals, warnings=gaps)
    print_table(aubc_table(results, results.metric(metric)))
    for line in (*gaps, f"Report: {page}"):
        say(line)


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
    from jostle.experiments.results.across import Across
    from jostle.experiments.results.across_tables import overview_table

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


def previews_of(results: Results, root: Path | None, trust: bool) -> tuple[dict[int, Preview], str]:
    """What strategies picked first, as the runs keep it or else as the data has it; and why some is missing."""
    from jostle.datasets import MissingDataError
    from jostle.experiments.report.report import first_picks

    kept = dict(results.previews)
    ids = {example for picks in first_picks(results).values() for example in picks}
    if not (missing := ids - kept.keys()):
        return kept, ""
    try:
        data = data_of(results.manifest, root, trust)
    except MissingDataError as reason:
        say(f"No data for pictures: {reason}")
        return kept, "the data was not at hand"
    except (ValueError, OSError, ImportError) as reason:
        return kept, str(reason)
    return kept | {example: preview_in(data, example) for example in missing}, ""


def data_of(manifest: Mapping[str, Any], root: Path | None, trust: bool) -> Data:
    """The data of runs, if it is at hand and unchanged; nobody else's code or files are touched without `trust`."""
    from jostle import datasets
    from jostle.datasets.fetch import no_downloads

    named = dict(manifest.get("protocol", {}).get("dataset", {}))
    use = str(named.pop("use", ""))
    if use not in datasets.names() and not trust:
        raise ValueError(
            f"the data is {use or 'not named'}: --trust reads such files, or runs such code, where the runs are yours"
        )
    with no_downloads():
        data = datasets.load(use, root, **named)
    check_unchanged(data.checksums, manifest.get("data", {}))
    return data


def preview_in(data: Data, example: int) -> Preview:
    """An example of the data; of one that is lost, why."""
    from jostle.datasets import DataError
    from jostle.experiments.results.previews import Preview, preview_of

    try:
        return preview_of(data.preview(example))
    except DataError as gone:  # one file of many
        return Preview(text=str(gone))


def check_unchanged(found: Mapping[str, str], recorded: Mapping[str, str]) -> None:
    """Refuse data that is not what the runs read: its examples would be other ones."""
    shown = {
        name: checksum for name, checksum in found.items() if name not in ("test inputs", "test targets")
    }
    changed = [name for name, checksum in shown.items() if recorded.get(name, checksum) != checksum]
    if changed:
        raise ValueError(f"{changed[0]} is not what the runs read; it has changed since")
