"""What the background is doing, written where every process can read it."""

from __future__ import annotations

from jostle.labelling.records import Status
from jostle.labelling.store import Store


def status(store: Store) -> Status:
    """The last word of the background; all quiet where there was none."""
    found = store.fact("status") or {}
    return Status(
        found.get("doing", ""),
        found.get("done", 0),
        found.get("of", 0),
        found.get("problem", ""),
        found.get("note", ""),
        found.get("at", 0.0),
    )


def report_status(
    store: Store, doing: str = "", done: int = 0, of: int = 0, problem: str = "", note: str = ""
) -> None:
    """Say what is being done."""
    store.mention(
        status={"doing": doing, "done": done, "of": of, "problem": problem, "note": note, "at": store.clock()}
    )
