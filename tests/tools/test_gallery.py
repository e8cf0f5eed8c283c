"""An example that fails fails the site, and what it prints is taken as it is."""

from pathlib import Path

import pytest
from sphinx.errors import ExtensionError
from tools.gallery import carried_out


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.py"
    path.write_text(
        "import sys\nfrom pathlib import Path\nprint('arguments', sys.argv[1:])\nPath('made.png').touch()\n# --quick\n",
        encoding="utf-8",
    )
    return path


def test_it_runs_in_a_folder_of_its_own_without_what_was_there(example: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "old.png").touch()
    assert carried_out(example, folder, quick=False) == "arguments []\n"
    assert [path.name for path in folder.iterdir()] == ["made.png"]


def test_only_an_example_that_can_be_quick_is_told_to_be(example: Path, tmp_path: Path) -> None:
    assert carried_out(example, tmp_path / "out", quick=True) == "arguments ['--quick']\n"
    example.write_text("import sys; print(sys.argv[1:])", encoding="utf-8")
    assert carried_out(example, tmp_path / "out", quick=True) == "[]\n"


def test_one_that_fails_says_why(example: Path, tmp_path: Path) -> None:
    example.write_text("raise ValueError('no luck')", encoding="utf-8")
    with pytest.raises(ExtensionError, match="ValueError: no luck"):
        carried_out(example, tmp_path / "out", quick=False)
