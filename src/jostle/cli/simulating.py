"""`jostle label --simulate`: labelling without people, against random picks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from jostle.cli.saying import say

if TYPE_CHECKING:
    from jostle.labelling.savings import Need
    from jostle.labelling.simulate import Mark, Study


def simulated(study: Study, out: Path, values: Sequence[float]) -> None:
    """Carry out a study, write what was learnt to `simulation.json`, and show it."""
    from jostle.labelling.savings import levels, needs
    from jostle.labelling.simulate import conduct_study
    from jostle.plumbing.files import write_whole

    marks = conduct_study(study, out, say)
    smaller = study.kind == "number"
    found = needs(marks, values or levels(marks), smaller)
    write_whole(out / "simulation.json", json.dumps(summary(study, marks, found), indent=1) + "\n")
    Console(soft_wrap=True).print(table(found, smaller))
    say(f"Every model of every run: {out}")


def summary(study: Study, marks: Sequence[Mark], found: Sequence[Need]) -> dict[str, object]:
    """What was learnt, for other programs."""
    return {
        "study": study.identity(),
        "seeds": study.seeds,
        "needed": [
            {"value": need.value, "answers": dict(need.by_arm), "saved": need.saved()} for need in found
        ],
        "covered": covered(marks),
    }


def covered(marks: Sequence[Mark]) -> float | None:
    """The share of models whose audit interval held what the test examples said; None where nothing was audited."""
    audited = [mark for mark in marks if mark.audit is not None]
    return sum(mark.low <= mark.value <= mark.high for mark in audited) / len(audited) if audited else None


def table(found: Sequence[Need], smaller: bool) -> Table:
    """Answers needed, the median over seeds."""
    shown = Table("mean error" if smaller else "accuracy", "answers, picked", "answers, random", "saved")
    for need in found:
        middles = [need.middle(arm) for arm in need.by_arm]
        saved = need.saved()
        value = f"{need.value:g}" if smaller else f"{need.value:.1%}"
        cells = ["not reached" if middle is None else f"{middle:.0f}" for middle in middles]
        shown.add_row(value, *cells, "" if saved is None else f"{saved:.0%}")
    return shown
