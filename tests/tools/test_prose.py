"""The report on prose finds long sentences and docstrings that lean on others."""

from pathlib import Path

from tools.prose import long_sentences, read_passages, stands_alone

LONG = " ".join(["word"] * 31)


def lines(path: Path) -> list[tuple[int, int]]:
    return [(line, words) for passage in read_passages(path) for line, words, _ in long_sentences(passage)]


def test_long_sentences_of_a_page_are_found_outside_of_code_and_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        f"# Title\n\nShort one. {LONG}.\n\n* {LONG[:-5]}\n* item\n\n```text\n{LONG}\n```\n\n| {LONG} |\n",
        encoding="utf-8",
    )
    assert lines(page) == [(3, 31)]


def test_long_docstrings_and_messages_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        f'"""Short."""\n\nMESSAGE = "{LONG}"\n\n\ndef f(x):\n    """{LONG}."""\n    return f"{{x}} {LONG}"\n',
        encoding="utf-8",
    )
    assert lines(module) == [(3, 31), (7, 31), (8, 32)]


def test_verbs_and_noun_phrases_stand_alone_and_clauses_do_not() -> None:
    alone = ["Return the positions of n rows.", "Memory budget of one call.", "A heap."]
    leaning = ["The same, over shards.", "What is left.", "Whether it fits.", "those of all."]
    assert [each for each in [*alone, *leaning] if stands_alone(each)] == alone
