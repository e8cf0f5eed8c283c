"""Between a session and Label Studio: questions become tasks, annotations become answers."""

from __future__ import annotations

from typing import Any

from jostle.labelling.labelstudio.formats import LOCAL_FILES, Annotation, Tags, prediction, task
from jostle.labelling.session import Session
from jostle.labelling.store import UnknownKeyError

PERSON = "label-studio"  # whose questions they are until somebody annotates them


def tasks(session: Session, n: int, tags: Tags, images: str = LOCAL_FILES) -> list[dict[str, Any]]:
    """The next n questions as tasks, in order, with what the model says; nobody else is asked them meanwhile."""
    return [
        task(session.content(each.key), each.key, order, tags, predicted(session, each.key, tags), images)
        for order, each in enumerate(session.ask(n, PERSON))
    ]


def predicted(session: Session, key: str, tags: Tags) -> dict[str, Any] | None:
    """What the model says of an example; None before there is a model, and of what is audited."""
    found = session.suggestion(key)
    if found is None:
        return None
    return prediction(found.answer, found.confidence, f"round-{found.round}", tags)


def version(session: Session) -> str:
    """The name of the model that predicts now."""
    return f"round-{session.store.last_model()}"


def enter_annotation(session: Session, said: Annotation) -> None:
    """An annotation as an answer, or as a skip."""
    if said.answer is None:
        session.skip(said.key, said.person, id=said.id)
    else:
        session.tell(said.key, said.answer, said.person, said.seconds, said.id)


def pulled(session: Session, found: list[Annotation]) -> tuple[int, int, list[str]]:
    """Enter the annotations of an export: how many answers, how many skips, and words for what does not fit."""
    answers = skips = 0
    wrong: list[str] = []
    for said in found:
        try:
            enter_annotation(session, said)
        except (UnknownKeyError, ValueError) as reason:
            wrong.append(str(reason))
            continue
        answers, skips = answers + (said.answer is not None), skips + (said.answer is None)
    return answers, skips, wrong
