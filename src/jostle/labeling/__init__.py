"""People label, the model learns, and numbers say when it is enough: `Session` is the whole loop."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jostle.labeling.answers import Answers
    from jostle.labeling.session import Session
    from jostle.labeling.sources.contents import Content, Question

__all__ = ["Answers", "Content", "Question", "Session"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: the packages of the extra `label` are needed for a session only."""
    from importlib import import_module

    contents = "sources.contents"
    homes = {"Answers": "answers", "Content": contents, "Question": contents, "Session": "session"}
    if name not in homes:
        raise AttributeError(f"module 'jostle.labeling' has no attribute {name!r}")
    return getattr(import_module(f"jostle.labeling.{homes[name]}"), name)
