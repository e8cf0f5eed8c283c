"""A blind audit: nothing that a page shows says which questions measure.

A suggestion can sway an answer, so audit questions have none. An equal share of picks, drawn by their keys, has none
either, and during a proof no question has one. Figures of the audit change a few answers at a time, because a count
that grows with an answer would say what that answer was for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jostle.labeling import audit
from jostle.labeling.contents import draw_uniform

if TYPE_CHECKING:
    from jostle.labeling.session import Session

REVEAL_STEP = 5  # answers between two changes of the audit's figures
AUDIT_FIGURES = (
    "accuracy", "new_data", "recall", "proof", "curve", "advice", "classes", "confusions", "noise", "savings"
)  # fmt: skip


def is_blind(session: Session, key: str) -> bool:
    """Return whether a question is asked without the model's suggestion: all of the audit, and as many picks."""
    purpose, share = session.store.purpose(key), session.settings.audit
    hidden = 1.0 if audit.proof_questions(session) or share > 0.5 else share / (1 - share)
    drawn = draw_uniform(session.settings.seed, "blind", key) < hidden
    return purpose == "audit" or (purpose == "pick" and drawn)


class HeldFigures:
    """Progress for the page, whose audit figures stay as they are until some answers have come in.

    Args:
        compute: Returns the progress as JSON.
    """

    def __init__(self, compute: Callable[[], dict[str, Any]]) -> None:
        self.compute = compute
        self._held: dict[str, Any] = {}

    def get(self) -> dict[str, Any]:
        """Return the progress."""
        found, held = self.compute(), self._held
        moved = abs(found["answered"] - held.get("answered", -REVEAL_STEP)) >= REVEAL_STEP
        if moved or found["models"] != held["models"] or not found["left"]:
            self._held = found
        return {**found, **{name: self._held[name] for name in AUDIT_FIGURES}}
