"""Help texts: order of commands, groups, defaults as values, three examples that parse, 80 columns."""

import shlex

import pytest
from commands import run_cli
from typer.main import get_command

from jostle.cli import app
from jostle.cli.help import EXAMPLES
from jostle.utils.names import unknown

COMMANDS = ["label", "pick", "advise", "demo", "run", "report", "compare", "list", "show"]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def help_text(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_cli(*words, "--help") == 0
    return capsys.readouterr().out


def test_commands_stand_in_the_order_of_their_use(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in help_text(capsys).splitlines() if line.startswith("  ")]
    assert [words[0] for words in lines if words[0] in COMMANDS] == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_text_fits_80_columns_and_ends_with_three_examples(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    text = help_text(capsys, command)
    assert max(map(len, text.splitlines())) <= 80
    examples = text.partition("\nExamples:\n")[2].splitlines()
    assert [example.strip() for example in examples if example] == list(EXAMPLES[command])
    assert len(EXAMPLES[command]) == 3


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_every_example_is_a_command_that_parses(example: str) -> None:
    name, *words = shlex.split(example.partition(" | ")[0])[1:]
    group = get_command(app)
    command = group.get_command(group.make_context("jostle", [name], resilient_parsing=True), name)
    command.make_context(name, words)  # raises for an option or an argument that does not exist


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


def test_an_unknown_name_among_many_has_three_suggestions() -> None:
    many = ["margin", "marging", "marginal", "margins", *(f"name-{i}" for i in range(60))]
    assert str(unknown("strategy", "margni", many)) == (
        "unknown strategy 'margni'; did you mean 'margin', 'margins' or 'marging'?"
    )
    assert str(unknown("strategy", "zzz", many)) == (
        "unknown strategy 'zzz'; there are 64, such as margin, marginal, marging"
    )
