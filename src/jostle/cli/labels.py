"""`jostle label export` and `jostle label import`: labels out of a project and into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jostle.cli import labeling, options
from jostle.cli.console import say

MAX_SHOWN = 5  # names that a message lists


Format = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="csv, parquet, json, table (your own .csv or .parquet with columns added), huggingface (.parquet or a "
        "folder), imagefolder, folders (by class), fiftyone, coco or labelstudio. Default: by the name or the content.",
    ),
]


def export(
    file: Annotated[
        Path,
        typer.Argument(
            callback=options.named,
            help="Where to write: .csv, .parquet, .json, coco.json, labelstudio.json, or a folder for pictures by "
            "class.",
        ),
    ],
    format: Format = None,
    predictions: Annotated[
        bool, typer.Option("--predictions", help="Also write the model's predictions for the rest.")
    ] = False,
    with_audit: Annotated[
        bool,
        typer.Option(
            "--with-audit",
            help="Also write the answers of the audit, marked as such. A model that is trained on them cannot be "
            "scored by them.",
        ),
    ] = False,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy pictures into a folder. Default: links.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write over a file that jostle did not write.")
    ] = False,
    project: labeling.Project = None,
    db: labeling.Database = None,
) -> None:
    """Write the labels of a project to a file, or its pictures into a folder for each class.

    Examples:
        jostle label export labels.csv
        jostle label export labels.csv --predictions --project photos.labels
        jostle label export reviews-labeled.csv --format table
        jostle label export saved --format huggingface
        jostle label export sorted --copy
    """
    from jostle.labeling.export import count_audited, export

    session = labeling.LabelOptions(None, project=project, db=db).open_session()
    left_out = 0 if with_audit else count_audited(session)
    note = f" ({left_out} audit answers left out; --with-audit adds them)" if left_out else ""
    count = export(
        session, file, format=format, predictions=predictions, with_audit=with_audit, overwrite=overwrite,
        means="copy" if copy else "link",
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
    data: labeling.Data = None,
    format: Format = None,
    classes: labeling.Classes = None,
    several: labeling.Several = False,
    target: labeling.Target = None,
    add_classes: labeling.AddClasses = False,
    text: labeling.Text = None,
    hide: labeling.Hide = None,
    project: labeling.Project = None,
    db: labeling.Database = None,
) -> None:
    """Add labels that were made elsewhere to a project; with DATA, begin one.

    They train the model and are not part of the audit.

    Examples:
        jostle label import old.csv
        jostle label import old.csv photos/ --classes cat,dog,other
        jostle label import old.csv --project photos.labels --add-classes
    """
    from jostle.labeling.formats import source_format
    from jostle.labeling.imports import import_labels

    source_format(file, format)  # before a project is begun
    asked = labeling.LabelOptions(
        data, classes, several, target, text, hide, project, db, add_classes=add_classes
    )
    found = import_labels(asked.open_session(), file, format=format, add_classes=add_classes)
    say(f"{found.entered} new labels from {file}")
    if found.unknown:
        shown = ", ".join(found.unknown[:MAX_SHOWN]) + (", ..." if len(found.unknown) > MAX_SHOWN else "")
        say(f"{len(found.unknown)} are of no example here: {shown}")
    if found.empty:
        say(f"{found.empty} rows had no answer.")
