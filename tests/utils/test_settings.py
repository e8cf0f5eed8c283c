"""Settings of what is built by name: checked once, in the same words, from Python as from the command line."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest

from jostle import strategies
from jostle.utils.names import name_and_settings, parsed_value
from jostle.utils.registry import check_settings


def made(
    count: int, scale: float = 1.0, size: int | Sequence[int] | None = 3, kind: Literal["a", "b"] = "a"
) -> None: ...


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"count": 1, "scale": 2, "size": [1, 2], "kind": "b"}, None),
        ({"count": 1, "size": None}, None),
        ({"count": np.int64(1), "scale": np.float32(2), "size": np.array([1, 2])}, None),
        ({"count": 1, "size": {1, 2}}, "size takes a whole number or a list [...] or none; got {1, 2}"),
        ({"count": np.float64(1)}, f"count takes a whole number; got {np.float64(1)!r}"),
        ({"count": "x"}, "mine: count takes a whole number; got 'x'"),
        ({"count": True}, "count takes a whole number; got True"),
        ({"count": 1, "size": ["x"]}, "size takes a whole number or a list [...] or none; got ['x']"),
        ({"count": 1, "kind": "c"}, "kind takes a or b; got 'c'"),
        ({"count": 1, "scael": 2}, "unknown setting of mine 'scael'; did you mean 'scale'?"),
        ({}, "mine needs a value for count: write mine(count=...)"),
    ],
)
def test_settings_are_checked_before_anything_is_built(settings: dict[str, object], said: str | None):
    if said is None:
        check_settings("mine", made, settings)
        return
    with pytest.raises(ValueError, match=re.escape(said)):
        check_settings("mine", made, settings)


def test_a_strategy_by_name_refuses_options_of_a_call():
    with pytest.raises(ValueError, match="unknown setting of noise-stability 'seed'") as refused:
        strategies.build("noise-stability", seed=0)
    assert "batch_size" not in str(refused.value)  # an option of `select`, which `build` does not take


@pytest.mark.parametrize("name", strategies.names())
def test_defaults_fit_their_own_hints(name: str):
    entry = strategies.describe(name)
    check_settings(name, entry.build, entry.settings)


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
