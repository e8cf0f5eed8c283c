"""Mutants of the package: each still names a line that exists, and tests that exist."""

from pathlib import Path

import pytest
from tools import mutants


def test_every_mutant_changes_one_place_of_the_package_and_names_its_tests() -> None:
    for mutant in mutants.MUTANTS:
        assert mutants.find(mutant).is_file()
        paths = [mutants.ROOT / test.partition("::")[0] for test in mutants.test_files(mutant)]
        assert all(path.exists() for path in paths), mutant.tests


def test_a_mutant_that_no_test_notices_is_reported_and_one_that_is_noticed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of one module with one test, which looks at the first of two lines."""
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "src/measured.py").write_text("def area(side):\n    return side * side\n\n\nUNUSED = 1\n")
    (tmp_path / "tests/test_area.py").write_text(
        "from measured import area\n\n\ndef test_area():\n    assert area(3) == 9\n"
    )
    noticed = mutants.Mutant("side * side", "side + side", "test_area.py")
    unnoticed = mutants.Mutant("UNUSED = 1", "UNUSED = 2", "test_area.py")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    assert not mutants.survivor(tmp_path / "copies", 0, noticed)
    assert mutants.survivor(tmp_path / "copies", 1, unnoticed)
