"""Which questions measure: a random audit spread among the picks.

Why the audit is a uniform sample of what was never picked, although picks avoid it: every example has its place in one
random order, and the audit is the beginning of that order among the unpicked. Strategies choose among all that was not
picked, audited or not, and never see the audit's answers. An audited example that they come to ask for is not asked
again and does not train: from then on it counts as picked, and no more as audited. So what is picked depends on the
order only through examples that no longer count.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

from jostle.labelling.contents import chance
from jostle.labelling.store import Ranked


def audits(unasked: Collection[str], n: int, seed: int) -> list[str]:
    """The next n of the audit: the first, in one random order of everything, that were not asked yet."""
    return heapq.nsmallest(n, unasked, key=lambda key: chance(seed, "audit", key))


def mixed(picked: Sequence[str], audited: Sequence[str], seed: int) -> list[Ranked]:
    """One ranking of both, the audit spread at random so that nobody can tell which questions measure."""
    total = len(picked) + len(audited)
    part = total / max(len(audited), 1)  # one audit question lies somewhere in each equal part
    order = [((i + chance(seed, "mixed", key)) * part, Ranked(key, "audit")) for i, key in enumerate(audited)]
    order += [(i * total / len(picked), Ranked(key, "pick")) for i, key in enumerate(picked)]
    return [line for _, line in sorted(order, key=lambda entry: entry[0])]


def shares(n: int, audit: float, asked: int, audited: int) -> tuple[int, int]:
    """How many of the next n are picks and how many audit, so that of all asked the share is as set.

    An audit that began late catches up, but never takes more than half of a batch.
    """
    due = round(audit * (asked + n)) - audited
    measured = min(max(due, 0), max(round(audit * n), n // 2 if due > audit * n else 0))
    return n - measured, measured
