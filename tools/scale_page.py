"""Tables of docs/how-to/large-pools.md, made from what `make bench-scale` recorded in results/scale.json."""

from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]

MIB, GB = 2**20, 10**9
ROW, GAP = 4 * 32, 24  # bytes of a row that is projected to 32 numbers, and of what is known of its gap


def costs(record: Record) -> str:
    """What a cluster costs against one process, beside what is wanted of it."""
    alone, one, two = (record[f"50000 large, {workers} workers"] for workers in (0, 1, 2))
    bare, small = (record[f"50000 small, {workers} workers"] for workers in (0, 1))
    less, more = (record[f"{n} small, 2 workers"] for n in (100_000, 1_000_000))
    many = "10^6 examples from Parquet, small network, two workers"
    starts = [found["start"] for found in record.values() if isinstance(found, dict) and "start" in found]
    rows = [
        against("50,000 examples, large network, one worker against this process", one, alone, clock, "1.25"),
        against("the same: seconds of computing, of all processes", one, alone, computing, "1.25"),
        (
            "two workers against one, scoring",
            f"{one['embedding'] / two['embedding']:.2f} times as fast",
            "1.6",
        ),
        against("50,000 examples, small network, one worker against this process", small, bare, clock, ""),
        ("peak memory of the process that asks, 10^5 and 10^6 examples", both_mib(less, more), "the same"),
        (
            f"{many}: scored, and 1,000 picked",
            f"{more['embedding']:.0f} and {more['selection']:.0f} seconds",
            "",
        ),
        ("the same: seconds of computing, of all processes", f"{more['computed']:.0f}", ""),
        ("the same: peak memory of a worker", f"{more['worker peak'] / MIB:.0f} MiB", ""),
        ("starting a cluster and its workers", f"{min(starts):.0f} to {max(starts):.0f} seconds", ""),
    ]
    where = f"On {record['cores']} cores, at a load of {record['load']:.1f} when this began.\n"
    return f"{where}\n{table(('what', 'measured', 'wanted'), rows)}"


def larger(record: Record) -> str:
    """What larger pools would take, by what 10^6 examples took more than 10^5."""
    less, more = (record[f"{n} small, 2 workers"] for n in (100_000, 1_000_000))
    each = (more["computed"] - less["computed"]) / 900_000
    base = max(0.0, less["computed"] - 100_000 * each)
    rows = [
        (
            f"10^{power}",
            f"{(base + each * 10**power) / 3600:.2g}",
            f"{10**power * (ROW + GAP) / GB:.3g} GB",
        )
        for power in (7, 8, 9)
    ]
    words = (
        f"Between 10^5 and 10^6 examples, computing grew by {each * 1e6:.0f} microseconds for each example (11 passes "
        f"through layers of 128, and 1,000 picks), from a base of {base:.0f} seconds; a row takes {ROW} bytes, and "
        f"{GAP} more for its gap.\n"
    )
    heads = ("examples", "cores for an hour", "memory of all workers for rows and gaps")
    return f"{words}\n{table(heads, rows)}"


def against(what: str, found: Record, other: Record, by: Any, wanted: str) -> tuple[str, str, str]:
    """A row that compares seconds."""
    mine, theirs = by(found), by(other)
    return what, f"{mine:.1f} and {theirs:.1f} seconds: {mine / theirs:.2f} times", wanted


def clock(found: Record) -> float:
    """Seconds of scoring and picking."""
    return float(found["embedding"] + found["selection"])


def computing(found: Record) -> float:
    """Seconds that all processes computed."""
    return float(found["computed"])


def both_mib(less: Record, more: Record) -> str:
    """The driver's peaks."""
    return f"{less['driver peak'] / MIB:.0f} and {more['driver peak'] / MIB:.0f} MiB"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


BLOCKS = {"scale_costs": costs, "scale_larger": larger}
