"""The command line: the only place that prints or parses words."""

import _thread
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any

import typer

# What is slow to import, they import when they run.
import jostle
from jostle.cli import experiments, labeling, labels, labelstudio, listing, picking
from jostle.cli.console import HelpCommand, HelpGroup, say
from jostle.cli.options import expand
from jostle.utils.user_files import line_in_own_file

app = typer.Typer(
    name="jostle",
    cls=HelpGroup,
    help="Pick the examples worth labeling: jostle the weights, label what moves.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# By panel of the help text, in this order. Two words are a subcommand: `label export` is one of `label`.
COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Label and pick": {
        "label": labeling.label,
        "label export": labels.export,
        "label import": labels.import_labels,
        "label audit": labels.audit,
        "label people": labels.people,
        "label simulate": labels.simulate,
        "pick": picking.pick,
        "advise": picking.advise,
        "demo": experiments.demo,
    },
    "Compare strategies": {
        "run": experiments.run,
        "report": experiments.report,
        "compare": experiments.compare,
    },
    "Look up": {"list": listing.list_names, "show": listing.show},
}
for panel, commands in COMMANDS.items():
    for command, function in commands.items():
        app.command(command, cls=HelpCommand, rich_help_panel=panel)(expand(function))
app.add_typer(labelstudio.app, rich_help_panel="Other tools")

INTERRUPTED = 130  # the code that typer, too, gives to Ctrl-C
CLOSED = 141  # what the shell shows of a program whose reader went away
MISTAKES = (ValueError, TypeError, OSError, ImportError)  # what a user can set right
OPTIONS = {  # what messages for Python say, and the option of `jostle pick` that does it
    "pass labeled=": "--labeled",
    "pass fit=": "--fit",
    "pass overwrite=": "--overwrite",
    "say task=": "--task",
}


def tell_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        print(f"jostle {jostle.__version__}")
        raise typer.Exit


@app.callback()
def everywhere(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show Python's traceback of an error; may stand anywhere.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Pick the examples worth labeling: jostle the weights, label what moves."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; a user's mistake ends with code 2, a failed run with 1, Ctrl-C with 130."""
    words = sys.argv[1:] if arguments is None else arguments
    kept = [word for word in words if word != "--debug"]
    spell_what_terminals_lack()
    hear_one_interrupt()
    try:
        code: int = app(args=kept, prog_name="jostle", standalone_mode=False) or 0
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # whoever read our output has had enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - Python still writes there when it ends
        code = CLOSED
    except (Exception, SystemExit) as error:
        if "--debug" in words:
            raise
        code = report_error(error)
    if code == INTERRUPTED:
        resumes = any(word in ("run", "demo") or word.startswith("--work") for word in kept)
        complain("stopped; the same command resumes from here" if resumes else "stopped")
    sys.exit(code)


def spell_what_terminals_lack() -> None:
    """Print a letter that a terminal does not know as its code, in place of an error that hides all the rest."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def interrupt_main() -> None:
    """Send Ctrl-C to the main thread; where the system can, by a signal, which ends a sleep too."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


def hear_one_interrupt() -> None:
    """Let the first Ctrl-C end the command, and no other disturb how it ends: workers, files, the interpreter."""

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    def repeat_lost(lost: Any) -> None:
        """Interrupt again where the first one hit code that cannot raise, such as a finalizer, and had no effect."""
        if lost.exc_type is None or not issubclass(lost.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(lost)
            return
        signal.signal(signal.SIGINT, end)
        again = threading.Timer(0.05, interrupt_main)
        again.daemon = True
        again.start()

    ours = threading.current_thread() is threading.main_thread()  # others may not say how signals are handled
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)
        sys.unraisablehook = repeat_lost


def report_error(error: BaseException) -> int:
    """Say what went wrong, and return the exit code that fits: 2 for what a user can set right."""
    if show := getattr(error, "show", None):  # a word that the parser did not understand
        show()
        return 2
    place = line_in_own_file(error)
    if isinstance(error, SystemExit):
        if not place:  # click ends so where its output is closed
            return CLOSED
        complain(f"the program was ended by exit({error.code!r}) in {place}")
        return 2
    words = str(error) if isinstance(error, MISTAKES) else f"{type(error).__name__}: {error}"
    noted = " ".join([words, *getattr(error, "__notes__", ())])
    complain(noted + hints(words, place))
    return 2 if isinstance(error, MISTAKES) or place else 1


def hints(words: str, place: str) -> str:
    """Hints that the command line adds to an error: the option to use, and the line of a user's own file."""
    found = [f"on the command line, that is {name}" for said, name in OPTIONS.items() if said in words]
    if place:
        where = "" if place in words else f"in {place}; "
        found.append(f"{where}--debug shows the traceback")
    return f" ({'; '.join(found)})" if found else ""


def complain(words: str) -> None:
    """An error on standard error, unstyled where that is no terminal."""
    say(f"jostle: {words}")
