"""`jostle label`: people label on a page, the model learns behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jostle.cli import assisting, options, serving
from jostle.cli.projects import serve_projects

if TYPE_CHECKING:
    from jostle.labeling.answers import Answers
    from jostle.labeling.session import Session

DEMO_PROJECT = Path("digits.labels")

ANSWERS, PROJECT, LOOP, OWN, PAGE = "Answers", "Project", "Questions", "Model", "Page"  # groups of options

Data = Annotated[
    str | None,
    typer.Argument(
        help="A folder of images, a .csv or .parquet of texts or numbers, a .parquet or saved data set of images, or "
        "file.py:name."
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=ANSWERS,
        metavar="LIST",
        help="The classes to choose from, by comma: cat,dog,other; with keys of your own: cat=c,dog=d.",
    ),
]
Several = Annotated[
    bool, typer.Option("--several", rich_help_panel=ANSWERS, help="Several classes can be right at once.")
]
Target = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=ANSWERS,
        metavar="NAME",
        help="Answers are numbers of this name; a column of that name is neither shown nor learned from.",
    ),
]
AddClasses = Annotated[
    bool,
    typer.Option(
        "--add-classes", rich_help_panel=ANSWERS, help="Add classes that the project does not have yet."
    ),
]
Text = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=options.DATA,
        metavar="COLUMN",
        help="The column that holds the text, or two by comma; none: label rows. Default: text.",
    ),
]
Hide = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=options.DATA,
        metavar="LIST",
        help="Columns that are neither shown nor learned from, by comma.",
    ),
]
Project = Annotated[
    Path | None,
    typer.Option(
        callback=options.named,
        rich_help_panel=PROJECT,
        metavar="DIR",
        help="Folder of the project. Default: beside the data, photos.labels for photos; without data, the only "
        "project in this folder.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PROJECT,
        metavar="ADDRESS",
        help="Database of the answers: postgresql://... for a team. Default: labels.db in the project.",
    ),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        rich_help_panel=LOOP,
        metavar="NAME",
        help="Strategy that picks the questions: any of `jostle list strategies`. Default: default.",
    ),
]
RoundSize = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=LOOP, help="Answers between two trainings. Default: 50."),
]
AuditShare = Annotated[
    str | None,
    typer.Option(
        "--audit",
        rich_help_panel=LOOP,
        metavar="SHARE",
        help="Share of questions drawn at random, whose answers only measure. Default: 15%.",
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OWN,
        metavar="NAME",
        help="Folder or hub name of a different encoder that transformers loads.",
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        "--model", rich_help_panel=OWN, metavar="SPEC", help="file.py:function that builds a model of yours."
    ),
]
Fit = Annotated[
    str | None, typer.Option(rich_help_panel=OWN, metavar="SPEC", help="file.py:function that trains it.")
]
Host = Annotated[
    str,
    typer.Option(
        rich_help_panel=PAGE,
        metavar="ADDRESS",
        help="Address to listen on; one that other machines reach needs --token.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        rich_help_panel=PAGE,
        help="Port to listen on; 0 takes any. Default: 8321 (Label Studio: 9090), or any if that is taken.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PAGE,
        metavar="TEXT",
        help="Token that lets people in. Default: one that is made with the project.",
    ),
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
        serving.check_packages()
        from jostle.labeling.answers import split_class_keys
        from jostle.labeling.session import Session

        settings |= {"answers": self.answers(), "db": self.db, "target": self.target}
        settings |= {"add_classes": self.add_classes}
        data = self.source()
        if data is not None:
            settings |= {"text": names(self.text) or None, "hide": names(self.hide)}
            settings |= {"known": self.known_column(data)}
            project = self.project or (DEMO_PROJECT if self.demo else None)
        else:
            project = self.project or only_project()
        session = Session.open(data, project=project, **settings)
        if keys := split_class_keys(names(self.classes))[1]:
            session.book.choose_keys(keys)
        return session

    def source(self) -> str | None:
        """Return the data to label; None leaves it to an existing project."""
        if self.demo and self.data is not None:
            raise ValueError(f"--demo brings data of its own; leave {self.data!r} out")
        if self.demo:
            from jostle.labeling.sources import DEMO

            return DEMO
        return self.data

    def answers(self) -> Answers | None:
        """Return the kind of answers; None leaves it to an existing project."""
        from jostle.labeling.answers import Answers, split_class_keys

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
        return Answers("several" if self.several else "one", split_class_keys(names(self.classes))[0])

    def known_column(self, data: str) -> str | None:
        """Return the target if the table has a column of that name: its filled cells are answers already."""
        from jostle.labeling.sources import open_source

        table = open_source(data, text=names(self.text) or None)
        return self.target if self.target in getattr(table, "header", list)() else None

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
    add_classes: AddClasses = False,
    text: Text = None,
    hide: Hide = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", rich_help_panel=options.DATA, help="Label handwritten digits that come with jostle."
        ),
    ] = False,
    project: Project = None,
    db: Database = None,
    goal: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=LOOP,
            metavar="VALUE",
            help="The accuracy that is enough, such as 95%; for numbers the mean error, with --find the share found.",
        ),
    ] = None,
    find: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=LOOP,
            metavar="CLASS",
            help="Find all examples of this class: ask by its chance, stop by a bound on the share that was found.",
        ),
    ] = None,
    strategy: StrategyName = None,
    round_size: RoundSize = None,
    audit: AuditShare = None,
    audit_only: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=LOOP,
            metavar="FILE",
            help="Predictions of your model (name, prediction, chance): ask only random questions, which measure it.",
        ),
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=LOOP,
            metavar="SHARE",
            help="Share of questions that two people answer. Default: 0%.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=LOOP,
            metavar="N",
            help="Seed of the audit and all draws; a project keeps its own. Default: 0.",
        ),
    ] = None,
    encoder: Encoder = None,
    model: Network = None,
    fit: Fit = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    token: Token = None,
    guide: assisting.GuideFile = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", rich_help_panel=PAGE, help="Open the page.")
    ] = True,
) -> None:
    """Label on a page while a model learns behind it, until an audit says that it is enough.

    Stop it whenever you like: every answer is on disk, and the same command resumes.
    Without anything to label, the page shows the projects of this machine.
    A folder that has the name of a subcommand is given as a path: ./export.

    Examples:
        jostle label photos/ --classes cat,dog,other
        jostle label reviews.csv --text review --classes good,bad --goal 95%
        jostle label --demo
    """
    from jostle.labeling.answers import parse_share

    if audit_only is not None and not audit_only.is_file():
        raise ValueError(f"--audit-only {audit_only}: there is no such file of predictions")
    asked = LabelOptions(data, classes, several, target, text, hide, project, db, demo, add_classes)
    settings = {
        "strategy": None if strategy is None else check_strategy_name(strategy),
        "batch": round_size,
        "audit": audit_share(audit, audit_only, find),
        "find": find,
        "goal": goal,  # an accuracy or an error, as the project has classes or numbers
        "overlap": None if overlap is None else parse_share(overlap, "--overlap"),
        "seed": seed,
        "encoder": encoder or ("pixels" if demo else None),  # as good for digits, and ready in a second
        "model": model,
        "fit": fit,
        **assisting.help_settings(guide),
    }
    if asked == LabelOptions(None) and set(settings.values()) == {None}:
        return serve_projects(host, port, token, browser)
    session = asked.open_session(**settings)
    if audit_only is not None:
        from jostle.labeling.scoring import begin_audit_only

        begin_audit_only(session, audit_only)
    return serve(session, asked.title, host, port, token, browser)


def audit_share(given: str | None, only: Path | None, find: str | None) -> float | None:
    """Return the share of random questions: all of them for a given model, half of them in a search."""
    from jostle.labeling.answers import parse_share
    from jostle.labeling.stopping import FIND_AUDIT

    if only is not None and given is not None:
        raise ValueError("--audit-only asks random questions alone: leave --audit out")
    if only is not None:
        return 1.0
    if given is None:
        return FIND_AUDIT if find is not None else None
    return parse_share(given, "--audit")


def serve(
    session: Session, title: str, host: str, port: int | None, token: str | None, browser: bool
) -> None:
    """Serve the page until Ctrl-C."""
    from jostle.labeling.projects import register_project
    from jostle.labeling.server import create_server_app

    server = serving.bind_server(session.project, host, port, serving.PORT, token)
    register_project(session.project, session.open_args["db"])
    serving.announce(server.auth.address, server.auth, "Ctrl-C ends it; every answer is on disk.", browser)
    assisting.announce_help(session)
    serving.serve_session(create_server_app(session, server.auth, title), server, session)


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
    if not found:
        raise ValueError(
            "there is no project in this folder: name one with --project, or begin one with `jostle label` and a "
            "folder of images, a .csv, a .parquet, file.py:name or --demo"
        )
    if len(found) > 1:
        raise ValueError(
            f"name one of the projects in this folder with --project: {', '.join(map(str, found))}"
        )
    return found[0]


def names(words: str | None) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(name.strip() for name in (words or "").split(",") if name.strip())
