"""The tutorials run from the first cell to the last, and show what their cells display."""

import json
import traceback
from pathlib import Path

import pytest
from tools import notebooks

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_its_outputs_are_stored(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which cells display something is compared, not the figures: their last digits depend on the processor."""
    monkeypatch.chdir(tmp_path)
    notebook = notebooks.read_notebook(path)
    displayed = notebooks.run(notebook, path.name)
    stored = [notebooks.stored_output(cell) for cell in notebooks.code_cells(notebook)]
    assert [bool(text) for text in displayed] == [bool(text) for text in stored], "run `make notebooks`"
    assert any(displayed)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_is_a_valid_notebook(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert notebook["cells"][0]["cell_type"] == "markdown"
    assert "".join(notebook["cells"][0]["source"]).startswith("# ")
    assert all(isinstance(cell["metadata"], dict) and cell["id"] for cell in notebook["cells"])


def test_an_error_names_the_notebook_and_the_cell() -> None:
    cells = [{"cell_type": "code", "source": ["1 + 1"]}, {"cell_type": "code", "source": ["1 / 0"]}]
    with pytest.raises(ZeroDivisionError) as caught:
        notebooks.run({"cells": cells}, "mine.ipynb")
    assert traceback.extract_tb(caught.tb)[-1].filename == "mine.ipynb[2]"
