"""`jostle run`, `demo`, `report` and `compare`: experiments, and what came out of them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from jostle.cli import options
from jostle.cli.console import print_table, progress_display, say

if TYPE_CHECKING:
    from jostle.experiments import Plan, Protocol


Name = Annotated[str, typer.Argument(help="A protocol's name (see `jostle list protocols`) or a .toml file.")]


def run(protocol: Name, asked: options.RunOptions) -> None:
    """Run an experiment: strategies compared on the same seeds, from a protocol.

    Runs go to runs/NAME, one file for each strategy and seed. After an interruption the same command resumes. More
    seeds or strategies extend the runs that are there.

    Examples:
        jostle run digits --seeds 5
        jostle run mnist --strategies random,default,badge --jobs 2
        jostle run digits --dataset 'csv:rows.csv(target=kind)' --model mlp
    """
    from jostle.experiments import protocol as protocols
    from jostle.utils.names import parse_specs

    fields = {"dataset": asked.dataset, "model": asked.model, "fit": asked.fit}
    overrides = [f"{name}={value}" for name, value in fields.items() if value]
    overrides += [f'text.encoder="{asked.encoder}"'] if asked.encoder else []
    chosen = protocols.load(protocol, [*overrides, *(asked.set_ or ())])
    if asked.strategies is not None:
        chosen = chosen.chosen(parse_specs(asked.strategies))
    folder, seeds = asked.out or Path("runs") / chosen.name, seeds_of(asked.seeds, chosen)
    run_on_screen(chosen, folder, seeds, asked)


def demo(asked: options.DemoOptions) -> None:
    """See it work: five strategies on scikit-learn's digits, 3 seeds, a table and a report. Half a minute.

    Examples:
        jostle demo
        jostle demo --jobs 4
        jostle demo --out-dir /tmp/demo
    """
    from jostle.experiments import protocol as protocols
    from jostle.utils.names import parse_specs

    say(
        "A classifier of handwritten digits starts with 20 labels and asks for 20 more at a time.\n"
        "Which examples are worth labeling? Five strategies, 3 seeds each."
    )
    chosen = protocols.load("digits").chosen(parse_specs("default,noise-stability,badge,margin,random"))
    chosen = chosen.model_copy(update={"rounds": 4})  # 20 to 100 labels, where the curves differ most
    run_on_screen(chosen, asked.out, range(3), options.RunOptions(jobs=asked.jobs))


def seeds_of(words: str | None, chosen: Protocol) -> Sequence[int]:
    """`10` is the seeds 0 to 9, `3,5` those two, and a single seed is `3,`."""
    if words is None:
        return range(chosen.seeds)
    try:
        numbers = [int(word) for word in words.split(",") if word.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or numbers == [0]:
        raise ValueError(
            f"--seeds takes a number of seeds, such as 10, or a list, such as 3,5; got {words!r}"
        )
    return range(numbers[0]) if "," not in words else list(dict.fromkeys(numbers))


def run_on_screen(chosen: Protocol, folder: Path, seeds: Sequence[int], asked: options.RunOptions) -> None:
    """Run the experiment with a progress display, print its table, and list the runs that failed."""
    from jostle import engines
    from jostle.experiments import open_experiment

    console, cluster = Console(stderr=True, highlight=False, soft_wrap=True), engines.engine(asked.engine)
    command = ["jostle", *sys.argv[1:]]
    with open_experiment(
        chosen, folder, seeds, root=asked.data, device=asked.device, command=command
    ) as experiment:
        plan = experiment.plan
        stored = len(plan.done) - len(plan.missing)
        say(f"{chosen.name}: {len(plan.missing)} runs to do, {stored} done, in {folder}")
        with (
            closing(experiment.execute(asked.jobs, cluster)) as events,
            progress_display(console, plan, asked.jobs) as show,
        ):
            for event in events:
                show(event)
    if any(points >= plan.points for points in plan.done.values()):
        from jostle.experiments.report import write_report
        from jostle.experiments.results import load
        from jostle.experiments.tables import aubc_table

        results = load(folder)
        print_table(aubc_table(results, results.metric()))
        later = shlex.join(["jostle", "report", str(folder)])
        say(f"Report: {write_report(results) if asked.report else later}")
    if plan.failures:
        summarize(plan)
        raise typer.Exit(1)


def summarize(plan: Plan) -> None:
    """Say which runs failed and why."""
    say(f"{len(plan.failures)} of {len(plan.done)} runs failed; the same command runs them again:")
    for event in plan.failures:
        say(f"  {event.job}: {event.reason}")
        if "--debug" in sys.argv:
            say(event.trace)
    if "--debug" not in sys.argv:
        say("--debug shows the tracebacks")


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
    "strategy", "rank", "error less, %", "labels saved, %", "worst, %", "ahead : behind", "p, sets",
)  # fmt: skip


def report(folder: Folder, asked: options.ReportOptions) -> None:
    """Write report.html with tables (Markdown, LaTeX, CSV) and figures (PNG, SVG), and print the AUBC table.

    Examples:
        jostle report runs/digits
        jostle report runs/digits --baseline margin --goal 80,90
        jostle report results/mnist.tar.xz --metric macro_f1 --out-dir page
    """
    from jostle.experiments.report import write_report
    from jostle.experiments.results import load
    from jostle.experiments.tables import aubc_table

    check_runs(folder)
    goals = parse_goals(asked.goal)
    results = load(folder)
    page = write_report(
        results, asked.out, asked.baseline, metric=asked.metric, goals=goals, gallery=asked.gallery
    )
    print_table(aubc_table(results, results.metric(asked.metric)))
    say(f"Report: {page}")


def compare(folders: Folders, asked: options.CompareOptions) -> None:
    """Judge strategies over several folders of runs: ranks, gains, wins, worst cases; compare.html and a table.

    Examples:
        jostle compare runs/digits runs/mnist
        jostle compare runs/* --baseline default
        jostle compare results/arena-*.tar.xz --out-dir page
    """
    from jostle.experiments.across import Across, overview_table
    from jostle.experiments.comparison import load_all, write_comparison

    across = Across.of(load_all(folders_of_runs(folders)), asked.metric, asked.baseline)
    page = write_comparison(across, asked.out)
    print_table(overview_table(across).only(SHOWN_COLUMNS))
    say(f"Comparison: {page}")


def folders_of_runs(given: list[Path]) -> list[Path]:
    """The folders among what a pattern such as `results/*` gave; files beside them are left out with a word."""
    from jostle.experiments.store import PACKED

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
