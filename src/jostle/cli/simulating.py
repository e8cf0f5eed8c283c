"""`jostle label --simulate`: labeling without people, against random picks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.simulation import Measurement, Need, Study


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
