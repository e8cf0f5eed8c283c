"""A project that jostle 0.2 wrote opens, and goes on."""

import sqlite3
from pathlib import Path

from jostle.labeling import Session

HERE = Path(__file__).parent
TEXTS = (
    "door", "bill", "screen", "invoice", "keyboard", "payment", "mouse", "refund", "cable", "price", "lamp", "receipt"
)  # fmt: skip


def test_a_project_of_0_2_opens_with_every_answer_and_goes_on(tmp_path: Path) -> None:
    rows = [f'{number},"ticket number {number}: the {word} is broken"' for number, word in enumerate(TEXTS)]
    (tmp_path / "tickets.csv").write_text("\n".join(["id,text", *rows]) + "\n", encoding="utf-8")
    (tmp_path / "tickets.labels").mkdir()
    with sqlite3.connect(tmp_path / "tickets.labels" / "labels.db") as database:
        database.executescript((HERE / "project-0.2.sql").read_text(encoding="utf-8"))
    database.close()
    session = Session.open(tmp_path / "tickets.csv")
    assert session.classes() == ["hardware", "billing", "other"]
    named = {session.question(key).name: answer for key, answer in session.labels().items()}
    assert named == {
        "1": "billing", "2": "hardware", "4": "hardware", "5": "billing", "6": "other", "8": "hardware",
        "9": "billing", "10": "other", "11": "billing",
    }  # fmt: skip
    assert session.settings.goal == 0.9
    assert session.settings.seed == 3
    assert session.answers().total == 10
    undone = session.undo("ann")
    assert undone.answer == "billing"
    session.tell(undone.key, "hardware", "ann")
    assert session.labels()[undone.key] == "hardware"
    assert {question.name for question in session.ask(3, "cy")}
    assert session.train() == 2
    assert session.accuracy().round == 2
    session.close()
