"""A bounded round of each kind of attack, from seeds that stay; `make attack` goes on with fresh ones."""

import os
import sys

import pytest

from attacks.driver import BrokenPromiseError, Failure, attempt
from attacks.kinds import KINDS

ROUNDS = {
    "calls": 40, "arrays": 60, "interrupts": 20, "threads": 6, "kills": 3, "edits": 2, "corruptions": 20, "names": 2,
    "places": 6, "requests": 3, "people": 1,
}  # fmt: skip
FORKS = {"threads", "kills", "edits", "corruptions", "names", "places"}


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind in ROUNDS for seed in range(ROUNDS[kind])])
def test_what_is_promised_holds(kind: str, seed: int) -> None:
    if kind in FORKS and not (hasattr(os, "fork") and sys.platform == "linux"):
        pytest.skip("commands are tried in forked processes, as Linux has them")
    outcome = attempt(kind, KINDS[kind], seed)
    assert not isinstance(outcome, Failure), f"\n{outcome}"


def test_a_broken_promise_is_seen_and_tells_its_seed() -> None:
    def breaks(chance: object, folder: object) -> str:
        raise BrokenPromiseError("the pool's bytes changed")

    outcome = attempt("calls", breaks, 7)
    assert isinstance(outcome, Failure)
    assert "bytes changed" in str(outcome)
    assert "make attack SEED=calls-7" in str(outcome)
