"""Searches by meaning: the server asks for the embedding of a text, the background process computes it.

The server does without torch, so both talk through a table: a row is added with the text, and filled with its reduced
embedding.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, update

from jostle.labeling.contents import Content
from jostle.labeling.example_map import ExampleMap
from jostle.labeling.schema import lookups

if TYPE_CHECKING:
    from jostle.labeling.session import Session

WAIT_SECONDS = 6.0  # seconds that a search waits for the background process
POLL_SECONDS = 0.1
NOT_ENCODED: list[float] = []  # of a text that the encoder of the project cannot compare


def look_up(session: Session, text: str, seconds: float = WAIT_SECONDS) -> NDArray[np.float32]:
    """Return the reduced embedding (r,) of a text.

    Raises:
        ValueError: The background process is busy, or its encoder takes no single texts.
    """
    store = session.store
    with store.write_transaction(durable=False) as tx:
        store.upsert(tx, lookups, ["text"], [{"text": text, "row": None, "at": store.clock()}])
    wanted = select(lookups.c.row).where(lookups.c.text == text)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with store.read_transaction() as tx:
            row = tx.execute(wanted).scalar_one_or_none()
        if row is not None:
            found = np.array(json.loads(row), dtype=np.float32)
            if not len(found):
                raise ValueError("the encoder of this project compares no single texts: search for words")
            return found
        time.sleep(POLL_SECONDS)
    raise ValueError("the model is busy learning: try again in a moment, or search for words")


def answer_lookups(session: Session) -> int:
    """Embed the texts that the server waits for; return their number."""
    with session.store.read_transaction() as tx:
        texts = list(tx.execute(select(lookups.c.text).where(lookups.c.row.is_(None))).scalars())
    if not texts:
        return 0
    found = ExampleMap.load(session.map_folder)
    encoder = getattr(session.learner(), "encoder", None)
    for text in texts:
        row = NOT_ENCODED
        if found is not None and encoder is not None and session.source.kind == "text":
            made = encoder.encode([encoder.read(Content("text", "", texts=(text,)))])  # (1, d)
            if made.shape[1] == len(found.mean):
                row = found.reduce(made)[0].tolist()
        with session.store.write_transaction(durable=False) as tx:
            tx.execute(update(lookups).where(lookups.c.text == text).values(row=json.dumps(row)))
    return len(texts)
