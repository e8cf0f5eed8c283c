"""The command line: every command documented, with three examples that parse; names listed and explained."""

import re
import shlex
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from commands import run_cli
from tools import cli_page
from typer.main import get_command

from jostle import cli, datasets, embeddings, models, selectors, strategies
from jostle.cli.console import fit_columns
from jostle.experiments import protocol

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def walked(group: Any, before: str = "") -> dict[str, Any]:
    """Every command by its words, those of groups included."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found |= {f"{before}{name}": command} if inner is None else walked(command, f"{before}{name} ")
    return found


COMMANDS = walked(get_command(cli.app))


def test_the_reference_has_the_help_text_of_every_command():
    written = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## `jostle ([\w ]+)`$", written, re.MULTILINE)) == set(COMMANDS)
    assert written == cli_page.page(written), "run `make docs`"


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("strategies", strategies.names),
        ("embeddings", embeddings.names),
        ("selectors", selectors.names),
        ("datasets", datasets.names),
        ("protocols", protocol.names),
        ("models", models.names),
    ],
)
def test_lists_have_a_tab_when_piped(kind: str, names: object, capsys: pytest.CaptureFixture[str]):
    assert run_cli("list", kind) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in rows] == names()  # type: ignore[operator]
    assert all(about for _, about in rows)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("mnist", "published code"),  # the protocol with its comments
        ("noise-stability", "use it when: "),
        ("digits", "candidates = "),
        ("mlp", "Network mlp: "),
        ("deviations", "settings:"),
        ("typical", "Selector typical: "),
        ("folder", "size = none: "),
        ("csv:my.csv", "Data set csv:my.csv: "),
    ],
)
def test_show_explains(name: str, part: str, capsys: pytest.CaptureFixture[str]):
    assert run_cli("show", name) == 0
    said = capsys.readouterr().out
    assert name in said
    assert part in said


def test_show_explains_what_a_file_defines(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nimport jostle\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Mine(jostle.Embedding):\n"
        '    """Rows of ones."""\n    power: float = 2.0\n    """How strong."""\n'
        "    def embedding(self, context):\n        return jostle.Embedded(None)\n"
    )
    assert run_cli("show", f"{file}:Mine") == 0
    said = capsys.readouterr().out
    assert f"Strategy {file}:Mine: Rows of ones." in said
    assert "power = 2.0: How strong." in said
    assert run_cli("show", f"{file}:Thine") == 2
    assert "known: Mine" in capsys.readouterr().err


def test_a_plug_in_that_cannot_be_loaded_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    broken = EntryPoint("broken", "no_such_package:thing", "jostle.selectors")
    monkeypatch.setattr(selectors.REGISTRY, "_points", {"broken": broken})
    assert run_cli("list", "selectors") == 0
    shown = capsys.readouterr()
    assert "broken" not in shown.out
    assert "k-center" in shown.out
    assert "Warning: the selector 'broken' of no_such_package:thing cannot be loaded" in shown.err
    assert run_cli("show", "broken") == 2
    assert "cannot be loaded" in capsys.readouterr().err


NAMES = ["label", "pick", "advise", "demo", "run", "report", "compare", "list", "show"]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def help_text(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_cli(*words, "--help") == 0
    return capsys.readouterr().out


def test_commands_stand_in_the_order_of_their_use(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in help_text(capsys).splitlines() if line.startswith("  ")]
    assert [words[0] for words in lines if words[0] in NAMES] == NAMES


@pytest.mark.parametrize("command", sorted(COMMANDS))
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
        found: Any = get_command(cli.app)
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
