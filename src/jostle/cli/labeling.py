"""`jostle label`: people label on a page, the model learns behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jostle.cli import assisting, options, serving
from jostle.cli.projects import serve_projects

if TYPE_CHECKING:
    from jostle.labeling.answers import Answers
    from jostle.labeling.session import Session

DEMO_PROJECT = Path("digits.labels")


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
    data: options.Data = None,
    classes: options.Classes = None,
    several: options.Several = False,
    target: options.Target = None,
    add_classes: options.AddClasses = False,
    text: options.Text = None,
    hide: options.Hide = None,
    demo: options.Demo = False,
    project: options.Project = None,
    db: options.Database = None,
    goal: options.Goal = None,
    find: options.FindClass = None,
    strategy: options.StrategyName = None,
    round_size: options.RoundSize = None,
    audit: options.AuditShare = None,
    audit_only: options.AuditOnly = None,
    overlap: options.Overlap = None,
    near_copies: options.NearCopies = None,
    seed: options.ProjectSeed = None,
    encoder: options.Encoder = None,
    model: options.Network = None,
    fit: options.Fit = None,
    host: options.Host = "127.0.0.1",
    port: options.Port = None,
    token: options.Token = None,
    guide: assisting.GuideFile = None,
    suggest: assisting.Suggest = None,
    suggest_model: assisting.SuggestModel = None,
    suggest_limit: assisting.SuggestLimit = None,
    browser: options.Browser = True,
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
        "near_copies": near_copies,
        "seed": seed,
        "encoder": encoder or ("pixels" if demo else None),  # as good for digits, and ready in a second
        "model": model,
        "fit": fit,
        **assisting.help_settings(guide, suggest, suggest_model, suggest_limit),
    }
    if asked == LabelOptions(None) and set(settings.values()) == {None}:
        return serve_projects(host, port, token, browser)
    session = asked.open_session(**settings)
    if audit_only is not None:
        from jostle.labeling.audit.scoring import begin_audit_only

        begin_audit_only(session, audit_only)
    return serve(session, asked.title, host, port, token, browser)


def audit_share(given: str | None, only: Path | None, find: str | None) -> float | None:
    """Return the share of random questions: all of them for a given model, half of them in a search."""
    from jostle.labeling.answers import parse_share
    from jostle.labeling.audit.stopping import FIND_AUDIT

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
    from jostle.labeling.server import create_server_app
    from jostle.labeling.server.projects import register_project

    assisting.check_files(session)
    server = serving.bind_server(session.project, host, port, serving.PORT, token)
    register_project(session.project, session.open_args["db"])
    serving.announce(server.auth.address, server.auth, "Ctrl-C ends it; every answer is on disk.", browser)
    assisting.announce_help(session)
    serving.serve_session(create_server_app(session, server.auth, title), server, session)


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
