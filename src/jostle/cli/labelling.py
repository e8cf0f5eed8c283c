"""`jostle label`: people label on a page, the model learns behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jostle.cli import serving

if TYPE_CHECKING:
    from jostle.labelling.answers import Answers
    from jostle.labelling.session import Session

PORT = 8321  # unless told otherwise: a page that is open finds the server again
DEMO_PROJECT = Path("digits.labels")

Data = Annotated[
    str | None,
    typer.Argument(help="A folder of images, a .csv or .parquet of texts or numbers, or file.py:name."),
]
Classes = Annotated[str | None, typer.Option(help="The classes to choose from, by comma: cat,dog,other.")]
Several = Annotated[bool, typer.Option("--several", help="Several classes can be right at once.")]
Target = Annotated[
    str | None,
    typer.Option(
        help="Answers are numbers of this name; a column of that name is neither shown nor learnt from."
    ),
]
Text = Annotated[
    str | None, typer.Option(help="The column that holds the text, or two by comma. Default: `text`.")
]
Hide = Annotated[str | None, typer.Option(help="Columns that are neither shown nor learnt from, by comma.")]
Project = Annotated[
    Path | None,
    typer.Option(help="The project's folder. Default: beside the data, photos.labels for photos."),
]
Database = Annotated[
    str | None,
    typer.Option(
        help="Where answers are kept: postgresql://... for a team. Default: labels.db in the project."
    ),
]
Host = Annotated[
    str, typer.Option(help="Address to listen on; other than this machine's own it needs --token.")
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any. Default: the usual, or any."),
]
Token = Annotated[
    str | None, typer.Option(help="What lets people in. Default: one that is made with the project.")
]


@dataclass(frozen=True)
class Asked:
    """What the command line says of the data and its answers."""

    data: str | None
    classes: str | None = None
    several: bool = False
    target: str | None = None
    text: str | None = None
    hide: str | None = None
    project: Path | None = None
    db: str | None = None
    demo: bool = False

    def opened(self, **settings: Any) -> Session:
        """The session; a package that is missing is named with the extra that brings it."""
        try:
            import fastapi  # noqa: F401
            import uvicorn  # noqa: F401

            from jostle.labelling.session import Session
        except ImportError as missing:
            raise ImportError(f"{missing.name} is missing: pip install 'jostle[label]'") from None
        return Session.open(
            self.source(),
            project=self.project or (DEMO_PROJECT if self.demo else None),
            answers=self.answers(),
            db=self.db,
            text=names(self.text) or None,
            hide=self.hidden(),
            **settings,
        )

    def source(self) -> Any:
        """What is to be labelled."""
        if self.demo and self.data is not None:
            raise ValueError(f"--demo brings data of its own; leave {self.data!r} out")
        if self.demo:
            from jostle.labelling.demo import Digits

            return Digits()
        if self.data is None:
            raise ValueError(
                "name what to label: a folder of images, a .csv, a .parquet or file.py:name; or --demo"
            )
        return self.data

    def answers(self) -> Answers | None:
        """How it is answered; None leaves it to a project that is there."""
        from jostle.labelling.answers import Answers

        if self.target is not None and (self.classes is not None or self.several):
            raise ValueError(
                "--target asks for numbers, --classes and --several for classes: give one of them"
            )
        if self.target is not None:
            return Answers("number")
        if self.demo and self.classes is None:
            from jostle.labelling.demo import CLASSES

            return Answers("one", CLASSES)
        if self.classes is None:
            return None
        return Answers("several" if self.several else "one", names(self.classes))

    def hidden(self) -> tuple[str, ...]:
        """Columns to hide: those named, and the target where the table has it already."""
        from jostle.labelling.source import opened

        table = opened(self.source(), text=names(self.text) or None)
        there = self.target is not None and self.target in getattr(table, "header", list)()
        return (*names(self.hide), *((self.target,) if self.target is not None and there else ()))

    @property
    def title(self) -> str:
        """What the page calls the data."""
        return "digits" if self.data is None else Path(self.data).name


def label(
    data: Data = None,
    classes: Classes = None,
    several: Several = False,
    target: Target = None,
    text: Text = None,
    hide: Hide = None,
    project: Project = None,
    db: Database = None,
    goal: Annotated[
        str | None, typer.Option(help="The accuracy that is enough, such as 95%; of numbers, the mean error.")
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="What chooses the next questions: any of `jostle list strategies`.")
    ] = "default",
    batch: Annotated[int, typer.Option(min=1, help="Answers between two trainings.")] = 50,
    audit: Annotated[
        str, typer.Option(help="The share of questions drawn at random, whose answers only measure.")
    ] = "15%",
    overlap: Annotated[str, typer.Option(help="The share of questions that two people answer.")] = "0%",
    seed: Annotated[int, typer.Option(help="The same seed draws the same audit.")] = 0,
    encoder: Annotated[
        str | None, typer.Option(help="Folder or hub name of another encoder that transformers loads.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="file.py:function that builds a model of yours.")] = None,
    fit: Annotated[str | None, typer.Option(help="file.py:function that trains it.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Label handwritten digits that come along.")] = False,
    host: Host = "127.0.0.1",
    port: Port = None,
    token: Token = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Label on a page while a model learns behind it, until an audit says that it is enough.

    Stop it whenever you like: every answer is on disk, and the same command goes on.
    """
    asked = Asked(data, classes, several, target, text, hide, project, db, demo)
    session = asked.opened(
        strategy=strategy,
        batch=batch,
        audit=share("--audit", audit),
        goal=None if goal is None else goal_of(goal, numbers=target is not None),
        overlap=share("--overlap", overlap),
        seed=seed,
        encoder=encoder,
        model=model,
        fit=fit,
    )
    serve(session, asked.title, host, port, token, browser)


def serve(
    session: Session, title: str, host: str, port: int | None, token: str | None, browser: bool
) -> None:
    """Serve the page until Ctrl-C."""
    from jostle.labelling.server import guarded

    door, listening = serving.opened(session, host, port, PORT, token)
    serving.announce(door.address, door, "Ctrl-C ends it; every answer is on disk.", browser)
    serving.run(guarded(session, door, title), listening, session)


def share(option: str, words: str) -> float:
    """A share as people write it: 95%, 95 % or 0.95."""
    plain = words.strip()
    try:
        value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{option} takes a share, such as 95% or 0.95; got {words!r}")
    return value


def goal_of(words: str, numbers: bool) -> float:
    """An accuracy as a share; of numbers, the mean error in their unit."""
    if not numbers:
        return share("--goal", words)
    try:
        return float(words)
    except ValueError:
        raise ValueError(f"--goal of numbers takes a mean error, such as 2.5; got {words!r}") from None


def names(words: str | None) -> tuple[str, ...]:
    """Names by comma."""
    return tuple(name.strip() for name in (words or "").split(",") if name.strip())
