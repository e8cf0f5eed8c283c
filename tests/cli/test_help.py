"""Help texts: order of commands, groups, defaults as values, three examples that parse, 80 columns."""

import shlex
from typing import Any

import pytest
from commands import run_cli
from typer.main import get_command

from jostle.cli import COMMANDS as PANELS
from jostle.cli import app
from jostle.cli.console import fit_columns

COMMANDS = ["label", "pick", "advise", "demo", "run", "report", "compare", "list", "show"]
EVERY = [name for commands in PANELS.values() for name in commands]  # subcommands such as `label export` too
STUDIO = ["labelstudio push", "labelstudio pull", "labelstudio serve"]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def help_text(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_cli(*words, "--help") == 0
    return capsys.readouterr().out


def test_commands_stand_in_the_order_of_their_use(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in help_text(capsys).splitlines() if line.startswith("  ")]
    assert [words[0] for words in lines if words[0] in COMMANDS] == COMMANDS


@pytest.mark.parametrize("command", [*EVERY, *STUDIO])
def test_a_help_text_fits_80_columns_and_ends_with_three_examples_that_parse(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    text = help_text(capsys, *command.split())
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith(f"Usage: jostle {command} ")
    examples = text.partition("\nExamples:\n")[2].splitlines()
    assert len(examples) == 3
    for example in examples:
        words = shlex.split(example.partition(" | ")[0])[1:]
        assert " ".join(words).startswith(command)
        found: Any = get_command(app)
        while hasattr(found, "resolve_command"):
            context = found.make_context("jostle", list(words), resilient_parsing=True)
            _, found, words = found.resolve_command(context, words)
        context = found.make_context(
            command, words
        )  # raises for an option or an argument that does not exist
    assert found.get_help(context)
    for parameter in found.params:
        assert parameter.name == "help" or parameter.help, parameter.name
        assert all(
            option in text for option in (*parameter.opts, *parameter.secondary_opts) if option[0] == "-"
        )


def test_subcommands_stand_in_the_help_of_their_command_and_leave_folders_of_their_name_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = help_text(capsys, "label")
    assert text.index("Subcommands:") < text.index("  export ") < text.index("Arguments:")
    assert run_cli("label", "./export") == 2
    assert "export does not exist: name a folder of images" in capsys.readouterr().err


def test_options_stand_in_groups_with_defaults_and_switches_without_a_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = help_text(capsys, "run")
    assert (
        text.index("Experiment:")
        < text.index("Computing:")
        < text.index("Options:")
        < text.index("Examples:")
    )
    assert "--jobs N " in text
    assert "results stay the same. Default: 1." in text
    assert "  --report, --no-report  Write" in text
    assert "Default: where the" in help_text(capsys, "pick")


def test_a_table_keeps_its_names_wraps_its_headers_and_drops_the_last_columns_that_do_not_fit() -> None:
    names = ["strategy", "noise-stability-relative", "random"]
    share, seeds = ["labels saved, %", "[bold]+44[/bold]", "–"], ["number of seeds", "20", "20"]
    assert fit_columns([names, share, seeds], 200)[1][0] == "labels\nsaved,\n%"
    narrow = fit_columns([names, share, seeds], 24 + 2 + 6 + 2 + 5)
    assert [column[0].split("\n")[0] for column in narrow] == ["strategy", "labels"]
    assert narrow[0] == names
