"""Random arrays in place of a model: what `predict_proba` gives, features, and what they never should be."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

import jostle
from attacks.calls import check_picks, refuse_raw
from attacks.driver import check
from jostle import strategies

ARRAYS = {"probabilities", "features", "labeled set"}  # what a strategy may need that arrays can give
WITHOUT_A_MODEL = [name for name in strategies.names() if set(strategies.describe(name).needs) <= ARRAYS]


def attack(chance: Random, folder: Path) -> str:
    """One random call on arrays: promises kept, or words."""
    rng = np.random.default_rng(chance.randrange(2**32))
    size = chance.choice([0, 1, 2, *[chance.randint(8, 60)] * 12])
    name = chance.choice(strategies.names() if chance.random() < 0.2 else WITHOUT_A_MODEL)
    n = chance.choice([size, *[chance.randint(1, max(1, size))] * 4])
    call = arguments(chance, rng, size)
    shown = {key: getattr(value, "shape", value) for key, value in call.items()}
    said = f"jostle.select({name!r}, n={n}, {shown})"
    before = {key: np.array(value, copy=True) for key, value in call.items() if isinstance(value, np.ndarray)}
    try:
        query = jostle.select(name, n=n, **call)
    except Exception as error:
        refuse_raw(error, said)
        return "refused with words"
    check_picks(query, size, n, call, said)
    again = jostle.select(name, n=n, **call)
    check(np.array_equal(again.indices, query.indices), f"the same call gave other picks\n{said}")
    changed = [key for key, value in before.items() if not np.array_equal(value, call[key], equal_nan=True)]
    check(not changed, f"{changed} changed\n{said}")
    return "kept its promises"


def arguments(chance: Random, rng: np.random.Generator, size: int) -> dict[str, Any]:
    """Arrays of a call, some of them odd."""
    found: dict[str, Any] = {"seed": chance.randrange(2**31)}
    classes, width = chance.choice([1, *[chance.randint(2, 6)] * 9]), chance.randint(1, 9)
    p, known = (rng.dirichlet(np.ones(classes), many) for many in (size, 7))
    labels = rng.integers(0, classes, 7)
    if chance.random() < 0.9:
        found["probabilities"] = odd(chance, p)
    if chance.random() < 0.9:
        found["features"] = odd(chance, rng.normal(size=(size, width)))
    if chance.random() < 0.8:
        features = rng.normal(size=(7, width))
        found["labeled"] = {"features": features, "probabilities": known, "labels": labels}
    if chance.random() < 0.2 and size > 3:
        found["exclude"] = chance.sample(range(size), 2)
    return found


def odd(chance: Random, array: np.ndarray) -> Any:
    """The array, or what somebody might pass by mistake."""
    ways: list[Any] = [
        array * 2, -array, array[:, :0], array[:-1], array.T, array.ravel(), array.astype(str), array.astype(object),
        np.full_like(array, np.nan), np.full_like(array, np.inf), array * 1e300, array.tolist(), array[None],
        array.astype(np.float16), array.astype(np.float32), (array > 0.5), array.astype(int), np.zeros_like(array),
        torch.from_numpy(array), np.asfortranarray(array), array[::-1],
    ]  # fmt: skip
    return chance.choice(ways) if chance.random() < 0.1 else array
