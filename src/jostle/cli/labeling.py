"""`jostle label`: people label on a page, the model learns behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jostle.cli import labels, options, serving

if TYPE_CHECKING:
    from jostle.labeling.answers import AnswerKind, Answers
    from jostle.labeling.session import Session

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
        help="Answers are numbers of this name; a column of that name is neither shown nor learned from."
    ),
]
Text = Annotated[
    str | None,
    typer.Option(help="The column that holds the text, or two by comma; none: label rows. Default: `text`."),
]
Hide = Annotated[str | None, typer.Option(help="Columns that are neither shown nor learned from, by comma.")]
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
    typer.Option(
        min=0, max=65535, help="Port to listen on; 0 takes any. Default: 8321 (Label Studio: 9090), or any."
    ),
]
Token = Annotated[
    str | None, typer.Option(help="What lets people in. Default: one that is made with the project.")
]


@dataclass(frozen=True)
class LabelOptions:
    """Command line options of the data and its answers."""

    data: str | None
    classes: str | None = None
    several: bool = False
    target: str | None = None
    text: str | None = None
    hide: str | None = None
    project: Path | None = None
    db: str | None = None
    demo: bool = False
    add_classes: bool = False

    def open_session(self, **settings: Any) -> Session:
        """Open the session; raise an ImportError that names the extra if a package is missing."""
        try:
            import fastapi  # noqa: F401
            import uvicorn  # noqa: F401

            from jostle.labeling.session import Session
        except ImportError as missing:
            raise ImportError(f"{missing.name} is missing: pip install 'jostle[label]'") from None
        settings |= {"answers": self.answers(), "db": self.db, "target": self.target}
        settings |= {"add_classes": self.add_classes}
        if self.data is None and not self.demo:
            return Session.open(project=self.project or only_project(), **settings)
        return Session.open(
            self.source(),
            project=self.project or (DEMO_PROJECT if self.demo else None),
            text=names(self.text) or None,
            hide=names(self.hide),
            known=self.known_column(),
            **settings,
        )

    def source(self) -> Any:
        """Return the data to label."""
        if self.demo and self.data is not None:
            raise ValueError(f"--demo brings data of its own; leave {self.data!r} out")
        if self.demo:
            from jostle.labeling.sources import Digits

            return Digits()
        return self.data

    def answers(self) -> Answers | None:
        """Return the kind of answers; None leaves it to an existing project."""
        from jostle.labeling.answers import Answers

        if self.target is not None and (self.classes is not None or self.several):
            raise ValueError(
                "--target asks for numbers, --classes and --several for classes: give one of them"
            )
        if self.target is not None:
            return Answers("number")
        if self.demo and self.classes is None:
            from jostle.labeling.sources import DIGIT_CLASSES

            return Answers("one", DIGIT_CLASSES)
        if self.classes is None:
            return None
        return Answers("several" if self.several else "one", names(self.classes))

    def known_column(self) -> str | None:
        """Return the target if the table has a column of that name: its filled cells are answers already."""
        from jostle.labeling.sources import open_source

        table = open_source(self.source(), text=names(self.text) or None)
        return self.target if self.target in getattr(table, "header", list)() else None

    @property
    def kind(self) -> AnswerKind:
        """Kind of answers of a new project."""
        return "number" if self.target else "several" if self.several else "one"

    @property
    def title(self) -> str:
        """Name of the data on the page."""
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
            help="What chooses the next questions: any of `jostle list strategies`. Default: `default`."
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
        typer.Option(
            "--add-classes", help="With --classes or --import: add those that the project does not have."
        ),
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
    from jostle.labeling.answers import parse_goal, parse_share

    asked = LabelOptions(data, classes, several, target, text, hide, project, db, demo, add_classes)
    settings = {
        "strategy": None if strategy is None else check_strategy_name(strategy),
        "batch": batch,
        "audit": None if audit is None else parse_share(audit, "--audit"),
        "goal": goal,  # an accuracy or an error, as the project has classes or numbers
        "overlap": None if overlap is None else parse_share(overlap, "--overlap"),
        "seed": seed,
        "encoder": encoder or ("pixels" if demo else None),  # as good for digits, and ready in a second
        "model": model,
        "fit": fit,
    }
    if simulate is not None:
        habits = {"people": people, "error": parse_share(error, "--error"), "delay": delay}
        values = [parse_goal(word, asked.kind, "--reach") for word in names(reach)]
        return simulate_labeling(asked, simulate, answers, seeds, habits, settings, values)
    session = asked.open_session(**settings)
    if import_ is not None:
        labels.import_from(session, import_, add_classes)
    if export is not None:
        labels.export_to(session, export, predictions, copy, overwrite)
    if import_ is None and export is None:
        serve(session, asked.title, host, port, token, browser)
    return None


def simulate_labeling(
    asked: LabelOptions,
    column: str,
    answers: int,
    seeds: int,
    habits: dict[str, Any],
    settings: dict[str, Any],
    values: list[float],
) -> None:
    """Simulate in a folder inside the project's."""
    from jostle.cli.simulating import run_simulation
    from jostle.labeling.project import default_folder
    from jostle.labeling.simulation import Habits, Study

    if asked.data is None:
        raise ValueError(
            "--simulate needs data with a column of answers: name a .csv, .parquet, folder or file.py:name"
        )
    opening = {name: value for name, value in settings.items() if value is not None and name != "seed"}
    opening |= {"text": names(asked.text)} if asked.text else {}
    opening |= {"hide": (*names(asked.hide), column)} if asked.hide else {}
    study = Study(asked.data, column, asked.kind, answers, seeds, opening, Habits(**habits))
    run_simulation(study, (asked.project or default_folder(asked.data)) / "simulation", values)


def serve(
    session: Session, title: str, host: str, port: int | None, token: str | None, browser: bool
) -> None:
    """Serve the page until Ctrl-C."""
    from jostle.labeling.server import create_server_app

    server = serving.bind_server(session, host, port, PORT, token)
    serving.announce(server.auth.address, server.auth, "Ctrl-C ends it; every answer is on disk.", browser)
    serving.serve_until_interrupt(create_server_app(session, server.auth, title), server, session)


def check_strategy_name(name: str) -> str:
    """Return the name of a strategy, checked in another process: the server stays without torch."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from jostle.labeling.queue import check_strategy

    with ProcessPoolExecutor(1, get_context("spawn")) as aside:
        aside.submit(check_strategy, name).result()
    return name


def only_project() -> Path:
    """Return the labeling project of this folder, if there is just one."""
    found = sorted(path.parent for path in Path().glob("*.labels/labels.db"))
    if len(found) != 1:
        there = f"here are {', '.join(map(str, found))}" if found else "there is no project here"
        raise ValueError(
            "name what to label: a folder of images, a .csv, a .parquet or file.py:name; or --demo; "
            f"or with --project what was begun ({there})"
        )
    return found[0]


def names(words: str | None) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(name.strip() for name in (words or "").split(",") if name.strip())
