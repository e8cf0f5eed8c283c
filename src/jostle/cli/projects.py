"""`jostle label` without arguments, and `jostle label people`: all projects, and who may do what in one."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jostle.cli import serving
from jostle.cli.console import say

if TYPE_CHECKING:
    from jostle.labeling.server.projects import ProjectSummary


def serve_projects(host: str, port: int | None, token: str | None, browser: bool) -> None:
    """Print the projects of this machine, and serve the page that opens them until Ctrl-C."""
    serving.check_packages()
    from jostle.labeling.server.projects import (
        ProjectsServer,
        read_projects,
        register_project,
        state_folder,
        summarize_all,
    )

    known = {each.folder for each in read_projects()}
    for database in Path().glob("*.labels/labels.db"):  # of an earlier version, which kept no list
        if str(database.parent.resolve()) not in known:
            register_project(database.parent)
    print("\n".join(project_lines(summarize_all(read_projects()))), flush=True)
    state_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    server = serving.bind_server(state_folder(), host, port, serving.PORT, token, project=False)
    app = ProjectsServer(server.auth)
    serving.announce(server.auth.address, server.auth, "Ctrl-C ends it; every answer is on disk.", browser)
    try:
        serving.serve_until_interrupt(app, server)
    finally:
        app.close_all()


def project_lines(rows: list[ProjectSummary]) -> list[str]:
    """Return the lines of a table of projects; a word on how to begin if there are none."""
    if not rows:
        return ["No projects yet. Begin one: jostle label photos/ --classes cat,dog,other"]
    cells = [("project", "answered", "goal", "last answer", "state", "folder")]
    for each in rows:
        answered = f"{each.answered:,} of {each.examples:,}" if each.state == "there" else "-"
        cells.append(
            (
                each.entry.name,
                answered,
                each.goal or "-",
                each.last_day or "-",
                shorten(each.words, 60, placeholder=" …"),
                each.entry.folder,
            )
        )
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def people(
    action: Annotated[Literal["add", "list", "remove"], typer.Argument(help="add, list or remove.")],
    project: Annotated[
        str, typer.Argument(help="Folder of the project, or its name in the list of `jostle label`.")
    ],
    name: Annotated[str | None, typer.Argument(help="The person, to add or to remove.")] = None,
    role: Annotated[
        Literal["label", "review", "manage"],
        typer.Option(
            metavar="ROLE",
            help="label: answer questions; review: also see and correct everybody's answers; manage: everything.",
        ),
    ] = "label",
    db: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Database of the answers. Default: that of the project."),
    ] = None,
) -> None:
    """Give a person a token of their own for a project, list who has one, or withdraw it.

    A token is shown once. Whoever has it answers under that name, and a withdrawn one ends at once.

    Examples:
        jostle label people add photos.labels anna --role review
        jostle label people list photos.labels
        jostle label people remove photos.labels anna
    """
    serving.check_packages()
    from jostle.labeling.project import ADDRESS, DATABASE
    from jostle.labeling.server.people import add_person, list_people, remove_person
    from jostle.labeling.server.projects import ProjectEntry, find_project
    from jostle.labeling.store import Store

    entry = find_project(project) if db is None else ProjectEntry(project, project)
    store = Store(db or entry.db or str(Path(entry.folder) / DATABASE))
    if action == "list":
        found = list_people(store)
        print("\n".join(f"{each.name}\t{each.role}" for each in found) or "nobody has a token of their own")
        return
    if name is None:
        raise ValueError(f"name the person: jostle label people {action} {project} anna")
    if action == "remove":
        remove_person(store, name)
        say(f"{name} can no longer open {project}; the answers stay.")
        return
    token, running = add_person(store, name, role), Path(entry.folder) / ADDRESS
    say(f"The address of {name}, with a token that is shown this once:")
    address = running.read_text(encoding="utf-8") if running.exists() else f"http://127.0.0.1:{serving.PORT}/"
    print(f"{address.partition('?')[0]}?token={token}")
