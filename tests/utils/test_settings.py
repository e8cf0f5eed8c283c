"""Settings of what is built by name: checked once, in the same words, from Python as from the command line."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

from jostle import strategies
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


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_perturbations": "x"}, "noise-stability: num_perturbations takes a whole number; got 'x'"),
        ({"num_perturbations": 2.5}, "noise-stability: num_perturbations takes a whole number; got 2.5"),
        (
            {"num_perturbation": 3},
            "unknown setting of noise-stability 'num_perturbation'; did you mean 'num_perturbations'?",
        ),
        ({"name": "x"}, "unknown setting of noise-stability 'name'"),
        ({"seed": 0}, "unknown setting of noise-stability 'seed'"),
    ],
)
def test_a_strategy_by_name_refuses_what_it_cannot_be_built_from(settings: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        strategies.build("noise-stability", **settings)
    assert "batch_size" not in str(refused.value)  # an option of `select`, which `build` does not take


@pytest.mark.parametrize("name", strategies.names())
def test_defaults_fit_their_own_hints(name: str):
    entry = strategies.describe(name)
    check_settings(name, entry.build, entry.settings)
