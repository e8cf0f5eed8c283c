"""`jostle label audit`: any model, scored on the audit of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jostle.cli import labeling
from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.scoring import Score
    from jostle.statistics import Interval


def audit(
    file: Annotated[
        Path,
        typer.Argument(
            help="Predictions of a model: .csv, .parquet or .json with name, prediction and, if known, chance."
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Predictions of a second model to compare with. Default: the project's model.",
        ),
    ] = None,
    project: labeling.Project = None,
    db: labeling.Database = None,
) -> None:
    """Score any model on the audited answers of a project, and compare it with a second one.

    The audit is a random sample of the examples that were never picked. A model that was trained on
    audit answers cannot be scored by them: `jostle label export` leaves them out.
    Each scored model is recorded, so that the bounds of all of them hold together.

    Examples:
        jostle label audit predictions.csv
        jostle label audit predictions.csv --project photos.labels
        jostle label audit large.csv --against small.csv
    """
    from jostle.labeling import scoring

    session = labeling.LabelOptions(None, project=project, db=db).open_session()
    for path in (file, against):
        if path is not None and not path.is_file():
            raise ValueError(f"{path} does not exist: name a .csv, .parquet or .json of predictions")
    found = scoring.read_predictions(session, file)
    print_score(scoring.score(session, found, file.name), file.name)
    other = session.predictions() if against is None else scoring.read_predictions(session, against)
    if other is not None:
        name = (
            f"the project's model (round {session.store.last_model()})" if against is None else against.name
        )
        gap = scoring.compare(session, found, other, f"{file.name} against {name}")
        print_difference(gap, file.name, name, session.kind == "number")
    session.close()


def print_score(found: Score, name: str) -> None:
    """Print a score, the lower bound first."""
    from jostle.labeling.stopping import percent

    accuracy = found.accuracy
    print(f"{name} on {accuracy.audited} audited of {accuracy.population:,} examples that were never picked")
    sure = f"with {percent(accuracy.confidence, 0)} confidence over all looks (this is look {found.look})"
    if accuracy.measure == "mean error":
        print(f"mean error at most {accuracy.high:.4g}, about {accuracy.estimate:.4g}, {sure}")
    else:
        assert accuracy.estimate is not None
        print(f"at least {percent(accuracy.low)} right, about {percent(accuracy.estimate)}, {sure}")
    if found.picked and found.picked_right is not None:
        share = percent(found.picked_right / found.picked)
        print(
            f"of the {found.picked:,} picked examples {found.picked_right:,} right ({share}); they are harder"
        )
    if accuracy.goal is not None:
        print("the goal is proven" if accuracy.reached else "the goal is not proven")
    for label, quality in found.classes.items():
        parts = [
            f"{word} at least {percent(inside.low)}"
            for word, inside in (("precision", quality.precision), ("recall", quality.recall))
            if inside is not None
        ]
        if parts:
            print(f"  {label}: {', '.join(parts)} (each bound by itself)")
    say("A model that was trained on audit answers cannot be scored by them.")


def print_difference(gap: Interval, first: str, second: str, number: bool) -> None:
    """Print how much better the first model is, with its interval."""
    scale, unit = (1.0, "") if number else (100.0, " points")
    what = "smaller mean error" if number else "more right"
    low, high = scale * gap.low, scale * gap.high
    verdict = "better" if gap.low > 0 else "worse" if gap.high < 0 else "not significantly different"
    print(f"{first} against {second}: {low:+.3g} to {high:+.3g}{unit} {what} ({verdict})")
