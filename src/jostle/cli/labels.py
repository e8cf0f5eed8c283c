"""Labels out of a project and into one: `jostle label --export` and `--import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.session import Session

FEW = 5  # names that are shown of many


def export_to(session: Session, path: Path, predictions: bool, copy: bool, overwrite: bool) -> None:
    """Write the labels to a file, or pictures into folders by class where the name has no ending."""
    from jostle.labeling.label_files import export, export_folders

    if path.suffix:
        count = export(session, path, predictions=predictions, overwrite=overwrite)
        say(f"{count} examples: {path}")
        return
    if predictions:
        raise ValueError(f"--predictions are for files; {path} is a folder, for what people answered")
    count = export_folders(session, path, "copy" if copy else "link")
    how = "copies" if copy else "links to the originals, which --copy would copy"
    say(f"{count} pictures in folders by class ({how}): {path}")


def import_from(session: Session, path: Path, add: bool) -> None:
    """Import labels made elsewhere, and print what did not fit."""
    from jostle.labeling.label_files import import_labels

    if not path.is_file():
        raise ValueError(f"--import {path}: there is no such file")
    found = import_labels(session, path, add_classes=add)
    say(f"{found.entered} new labels from {path}")
    if found.unknown:
        shown = ", ".join(found.unknown[:FEW]) + (", ..." if len(found.unknown) > FEW else "")
        say(f"{len(found.unknown)} are of no example here: {shown}")
    if found.empty:
        say(f"{found.empty} rows had no answer.")
