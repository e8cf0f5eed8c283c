"""The command line: the only place that prints or parses words."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from jostle.cli import listing, picking, reading, running

app = typer.Typer(
    name="jostle",
    help="Pick the examples worth labelling: jostle the weights, label what moves.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(running.run)
app.command("report")(reading.report)
app.command("compare")(reading.compare)
app.command("pick")(picking.pick)
app.command("list")(listing.list_names)
app.command("show")(listing.show)
app.command("demo")(running.demo)

INTERRUPTED = 130  # the code that typer, too, gives to Ctrl-C
MISTAKES = (ValueError, TypeError, OSError, ImportError)  # what a user can set right


@app.callback()
def everywhere(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show Python's traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    """Pick the examples worth labelling: jostle the weights, label what moves."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; a user's mistake ends with code 2, a failed run with 1, Ctrl-C with 130."""
    words = sys.argv[1:] if arguments is None else arguments
    kept = [word for word in words if word != "--debug"]
    try:
        code = app(args=kept, prog_name="jostle", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if "--debug" in words:
            raise
        code = told(error)
    if code == INTERRUPTED:
        complain("stopped; the same command goes on from here")
    sys.exit(code)


def told(error: Exception) -> int:
    """Say what went wrong, and return the exit code that fits."""
    if show := getattr(error, "show", None):  # a word that the parser did not understand
        show()
        return 2
    mistake = isinstance(error, MISTAKES)
    complain(str(error) if mistake else f"{type(error).__name__}: {error}")
    return 2 if mistake else 1


def complain(words: str) -> None:
    """An error on standard error, unstyled where that is no terminal."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"jostle: {words}", markup=False)
