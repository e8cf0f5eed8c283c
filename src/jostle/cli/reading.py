"""`jostle report` and `jostle compare`: what came out of runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from jostle.cli import options

if TYPE_CHECKING:
    from PIL import Image

    from jostle.report.page import Show

Folder = Annotated[Path, typer.Argument(help="A folder that `jostle run` wrote, such as runs/mnist.")]
Folders = Annotated[list[Path], typer.Argument(help="Two or more folders that `jostle run` wrote.")]
MetricName = Annotated[
    str | None,
    typer.Option(help="Judge by this metric, such as accuracy, macro_f1, mae, rmse, published, miou."),
]


def report(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: FOLDER/report.")] = None,
    baseline: Annotated[str, typer.Option(help="Labels saved are counted against this strategy.")] = "random",
    reference: Annotated[
        str | None, typer.Option(help="Paired differences are taken to this strategy. Default: the baseline.")
    ] = None,
    metric: MetricName = None,
    levels: Annotated[
        str | None,
        typer.Option(help="Values of the metric to reach, by comma; in percent where it is a share."),
    ] = None,
    data: options.DataRoot = None,
    gallery: Annotated[
        bool, typer.Option("--gallery/--no-gallery", help="Show what each strategy picked first.")
    ] = True,
) -> None:
    """Write report.html with tables (Markdown, LaTeX, CSV) and figures (PNG, SVG), and print the AUBC table."""
    from jostle.cli.screen import print_table
    from jostle.report.report import write_report
    from jostle.results.curves import load
    from jostle.results.summary import aubc_table

    check_runs(folder)
    wanted = levels_of(levels)
    results = load(folder)
    show = gallery_of(results.manifest, data) if gallery else None
    page = write_report(results, out, baseline, reference, show, metric=metric, levels=wanted)
    print_table(aubc_table(results, results.metric(metric)))
    Console(stderr=True).print(f"Report: {page}", markup=False, highlight=False, soft_wrap=True)


def compare(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Folder for the page.")] = Path("compare"),
    metric: MetricName = None,
) -> None:
    """Set runs side by side in compare.html: curves, AUBC, and in what their protocols differ."""
    from jostle.cli.screen import print_table
    from jostle.report.comparison import load_all, shared_metric, write_comparison
    from jostle.results.side_by_side import compare_table

    for folder in folders:
        check_runs(folder)
    runs = load_all(folders)
    page = write_comparison(runs, out, metric=metric)
    print_table(compare_table(runs, shared_metric(runs, metric)))
    Console(stderr=True).print(f"Comparison: {page}", markup=False, highlight=False, soft_wrap=True)


def check_runs(folder: Path) -> None:
    """Refuse a folder that `jostle run` did not write."""
    if not (folder / "manifest.json").is_file():
        why = "it has no manifest.json" if folder.is_dir() else "there is no such folder"
        raise ValueError(f"{folder} is not a folder of jostle run: {why}")


def levels_of(words: str | None) -> list[float] | None:
    """The numbers of `--levels 80,90`."""
    if words is None:
        return None
    try:
        return [float(word) for word in words.split(",")]
    except ValueError:
        raise ValueError(f"--levels takes numbers by comma, such as 80,90; got {words!r}") from None


def gallery_of(manifest: Mapping[str, Any], root: Path | None) -> Show | None:
    """Examples of the runs' data by their ids; None, with a word about it, where the data is not at hand."""
    named = dict(manifest.get("protocol", {}).get("dataset", {}))
    if not named:
        return None
    from jostle import datasets

    try:
        data = datasets.load(named.pop("use"), root, **named)
        check_unchanged(data.checksums, manifest.get("data", {}))
    except (ValueError, OSError, ImportError) as reason:
        Console(stderr=True).print(f"No gallery: {reason}", markup=False, highlight=False, soft_wrap=True)
        return None

    def show(position: int) -> Image.Image | str:
        try:
            return data.preview(position)
        except datasets.DataError as gone:  # one file of many: its place says so
            return str(gone)

    return show


def check_unchanged(found: Mapping[str, str], recorded: Mapping[str, str]) -> None:
    """Refuse data that is not what the runs read: its examples would be other ones."""
    shown = {
        name: checksum for name, checksum in found.items() if name not in ("test inputs", "test targets")
    }
    changed = [name for name, checksum in shown.items() if recorded.get(name, checksum) != checksum]
    if changed:
        raise ValueError(f"{changed[0]} is not what the runs read; it has changed since")
