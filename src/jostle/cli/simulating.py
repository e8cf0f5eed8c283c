"""`jostle label simulate`: labeling without people, against random picks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from jostle.cli import labeling, options
from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.simulation import Measurement, Need, Study

PEOPLE, SIMULATION = "Simulated people", "Simulation"  # groups of options


def simulate(
    data: Annotated[
        str, typer.Argument(help="Labeled data: a folder by class, a .csv, a .parquet or file.py:name.")
    ],
    column: Annotated[
        str,
        typer.Argument(
            help="Column with the true answers; for a folder it is called folder, for file.py:name target."
        ),
    ],
    several: options.Several = False,
    numbers: Annotated[
        bool, options.option(options.ANSWERS, None, "Answers are numbers.", "--numbers")
    ] = False,
    text: options.Text = None,
    hide: options.Hide = None,
    answers: Annotated[int, options.option(SIMULATION, None, "Answers in each run.", min=1)] = 400,
    seeds: Annotated[
        int, options.option(SIMULATION, None, "Runs with the strategy, and at random.", min=1)
    ] = 5,
    goal: Annotated[
        str | None,
        options.option(
            SIMULATION,
            "LIST",
            "Count the answers needed to reach these accuracies, or mean errors of numbers, by comma. Default: "
            "four values that random picks reached.",
        ),
    ] = None,
    out_dir: Annotated[
        Path | None,
        options.option(
            SIMULATION,
            "DIR",
            "Folder of the results; the same command resumes there. Default: photos.labels/simulation for photos.",
            callback=options.named,
        ),
    ] = None,
    people: Annotated[int, options.option(PEOPLE, None, "People who take turns.", min=1)] = 1,
    error: Annotated[str, options.option(PEOPLE, "SHARE", "Share of wrong answers.")] = "0%",
    delay: Annotated[float, options.option(PEOPLE, None, "Mean seconds that an answer takes.", min=0)] = 0.0,
    strategy: options.StrategyName = None,
    round_size: options.RoundSize = None,
    audit: options.AuditShare = None,
    encoder: options.Encoder = None,
    model: options.Network = None,
    fit: options.Fit = None,
) -> None:
    """Label data whose answers are known, without people, and count the answers that picking saves.

    Examples:
        jostle label simulate photos/ folder
        jostle label simulate reviews.csv stars --text review --goal 85%,90%
        jostle label simulate houses.parquet price --numbers --seeds 10
    """
    from jostle.labeling.answer_types import ANSWER_TYPES
    from jostle.labeling.answers import AnswerKind, parse_share
    from jostle.labeling.project import default_folder
    from jostle.labeling.simulation import Habits, Study

    if several and numbers:
        raise ValueError("--several is for classes, --numbers for numbers: pass one of them")
    kind: AnswerKind = "number" if numbers else "several" if several else "one"
    values = [ANSWER_TYPES[kind].parse_goal(word) for word in labeling.names(goal)]
    settings: dict[str, Any] = {
        "strategy": None if strategy is None else labeling.check_strategy_name(strategy),
        "batch": round_size,
        "audit": None if audit is None else parse_share(audit, "--audit"),
        "encoder": encoder,
        "model": model,
        "fit": fit,
        "text": labeling.names(text) or None,
        "hide": (*labeling.names(hide), column) if hide else None,
    }
    opening = {name: value for name, value in settings.items() if value is not None}
    habits = Habits(people, parse_share(error, "--error"), delay)
    study = Study(data, column, kind, answers, seeds, opening, habits)
    run_simulation(study, out_dir or default_folder(data) / "simulation", values)


def run_simulation(study: Study, out: Path, values: Sequence[float]) -> None:
    """Run a study, write its results to `simulation.json`, and show them."""
    from jostle.labeling.simulation import answers_needed, run_study, target_values
    from jostle.utils.files import write_whole

    marks = run_study(study, out, say)
    smaller = study.kind == "number"
    found = answers_needed(marks, values or target_values(marks), smaller)
    write_whole(out / "simulation.json", json.dumps(summarize(study, marks, found), indent=1) + "\n")
    Console(soft_wrap=True).print(table(found, smaller))
    say(f"Every model of every run: {out}")


def summarize(study: Study, marks: Sequence[Measurement], found: Sequence[Need]) -> dict[str, object]:
    """Return the results for other programs."""
    return {
        "study": study.identity(),
        "seeds": study.seeds,
        "needed": [
            {"value": need.value, "answers": dict(need.by_arm), "saved": need.saved_share()} for need in found
        ],
        "covered": coverage(marks),
    }


def coverage(marks: Sequence[Measurement]) -> float | None:
    """Return the share of models whose audit interval held the test accuracy; None where nothing was audited."""
    audited = [mark for mark in marks if mark.audit is not None]
    return sum(mark.low <= mark.value <= mark.high for mark in audited) / len(audited) if audited else None


def table(found: Sequence[Need], smaller: bool) -> Table:
    """Return a table of the answers needed, the median over seeds."""
    shown = Table("mean error" if smaller else "accuracy", "answers, picked", "answers, random", "saved")
    for need in found:
        middles = [need.median(arm) for arm in need.by_arm]
        saved = need.saved_share()
        value = f"{need.value:g}" if smaller else f"{need.value:.1%}"
        cells = ["not reached" if middle is None else f"{middle:.0f}" for middle in middles]
        shown.add_row(value, *cells, "" if saved is None else f"{saved:.0%}")
    return shown
