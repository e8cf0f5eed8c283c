"""One call copies and traces the model once, opens the pool once, and computes norms and estimates once."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from zoo import ConvNet

import jostle

ROOT = str(Path(jostle.__file__).parent)
ONCE = (
    "private_copy",
    "ModelRunner.traced",
    "Pool.of",
    "check_options",
    "Strategy.check_memory",
    "free_bytes",
)


def functions_called(call: Callable[[], Any]) -> Counter[str]:
    """Functions of jostle by name, and how often each was entered."""
    called: Counter[str] = Counter()

    def follow(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            called[frame.f_code.co_qualname] += 1

    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("name", ["noise-stability", "default", "badge", "entropy"])
def test_each_thing_is_computed_once(name: str) -> None:
    model, pool = ConvNet(), torch.randn(60, 1, 8, 8)
    called = functions_called(lambda: jostle.select(name, model, pool, n=5, seed=0))
    assert {each: called[each] for each in ONCE} == dict.fromkeys(ONCE, 1)
    estimates = [each for each in called.elements() if each.endswith(".estimate") and "Rows" not in each]
    assert len(estimates) == 1
    perturbs = name in ("noise-stability", "default")
    assert called["Deviations.perturbations"] == called["reaching"] == perturbs
