"""A bounded round of each kind of attack, from seeds that stay; `make attack` goes on with fresh ones."""

import os
import sys

import pytest

from attacks.driver import BrokenPromiseError, Failure, attempt
from attacks.kinds import KINDS

ROUNDS = {  # oracles have a file of their own, and pages their tests in a browser
    "calls": 20, "arrays": 20, "interrupts": 10, "threads": 3, "kills": 2, "edits": 1, "corruptions": 6,
    "names": 2, "places": 3, "requests": 2, "people": 1,
}  # fmt: skip
FORKS = {"threads", "kills", "edits", "corruptions", "names", "places"}


@pytest.mark.parametrize("kind", ROUNDS)
def test_no_promise_is_broken(kind: str) -> None:
    if kind in FORKS and not (hasattr(os, "fork") and sys.platform == "linux"):
        pytest.skip("commands are tried in forked processes, as Linux has them")
    for seed in range(ROUNDS[kind]):
        outcome = attempt(kind, KINDS[kind], seed)
        assert not isinstance(outcome, Failure), f"\n{outcome}"


def test_a_broken_promise_is_seen_and_tells_its_seed() -> None:
    def breaks(chance: object, folder: object) -> str:
        raise BrokenPromiseError("the pool's bytes changed")

    outcome = attempt("calls", breaks, 7)
    assert isinstance(outcome, Failure)
    assert "bytes changed" in str(outcome)
    assert "make attack SEED=calls-7" in str(outcome)
