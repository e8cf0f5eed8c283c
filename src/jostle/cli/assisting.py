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


Suggest = Annotated[
    str | None,
    typer.Option(
        "--suggest",
        rich_help_panel=HELP,
        metavar="SPEC",
        help="Suggestions of another model: predictions (.csv, .parquet, .json), file.py:function, or the address of "
        "an OpenAI-compatible server, with its key in JOSTLE_SUGGEST_KEY. none: no suggestions.",
    ),
]
SuggestModel = Annotated[
    str | None,
    typer.Option("--suggest-model", rich_help_panel=HELP, metavar="NAME", help="The model at that address."),
]
SuggestLimit = Annotated[
    int | None,
    typer.Option(
        "--suggest-limit",
        min=1,
        rich_help_panel=HELP,
        help="The most calls to that address, over all starts of the project. Default: 1000.",
    ),
]


def help_settings(
    guide: str | None, suggest: str | None, model: str | None, limit: int | None
) -> dict[str, Any]:
    """Return the settings of these options, checked before a project is begun."""
    from jostle.labeling.guide import check_guide
    from jostle.labeling.training.suggesters import check_suggest

    return {
        "guide": None if guide is None else check_guide(guide),
        "suggest": None if suggest is None else check_suggest(suggest, model),
        "suggest_model": model,
        "suggest_limit": limit,
    }


def check_files(session: Session) -> None:
    """Raise ValueError if a file of predictions has no columns that can be used."""
    from jostle.labeling.training.suggesters import check_columns

    check_columns(session)


def announce_help(session: Session) -> None:
    """Print what the author of the guide should mend, and where examples are sent."""
    from jostle.labeling.guide import GuideReader
    from jostle.labeling.http_client import is_remote
    from jostle.labeling.training.suggesters import DEFAULT_LIMIT

    chosen = session.settings
    for problem in GuideReader(session).get().problems:
        say(f"{Path(str(chosen.guide)).name}: {problem}")
    if is_remote(chosen.suggest):
        plain = " The connection is not encrypted." if str(chosen.suggest).startswith("http:") else ""
        calls = f"at most {chosen.suggest_limit or DEFAULT_LIMIT:,} calls"
        say(f"Examples are sent to {chosen.suggest} for suggestions, {calls}.{plain}")
