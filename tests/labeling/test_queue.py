"""The audit is a uniform sample of what was never picked, although picks avoid it."""

import pytest

from jostle.labeling.audit.queue import mix_audit, next_audit, split_batch
from jostle.labeling.sources.contents import digest

KEYS = [digest(bytes([number])) for number in range(30)]
HARD = set(KEYS[:10])  # what a strategy picks first


def simulated(seed: int, leave: bool) -> tuple[list[bool], float]:
    """Four rounds of two picks and two audits; whether each audited example that counts is hard, and the share left.

    The strategy takes the hard ones in order. With `leave`, an audited one that it comes to is marked as picked.
    """
    picked: set[str] = set()
    audited: list[str] = []
    for _ in range(4):
        audited += next_audit([key for key in KEYS if key not in picked and key not in audited], 2, seed)
        fresh = [key for key in KEYS if key not in picked and key not in audited][:2]
        reached = KEYS[: KEYS.index(fresh[-1]) + 1] if leave else ()
        picked |= {*fresh, *(key for key in reached if key in audited)}
    counted = [key in HARD for key in audited if key not in picked]
    left = [key in HARD for key in KEYS if key not in picked]
    return counted, sum(left) / len(left)


@pytest.mark.parametrize(("leave", "unbiased"), [(True, True), (False, False)])
def test_what_counts_is_a_uniform_sample_of_what_is_left(leave: bool, unbiased: bool) -> None:
    runs = [simulated(seed, leave) for seed in range(3000)]
    measured = sum(sum(counted) / len(counted) for counted, _ in runs if counted) / len(runs)
    true = sum(share for counted, share in runs if counted) / len(runs)
    assert (abs(measured - true) < 0.012) is unbiased
    if not unbiased:
        assert measured > true + 0.05  # hard ones pile up in an audit that never lets go


def test_the_audit_is_spread_and_picks_keep_their_order() -> None:
    lines = mix_audit(KEYS[:20], KEYS[20:25], seed=0)
    assert [line.key for line in lines if line.purpose == "pick"] == KEYS[:20]
    places = [place for place, line in enumerate(lines) if line.purpose == "audit"]
    assert [place // 5 for place in places] == pytest.approx([0, 1, 2, 3, 4], abs=1)
    assert mix_audit([], KEYS[:2], seed=0)[0].purpose == "audit"
    assert mix_audit(KEYS[:2], [], seed=0) == mix_audit(KEYS[:2], [], seed=1)


@pytest.mark.parametrize(
    ("n", "audit", "asked", "audited", "expected"),
    [
        (100, 0.15, 0, 0, (85, 15)),
        (100, 0.15, 200, 30, (85, 15)),
        (20, 0.15, 200, 0, (10, 10)),  # began late: catches up with half a batch
        (100, 0.0, 50, 0, (100, 0)),
        (100, 1.0, 0, 0, (0, 100)),
        (20, 0.15, 100, 40, (20, 0)),  # ahead
    ],
)
def test_shares(n: int, audit: float, asked: int, audited: int, expected: tuple[int, int]) -> None:
    assert split_batch(n, audit, asked, audited) == expected
