"""`jostle label`: people label on a page, the model learns behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jostle.cli import options, serving
from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.answers import Answers
    from jostle.labeling.session import Session

DEMO_PROJECT = Path("digits.labels")


@dataclass(frozen=True)
class ProjectOptions:
    """Options of a project and its answers, the same for all commands that open one."""

    classes: options.Classes = None
    several: options.Several = False
    target: options.Target = None
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
    data: options.Data = None,
    add_classes: options.AddClasses = False,
    demo: options.Demo = False,
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
    guide: options.GuideFile = None,
    suggest: options.Suggest = None,
    suggest_model: options.SuggestModel = None,
    suggest_limit: options.SuggestLimit = None,
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
    from jostle.labeling.guide import check_guide
    from jostle.labeling.training.suggesters import check_suggest

    if audit_only is not None and not audit_only.is_file():
        raise ValueError(f"--audit-only {audit_only}: there is no such file of predictions")
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
        "guide": None if guide is None else check_guide(guide),
        "suggest": None if suggest is None else check_suggest(suggest, suggest_model),
        "suggest_model": suggest_model,
        "suggest_limit": suggest_limit,
    }
    nothing = not (data or add_classes or demo) and set(settings.values()) == {None}
    if nothing and asked == ProjectOptions():
        return serving.serve_projects(host, port, token, browser)
    session = asked.open_session(data, demo, add_classes=add_classes, **settings)
    if audit_only is not None:
        from jostle.labeling.audit.other_models import begin_audit_only

        begin_audit_only(session, audit_only)
    return serve(session, asked.title(data, demo), host, port, token, browser)


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
    from jostle.labeling.project import register_project
    from jostle.labeling.server import create_server_app
    from jostle.labeling.training.suggesters import check_columns

    check_columns(session)
    server = serving.bind_server(session.project, host, port, serving.PORT, token)
    register_project(session.project, session.open_args["db"])
    serving.announce(server.auth.address, server.auth, "Ctrl-C ends it; every answer is on disk.", browser)
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
