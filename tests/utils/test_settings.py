"""Settings of what is built by name: checked once, in the same words, from Python as from the command line."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from zoo import mlp

import jostle
from jostle import datasets, strategies
from jostle.utils.settings import check_settings

OWN = """
from dataclasses import dataclass

import jostle


@dataclass(frozen=True, kw_only=True)
class Own(jostle.Embedding):
    depth: int = 2

    def embedding(self, request):
        ...


def stumbles(depth: int = 2):
    return Own(depth=depth, width=1)


def number(size: int = 3):
    return size
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


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


def test_a_strategy_of_ones_own_is_checked_in_the_same_words(own: str):
    assert strategies.build(f"{own}:Own", depth=3).depth == 3
    for settings, said in (
        ({"depth": "x"}, "own.py:Own: depth takes a whole number; got 'x'"),
        ({"dept": 3}, "unknown setting of .*own.py:Own 'dept'; did you mean 'depth'?"),
    ):
        with pytest.raises(ValueError, match=said):
            strategies.build(f"{own}:Own", **settings)
    with pytest.raises(
        ValueError, match=r"own.py:stumbles\(depth=1\): .*unexpected keyword argument 'width'"
    ):
        strategies.build(f"{own}:stumbles", depth=1)
    with pytest.raises(TypeError, match=r"own.py:number made int; expected a jostle.Strategy"):
        strategies.build(f"{own}:number")


def test_one_call_also_knows_the_options_of_select():
    with pytest.raises(ValueError, match="did you mean 'batch_size'"):
        jostle.select("margin", mlp(), torch.zeros(4, 6), n=1, batchsize=2)
    with pytest.raises(ValueError, match=r"num_perturbations takes a whole number; got 2.5"):
        jostle.select("noise-stability", mlp(), torch.zeros(4, 6), n=1, num_perturbations=2.5)


@pytest.mark.parametrize("name", strategies.names())
def test_defaults_fit_their_own_hints(name: str):
    entry = strategies.describe(name)
    check_settings(name, entry.build, entry.settings)


def test_a_data_set_by_name_is_checked_in_the_same_words(own: str, tmp_path: Path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    for name, settings, said in (
        (f"csv:{tmp_path / 'a.csv'}", {"tagret": "b"}, "did you mean 'target'?"),
        (f"csv:{tmp_path / 'a.csv'}", {"test": "x"}, "test takes a number or none; got 'x'"),
        (f"{own}:number", {"size": "x"}, "own.py:number: size takes a whole number; got 'x'"),
        ("camvid", {"rot": "x"}, "(known: part, size)"),  # the folder of all data is no setting
    ):
        with pytest.raises(datasets.DataError, match=re.escape(said)):
            datasets.load(name, tmp_path, **settings)
