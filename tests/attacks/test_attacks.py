"""A bounded round of each kind of attack, from seeds that stay; `make attack` goes on with fresh ones."""

import os
import sys

import pytest

from attacks.__main__ import attack
from attacks.driver import BrokenPromiseError, attempt, check

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
        attack(kind, seed)


def test_a_broken_promise_is_seen_and_tells_its_seed() -> None:
    with pytest.raises(BrokenPromiseError, match=r"bytes changed\n.*make attack SEED=calls-7"):
        attempt("calls", lambda chance, folder: str(check(False, "bytes changed")), 7)
