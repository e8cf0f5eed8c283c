"""`make attack`: for as long as one likes, with a fresh seed each time; or one attack again from its seed."""

import argparse
import sys

from attacks.driver import Failure, attempt, campaign, fresh
from attacks.kinds import KINDS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", help="one attack again, such as calls-123")
    parser.add_argument("--kinds", default=",".join(KINDS), help="by comma")
    arguments = parser.parse_args()
    if arguments.seed:
        kind, _, seed = arguments.seed.partition("-")
        outcome = attempt(kind, KINDS[kind], int(seed))
        print(outcome)
        return int(isinstance(outcome, Failure))
    counts, failures = campaign(KINDS, fresh(arguments.kinds.split(","), arguments.seconds))
    for what in sorted(counts):
        print(f"{counts[what]:7,}  {what}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
