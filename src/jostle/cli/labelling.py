"""`jostle label`: people label on a page, the model learns behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jostle.cli import labels, options, serving

if TYPE_CHECKING:
    from jostle.labelling.answers import AnswerKind, Answers
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
    typer.Option(
        callback=options.named,
        help="The project's folder. Default: beside the data, photos.labels for photos.",
    ),
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
        settings |= {"answers": self.answers(), "db": self.db, "target": self.target}
        if self.data is None and not self.demo:
            return Session.open(project=self.project or only_project(), **settings)
        return Session.open(
            self.source(),
            project=self.project or (DEMO_PROJECT if self.demo else None),
            text=names(self.text) or None,
            hide=names(self.hide),
            known=self.known(),
            **settings,
        )

    def source(self) -> Any:
        """What is to be labelled."""
        if self.demo and self.data is not None:
            raise ValueError(f"--demo brings data of its own; leave {self.data!r} out")
        if self.demo:
            from jostle.labelling.demo import Digits

            return Digits()
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

    def known(self) -> str | None:
        """The target where the table has a column of that name: what stands there is answered already."""
        from jostle.labelling.source import open_source

        table = open_source(self.source(), text=names(self.text) or None)
        return self.target if self.target in getattr(table, "header", list)() else None

    @property
    def kind(self) -> AnswerKind:
        """How a new project is answered."""
        return "number" if self.target else "several" if self.several else "one"

    @property
    def title(self) -> str:
        """What the page calls the data."""
        if self.data is None:
            return "digits" if self.demo else (self.project or only_project()).stem
        return Path(self.data).name


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
        str | None,
        typer.Option(
            help="What chooses the next questions: any of `jostle list strategies`. Default: the usual."
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Answers between two trainings. Default: 50.")
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option(
            help="The share of questions drawn at random, whose answers only measure. Default: 15%."
        ),
    ] = None,
    overlap: Annotated[
        str | None, typer.Option(help="The share of questions that two people answer. Default: none.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="The same seed draws the same audit; a project keeps its own. Default: 0."),
    ] = None,
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
    export: Annotated[
        Path | None,
        typer.Option(
            callback=options.named,
            help="Write the labels and end: .csv, .parquet, .json, labelstudio.json, or a folder.",
        ),
    ] = None,
    predictions: Annotated[
        bool, typer.Option("--predictions", help="With --export: also what the model says of the rest.")
    ] = False,
    copy: Annotated[bool, typer.Option("--copy", help="With a folder: copies in place of links.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --export: over a file that jostle did not write.")
    ] = False,
    import_: Annotated[
        Path | None, typer.Option("--import", help="Take in labels made elsewhere: .csv, .parquet or .json.")
    ] = None,
    add_classes: Annotated[
        bool,
        typer.Option("--add-classes", help="With --import: classes that the project does not have, too."),
    ] = False,
    simulate: Annotated[
        str | None, typer.Option(help="Answer from this column in place of people, against random picks.")
    ] = None,
    answers: Annotated[int, typer.Option(min=1, help="With --simulate: answers of each run.")] = 400,
    seeds: Annotated[int, typer.Option(min=1, help="With --simulate: runs of each kind.")] = 5,
    people: Annotated[int, typer.Option(min=1, help="With --simulate: people who take turns.")] = 1,
    error: Annotated[str, typer.Option(help="With --simulate: share of wrong answers.")] = "0%",
    delay: Annotated[
        float, typer.Option(min=0, help="With --simulate: mean seconds that an answer takes.")
    ] = 0.0,
    reach: Annotated[
        str | None, typer.Option(help="With --simulate: accuracies or errors to count answers for, by comma.")
    ] = None,
) -> None:
    """Label on a page while a model learns behind it, until an audit says that it is enough.

    Stop it whenever you like: every answer is on disk, and the same command goes on.
    """
    from jostle.labelling.answers import goal_of, share_of

    asked = Asked(data, classes, several, target, text, hide, project, db, demo)
    settings = {
        "strategy": None if strategy is None else known_strategy(strategy),
        "batch": batch,
        "audit": None if audit is None else share_of(audit, "--audit"),
        "goal": goal,  # an accuracy or an error, as the project has classes or numbers
        "overlap": None if overlap is None else share_of(overlap, "--overlap"),
        "seed": seed,
        "encoder": encoder or ("pixels" if demo else None),  # as good for digits, and ready in a second
        "model": model,
        "fit": fit,
    }
    if simulate is not None:
        habits = {"people": people, "error": share_of(error, "--error"), "delay": delay}
        values = [goal_of(word, asked.kind, "--reach") for word in names(reach)]
        return rehearse(asked, simulate, answers, seeds, habits, settings, values)
    session = asked.opened(**settings)
    if import_ is not None:
        labels.imported(session, import_, add_classes)
    if export is not None:
        labels.exported(session, export, predictions, copy, overwrite)
    if import_ is None and export is None:
        serve(session, asked.title, host, port, token, browser)
    return None


def rehearse(
    asked: Asked,
    column: str,
    answers: int,
    seeds: int,
    habits: dict[str, Any],
    settings: dict[str, Any],
    values: list[float],
) -> None:
    """Simulate in a folder of its own, inside the project's."""
    from jostle.cli.simulating import simulated
    from jostle.labelling.project import beside
    from jostle.labelling.simulate import Habits, Study

    if asked.data is None:
        raise ValueError(
            "--simulate needs data with a column of answers: name a .csv, .parquet, folder or file.py:name"
        )
    opening = {name: value for name, value in settings.items() if value is not None and name != "seed"}
    opening |= {"text": names(asked.text)} if asked.text else {}
    opening |= {"hide": (*names(asked.hide), column)} if asked.hide else {}
    study = Study(asked.data, column, asked.kind, answers, seeds, opening, Habits(**habits))
    simulated(study, (asked.project or beside(asked.data)) / "simulation", values)


def serve(
    session: Session, title: str, host: str, port: int | None, token: str | None, browser: bool
) -> None:
    """Serve the page until Ctrl-C."""
    from jostle.labelling.server import guarded_app

    door, listening = serving.open_door(session, host, port, PORT, token)
    serving.announce(door.address, door, "Ctrl-C ends it; every answer is on disk.", browser)
    serving.serve_until_interrupt(guarded_app(session, door, title), listening, session)


def known_strategy(name: str) -> str:
    """The name of a strategy, looked up in a process of its own: what serves the page stays without torch."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from jostle.labelling.ranking import check_strategy

    with ProcessPoolExecutor(1, get_context("spawn")) as aside:
        aside.submit(check_strategy, name).result()
    return name


def only_project() -> Path:
    """The labelling project of this folder, where there is just one."""
    found = sorted(path.parent for path in Path().glob("*.labels/labels.db"))
    if len(found) != 1:
        there = f"here are {', '.join(map(str, found))}" if found else "there is no project here"
        raise ValueError(
            "name what to label: a folder of images, a .csv, a .parquet or file.py:name; or --demo; "
            f"or with --project what was begun ({there})"
        )
    return found[0]


def names(words: str | None) -> tuple[str, ...]:
    """Names by comma."""
    return tuple(name.strip() for name in (words or "").split(",") if name.strip())
