"""`jostle label`: people label on a page, the model learns behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from jostle.cli import options, serving
from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.answers import Answers
    from jostle.labeling.session import Session

DEMO_PROJECT = Path("digits.labels")


@dataclass(frozen=True)
class ProjectOptions:
    """Options of a project and its answers, the same for all commands that open one."""

    classes: Annotated[str | None, options.option(options.ANSWERS, "LIST")] = None
    """The classes to choose from, by comma: cat,dog,other; with keys of your own: cat=c,dog=d."""
    several: options.Several = False
    target: Annotated[str | None, options.option(options.ANSWERS, "NAME")] = None
    """Answers are numbers of this name; a column of that name is neither shown nor learned from."""
    text: options.Text = None
    hide: options.Hide = None
    project: options.Project = None
    db: options.Database = None

    def open_session(self, data: str | None, demo: bool = False, **settings: Any) -> Session:
        """Open the session on data; None: those of an existing project."""
        serving.check_packages()
        from jostle.labeling.answers import split_class_keys
        from jostle.labeling.session import Session
        from jostle.labeling.sources import DEMO

        if demo and data is not None:
            raise ValueError(f"--demo brings data of its own; leave {data!r} out")
        data, usual = (DEMO, DEMO_PROJECT) if demo else (data, None)
        settings |= {"answers": self.answers(demo), "db": self.db, "target": self.target}
        if data is not None:
            text = names(self.text) or None
            settings |= {"text": text, "hide": names(self.hide), "known": self.known_column(data)}
        project = self.project or (only_project() if data is None else usual)
        session = Session.open(data, project=project, **settings)
        if keys := split_class_keys(names(self.classes))[1]:
            session.book.choose_keys(keys)
        return session

    def answers(self, demo: bool) -> Answers | None:
        """Return the kind of answers; None leaves it to an existing project."""
        from jostle.labeling.answers import Answers, split_class_keys
        from jostle.labeling.sources import DIGIT_CLASSES

        if self.target is not None and (self.classes is not None or self.several):
            raise ValueError(
                "--target asks for numbers, --classes and --several for classes: give one of them"
            )
        if self.target is not None:
            return Answers("number")
        if self.classes is None:
            return Answers("one", DIGIT_CLASSES) if demo else None
        return Answers("several" if self.several else "one", split_class_keys(names(self.classes))[0])

    def known_column(self, data: str) -> str | None:
        """Return the target if the table has a column of that name: its filled cells are answers already."""
        from jostle.labeling.sources import open_source

        table = open_source(data, text=names(self.text) or None)
        return self.target if self.target in getattr(table, "header", list)() else None

    def title(self, data: str | None, demo: bool = False) -> str:
        """Name of the data on the page."""
        if data is None:
            return "digits" if demo else (self.project or only_project()).stem
        return Path(data).name


def label(
    asked: ProjectOptions,
    goals: options.GoalOptions,
    learning: options.LearningOptions,
    page: options.LabelOptions,
    data: options.Data = None,
    add_classes: options.AddClasses = False,
    demo: Annotated[
        bool,
        options.option(options.DATA, None, "--demo", help="Label handwritten digits that come with jostle."),
    ] = False,
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
    from jostle.labeling.audit.stopping import FIND_AUDIT
    from jostle.labeling.guide import check_guide
    from jostle.labeling.training.suggesters import check_suggest

    if page.audit_only is not None and not page.audit_only.is_file():
        raise ValueError(f"--audit-only {page.audit_only}: there is no such file of predictions")
    if page.audit_only is not None and learning.audit is not None:
        raise ValueError("--audit-only asks random questions alone: leave --audit out")
    settings = {
        "find": goals.find,
        "goal": goals.goal,  # an accuracy or an error, as the project has classes or numbers
        **learning_settings(learning),
        "overlap": None if page.overlap is None else parse_share(page.overlap, "--overlap"),
        "near_copies": page.near_copies,
        "seed": page.seed,
        "guide": None if page.guide is None else check_guide(page.guide),
        "suggest": None if page.suggest is None else check_suggest(page.suggest, page.suggest_model),
        "suggest_model": page.suggest_model,
        "suggest_limit": page.suggest_limit,
    }
    if page.audit_only is not None:
        settings["audit"] = 1.0
    elif goals.find is not None and learning.audit is None:
        settings["audit"] = FIND_AUDIT
    if not (data or add_classes or demo) and set(settings.values()) == {None} and asked == ProjectOptions():
        return serving.serve_projects(page)
    if demo:
        settings["encoder"] = learning.encoder or "pixels"  # as good for digits, and ready in a second
    session = asked.open_session(data, demo, add_classes=add_classes, **settings)
    if page.audit_only is not None:
        from jostle.labeling.audit.other_models import begin_audit_only

        begin_audit_only(session, page.audit_only)
    return serve(session, asked.title(data, demo), page)


def learning_settings(learning: options.LearningOptions) -> dict[str, Any]:
    """Return settings of a session; None where an option was not given."""
    from jostle.labeling.answers import parse_share

    return {
        "strategy": None if learning.strategy is None else check_strategy_name(learning.strategy),
        "batch": learning.round_size,
        "audit": None if learning.audit is None else parse_share(learning.audit, "--audit"),
        "encoder": learning.encoder,
        "model": learning.model,
        "fit": learning.fit,
    }


def serve(session: Session, title: str, page: options.LabelOptions) -> None:
    """Serve the page until Ctrl-C."""
    from jostle.labeling.project import register_project
    from jostle.labeling.server import create_server_app
    from jostle.labeling.training.suggesters import check_columns

    check_columns(session)
    server = serving.bind_server(session.project, page, serving.PORT)
    register_project(session.project, session.open_args["db"])
    serving.announce(
        server.auth.address, server.auth, "Ctrl-C ends it; every answer is on disk.", page.browser
    )
    announce_help(session)
    serving.serve_session(create_server_app(session, server.auth, title), server, session)


def announce_help(session: Session) -> None:
    """Print what the author of the guide should mend, and where examples are sent."""
    from jostle.labeling.guide import GuideReader
    from jostle.labeling.training.suggesters import DEFAULT_LIMIT
    from jostle.utils.sockets import is_remote

    chosen = session.settings
    for problem in GuideReader(session).get().problems:
        say(f"{Path(str(chosen.guide)).name}: {problem}")
    if is_remote(chosen.suggest):
        plain = " The connection is not encrypted." if str(chosen.suggest).startswith("http:") else ""
        calls = f"at most {chosen.suggest_limit or DEFAULT_LIMIT:,} calls"
        say(f"Examples are sent to {chosen.suggest} for suggestions, {calls}.{plain}")


def check_strategy_name(name: str) -> str:
    """Return the name of a strategy, checked in another process: the server stays without torch."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from jostle.labeling.audit.queue import check_strategy

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
