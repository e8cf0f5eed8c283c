"""The command line, called in this process or made ready for one of its own."""

import sys

import pytest

from jostle import cli


def run_cli(*words: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    assert isinstance(end.value.code, int)
    return end.value.code


def command(*words: str) -> list[str]:
    """A command as another process runs it."""
    return [sys.executable, "-c", "from jostle.cli import main; main()", *words]
