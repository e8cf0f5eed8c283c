"""Values as the command line writes them."""

import pytest

from jostle.utils.names import name_and_settings, parsed_value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[cat, dog]", ["cat", "dog"]),
        ("[cat, 2, 'a, b', none, [x, y]]", ["cat", 2, "a, b", None, ["x", "y"]]),
        ("[1, 2]", [1, 2]),
        ("None", None),
        ("'None'", "None"),
        ("[]", []),
        ("[a", "[a"),
        ("a[b]", "a[b]"),
    ],
)
def test_words_in_lists_need_no_quotes(text: str, expected: object):
    assert parsed_value(text) == expected


def test_lists_in_brackets():
    assert name_and_settings("csv:rows.csv(target=[wide, high], test=0.5)") == (
        "csv:rows.csv", {"target": ["wide", "high"], "test": 0.5},
    )  # fmt: skip
