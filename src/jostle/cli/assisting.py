"""Options of `jostle label` that help people decide: a guide, and suggestions of any model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.session import Session

HELP = "Help"  # group of options

GuideFile = Annotated[
    str | None,
    typer.Option(
        "--guide",
        rich_help_panel=HELP,
        metavar="FILE",
        help="Guidelines in Markdown beside the question; `## cat` begins what is said of a class. none: no guide.",
    ),
]


def help_settings(guide: str | None) -> dict[str, Any]:
    """Return the settings of these options, checked before a project is begun."""
    from jostle.labeling.guide import check_guide

    return {"guide": None if guide is None else check_guide(guide)}


def announce_help(session: Session) -> None:
    """Print what the author of the guide should mend."""
    from jostle.labeling.guide import GuideReader

    for problem in GuideReader(session).get().problems:
        say(f"{Path(str(session.settings.guide)).name}: {problem}")
