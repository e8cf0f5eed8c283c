"""`make attack`: for as long as one likes, with a fresh seed each time; or one attack again from its seed."""

import argparse
import random
import sys
import time
from collections import Counter
from importlib import import_module

from attacks.driver import BrokenPromiseError, attempt

KINDS = (
    "calls", "arrays", "oracles", "interrupts", "threads", "kills", "edits", "corruptions", "names", "places",
    "requests", "people", "pages",
)  # fmt: skip


def attack(kind: str, seed: int) -> str:
    """Attack from a seed by the module of this name."""
    return attempt(kind, import_module(f"attacks.{kind}").attack, seed)


def main() -> int:
    """Count how often each attack ended how; return 1 if one broke a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", help="one attack again, such as calls-123")
    parser.add_argument("--kinds", default=",".join(KINDS), help="by comma")
    arguments = parser.parse_args()
    if arguments.seed:
        kind, _, seed = arguments.seed.partition("-")
        print(attack(kind, int(seed)))
        return 0
    counts: Counter[str] = Counter()
    end, failed = time.monotonic() + arguments.seconds, 0
    while time.monotonic() < end:
        for kind in arguments.kinds.split(","):
            try:
                outcome = attack(kind, random.SystemRandom().randrange(10**9))
            except BrokenPromiseError as broken:
                print(broken, flush=True)
                outcome, failed = "FAILED", 1
            counts[f"{kind}: {outcome}"] += 1
    for what in sorted(counts):
        print(f"{counts[what]:7,}  {what}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
