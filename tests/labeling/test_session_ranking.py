"""What is asked next: rankings, what is left of them, and the predictions behind them."""

from pathlib import Path
from typing import Any

import numpy as np
from answering import labeled
from labeling_data import COLORS
from sqlalchemy import select

from jostle.labeling import Session
from jostle.labeling.store.schema import queue


def test_the_same_seed_asks_the_same(colors: Path, tmp_path: Path) -> None:
    asked = []
    for place in ("a", "b"):
        settings = {"project": tmp_path / place, "answers": COLORS, "encoder": "pixels", "seed": 3}
        session = Session.open(colors, batch=20, **settings)
        session.train()
        names = labeled(session, 20)
        session.train()
        asked.append(names + labeled(session, 20))
    assert asked[0] == asked[1]


def ranked(session: Session, number: int) -> list[Any]:
    """The ranking of a round, in order."""
    with session.store.read_transaction() as tx:
        return list(tx.execute(select(queue).where(queue.c.round == number).order_by(queue.c.rank)))


def test_the_ranking_holds_a_few_batches_of_picks_and_audit_and_then_whatever_is_there(
    session: Session,
) -> None:
    rows = ranked(session, session.train())
    assert sum(row.purpose == "audit" for row in rows[:20]) == 3
    assert np.unique([row.key for row in rows[:60] if row.purpose == "audit"]).size == 9
    assert len({row.key for row in rows}) == session.progress().examples
    spare = {row.key for row in rows[60:]}
    assert len(spare) == len(rows) - 60
    assert not spare & {row.key for row in rows[:60]}
    assert sum(row.purpose == "audit" for row in rows) == round(0.15 * len(rows))


def test_of_a_ranking_that_ended_stays_what_people_came_to(session: Session) -> None:
    first = session.train()
    keys = set(labeled(session, 7))
    session.train()
    rows = ranked(session, first)
    assert {row.key for row in rows if row.purpose == "pick"} <= keys
    assert len(keys) - len(rows) < 3, "only audit questions after the last pick are gone"


def test_a_question_that_was_left_open_is_asked_again(session: Session) -> None:
    session.train()
    left = [question.key for question in session.ask(5, "ann")]
    labeled(session, 20, "bob")
    session.skip(left[0], "ann")
    session.train()
    session.release("ann")
    again = {question.key for question in session.ask(5, "bob")}
    assert again == set(left)  # first of all, whatever the new ranking says
    session.release("bob")
    assert left[0] not in {question.key for question in session.ask(200, "ann")}


def test_predictions_of_everything_are_kept_for_the_last_rounds(session: Session) -> None:
    session.train()
    for _ in range(5):
        labeled(session, 10)
        session.train()
    kept = [number for number in range(1, 7) if (session.round_folder(number) / "predictions.npz").exists()]
    assert kept == [4, 5, 6]
    assert len(session.curve()) == 5
    assert all((session.round_folder(number) / "model.pt").exists() for number in range(2, 7))
