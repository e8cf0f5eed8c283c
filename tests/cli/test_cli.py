"""The command line: every command and option documented, names listed and explained, plain output where it is piped."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import run_cli
from tools import cli_page

from jostle import cli, datasets, embeddings, models, selectors, strategies
from jostle.experiments import protocol

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def walked(group: Any, before: str = "") -> dict[str, Any]:
    """Every command by its words, those of groups included."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found |= {f"{before}{name}": command} if inner is None else walked(command, f"{before}{name} ")
    return found


COMMANDS = walked(typer.main.get_command(cli.app))


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
