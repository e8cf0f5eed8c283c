"""The checker of words finds what it looks for, and this tree has none of it."""

from pathlib import Path

import pytest
from tools import words
from tools.prose import find_files


def findings(kind: str, folder: Path, name: str, text: str) -> list[str]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return [line.partition(f"{name}:")[2] for line in words.find(kind, [path])]


def test_retired_words_are_found_with_the_word_of_today(tmp_path: Path) -> None:
    page = "# Page\n\nEach jolt is small.\nIt comes out level\nwith random, a heatmap shows.\n"
    found = findings("words", tmp_path, "page.md", page)
    assert found == [
        "3: 'jolt': write 'perturbation'",
        "4: 'level with': write 'not significantly different from'",
    ]


def test_retired_words_are_found_in_docstrings_and_messages_but_not_in_names(tmp_path: Path) -> None:
    function = 'def f(jolts):\n    """Heats of a race."""\n    raise ValueError(f"use {jolts} jolts")\n'
    code = f'"""Module."""\n\n\n{function}\n\nOLD = "jolts"\n'
    found = findings("words", tmp_path, "module.py", code)
    assert found == ["5: 'Heats': write 'round'", "6: 'jolts': write 'perturbation'"]


def test_the_changelog_may_name_old_words(tmp_path: Path) -> None:
    assert not findings("words", tmp_path, "CHANGELOG.md", "`jolts` is `num_perturbations`\n")


def test_british_spelling_is_found_outside_of_code(tmp_path: Path) -> None:
    british = ["labelled", "Centre", "colour", "normalise", "optimisation", "catalogue", "grey"]
    american = "labeled center exercise promise noise precise raise"
    page = f"`{'` `'.join(british)}` {american}\n{' '.join(british)}\n"
    found = findings("spelling", tmp_path, "page.md", page)
    assert found == [f"2: {word!r}: use American spelling" for word in british]


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Title\n\n## A part: the `second`\n", encoding="utf-8")
    page = "[a](other.md) [b](other.md#a-part-the-second) [c](https://example.org/gone.md)\n[d](gone.md)\n[e](other.md#gone)\n"
    found = findings("links", tmp_path, "page.md", page)
    assert [line.partition(":")[0] for line in found] == ["2", "3"]


def test_pages_that_messages_name_exist(tmp_path: Path) -> None:
    found = findings(
        "links", tmp_path, "module.py", 'RIGHT = "see docs/index.md"\nWRONG = "see docs/gone.md"\n'
    )
    assert found == ["2: 'docs/gone.md': no such file or heading"]


@pytest.mark.parametrize("kind", ["words", "spelling", "links"])
def test_this_tree_has_none(kind: str) -> None:
    assert not list(words.find(kind, find_files()))
