"""Subcommands of `jostle label`: labels out of a project and into one, who may answer, and labeling without people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from jostle.cli import labeling, options, serving
from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.audit.other_models import Score
    from jostle.labeling.simulation import Measurement, Need, Study
    from jostle.statistics import Interval


MAX_SHOWN = 5  # names that a message lists


def export(
    file: Annotated[
        Path,
        typer.Argument(
            callback=options.named,
            help="Where to write: .csv, .parquet, .json, coco.json, labelstudio.json, or a folder for pictures by "
            "class.",
        ),
    ],
    asked: options.ExportOptions,
) -> None:
    """Write the labels of a project to a file, or its pictures into a folder for each class.

    Examples:
        jostle label export labels.csv --predictions --project photos.labels
        jostle label export reviews-labeled.csv --format table
        jostle label export sorted --copy
    """
    from jostle.labeling.export import count_audited, export

    session = labeling.ProjectOptions(project=asked.project, db=asked.db).open_session(None)
    left_out = 0 if asked.with_audit else count_audited(session)
    note = f" ({left_out} audit answers left out; --with-audit adds them)" if left_out else ""
    count = export(
        session, file, format=asked.format, predictions=asked.predictions, with_audit=asked.with_audit,
        overwrite=asked.overwrite, means="copy" if asked.copy else "link",
    )  # fmt: skip
    linked = any(path.is_symlink() for path in file.rglob("*")) if file.is_dir() else False
    how = " (links to the originals, which --copy would copy)" if linked else ""
    say(f"{count} examples: {file}{how}{note}")


def import_labels(
    file: Annotated[
        Path,
        typer.Argument(
            help="Labels made elsewhere: .csv, .parquet, .json, or a folder that an export can be."
        ),
    ],
    asked: labeling.ProjectOptions,
    data: options.Data = None,
    format: options.Format = None,
    add_classes: options.AddClasses = False,
) -> None:
    """Add labels that were made elsewhere to a project; with DATA, begin one.

    They train the model and are not part of the audit.

    Examples:
        jostle label import old.csv
        jostle label import old.csv photos/ --classes cat,dog,other
        jostle label import old.csv --project photos.labels --add-classes
    """
    from jostle.labeling.export import import_labels, source_format

    source_format(file, format)  # before a project is begun
    session = asked.open_session(data, add_classes=add_classes)
    found = import_labels(session, file, format=format, add_classes=add_classes)
    say(f"{found.entered} new labels from {file}")
    if found.unknown:
        shown = ", ".join(found.unknown[:MAX_SHOWN]) + (", ..." if len(found.unknown) > MAX_SHOWN else "")
        say(f"{len(found.unknown)} are of no example here: {shown}")
    if found.empty:
        say(f"{found.empty} rows had no answer.")


def audit(
    file: Annotated[
        Path,
        typer.Argument(
            help="Predictions of a model: .csv, .parquet or .json with name, prediction and, if known, chance."
        ),
    ],
    asked: options.AuditOptions,
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
    from jostle.labeling.audit import other_models

    session = labeling.ProjectOptions(project=asked.project, db=asked.db).open_session(None)
    against = asked.against
    for path in (file, against):
        if path is not None and not path.is_file():
            raise ValueError(f"{path} does not exist: name a .csv, .parquet or .json of predictions")
    found = other_models.read_predictions(session, file)
    print_score(other_models.score(session, found, file.name), file.name)
    other = session.predictions() if against is None else other_models.read_predictions(session, against)
    if other is not None:
        name = against.name if against else f"the project's model (round {session.store.last_model()})"
        gap = other_models.compare(session, found, other, f"{file.name} against {name}")
        print_difference(gap, file.name, name, session.kind == "number")
    session.close()


def print_score(found: Score, name: str) -> None:
    """Print a score, the lower bound first."""
    from jostle.labeling.answers import percent

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
        bounds = {"precision": quality.precision, "recall": quality.recall}
        parts = [f"{word} at least {percent(each.low)}" for word, each in bounds.items() if each is not None]
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


def people(
    action: Annotated[Literal["add", "list", "remove"], typer.Argument(help="add, list or remove.")],
    project: Annotated[
        str, typer.Argument(help="Folder of the project, or its name in the list of `jostle label`.")
    ],
    name: Annotated[str | None, typer.Argument(help="The person, to add or to remove.")] = None,
    *,
    asked: options.PersonOptions,
) -> None:
    """Give a person a token of their own for a project, list who has one, or withdraw it.

    A token is shown once. Whoever has it answers under that name, and a withdrawn one ends at once.

    Examples:
        jostle label people add photos.labels anna --role review
        jostle label people list photos.labels
        jostle label people remove photos.labels anna
    """
    serving.check_packages()
    from jostle.labeling.project import ADDRESS, DATABASE, ProjectEntry, find_project
    from jostle.labeling.server.security import add_person, list_people, remove_person
    from jostle.labeling.store import Store

    entry = find_project(project) if asked.db is None else ProjectEntry(project, project)
    store = Store(asked.db or entry.db or str(Path(entry.folder) / DATABASE))
    if action == "list":
        found = list_people(store)
        print("\n".join(f"{each.name}\t{each.role}" for each in found) or "nobody has a token of their own")
        return
    if name is None:
        raise ValueError(f"name the person: jostle label people {action} {project} anna")
    if action == "remove":
        remove_person(store, name)
        say(f"{name} can no longer open {project}; the answers stay.")
        return
    token, running = add_person(store, name, asked.role), Path(entry.folder) / ADDRESS
    say(f"The address of {name}, with a token that is shown this once:")
    address = running.read_text(encoding="utf-8") if running.exists() else f"http://127.0.0.1:{serving.PORT}/"
    print(f"{address.partition('?')[0]}?token={token}")


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
    asked: options.SimulationOptions,
    learning: options.LearningOptions,
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

    if asked.several and asked.numbers:
        raise ValueError("--several is for classes, --numbers for numbers: pass one of them")
    kind: AnswerKind = "number" if asked.numbers else "several" if asked.several else "one"
    values = [ANSWER_TYPES[kind].parse_goal(word) for word in labeling.names(asked.goal)]
    settings = labeling.learning_settings(learning) | {
        "text": labeling.names(asked.text) or None,
        "hide": (*labeling.names(asked.hide), column) if asked.hide else None,
    }
    opening = {name: value for name, value in settings.items() if value is not None}
    habits = Habits(asked.people, parse_share(asked.error, "--error"), asked.delay)
    study = Study(data, column, kind, asked.answers, asked.seeds, opening, habits)
    run_simulation(study, asked.out_dir or default_folder(data) / "simulation", values)


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
    """Return the results for other programs, with the share of audit intervals that held the test accuracy."""
    covered = [mark.low <= mark.value <= mark.high for mark in marks if mark.audit is not None]
    return {
        "study": study.identity(),
        "seeds": study.seeds,
        "needed": [
            {"value": need.value, "answers": dict(need.by_arm), "saved": need.saved_share()} for need in found
        ],
        "covered": sum(covered) / len(covered) if covered else None,  # None where nothing was audited
    }


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
