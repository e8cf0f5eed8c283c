"""`jostle labelstudio`: the same project, answered in Label Studio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from jostle.cli import labeling, options, serving
from jostle.cli.console import HelpCommand, HelpGroup, say

if TYPE_CHECKING:
    from jostle.labeling.labelstudio import Client

PORT = 9090  # where Label Studio's documents expect an ML backend

app = typer.Typer(
    name="labelstudio",
    cls=HelpGroup,
    help="Answer in Label Studio: set tasks there, read annotations back, or be its ML backend.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class StudioOptions:
    """Options of `jostle labelstudio`: where Label Studio is."""

    url: Annotated[str, options.option(None, "ADDRESS", envvar="LABEL_STUDIO_URL")] = "http://localhost:8080"
    """Label Studio's address; also the variable LABEL_STUDIO_URL."""
    key: Annotated[str, options.option(None, "TOKEN", envvar="LABEL_STUDIO_API_KEY")] = ""
    """An access token of your Label Studio account; also the variable LABEL_STUDIO_API_KEY."""


@dataclass(frozen=True)
class PushOptions:
    """Options of `jostle labelstudio push`."""

    to: Annotated[int | None, options.option(None, "N")] = None
    """The number of the Label Studio project. Default: a new one is made."""
    n: Annotated[int, options.option(None, None, "-n", min=1)] = 100
    """How many tasks."""
    images: Annotated[str, options.option(None, "PREFIX")] = "/data/local-files/?d="
    """What comes before a picture's name in its address, for Label Studio to find it."""


def client(studio: StudioOptions) -> Client:
    """Return a client of Label Studio; raise ValueError without a key."""
    from jostle.labeling.labelstudio import Client

    if not studio.key:
        raise ValueError(
            "name an access token with --key or LABEL_STUDIO_API_KEY: Account & Settings, Access Tokens"
        )
    return Client(studio.url, studio.key)


@app.command(cls=HelpCommand)
@options.expand
def push(
    data: options.Data, asked: labeling.ProjectOptions, tasks: PushOptions, place: StudioOptions
) -> None:
    """Set the next questions as tasks in a Label Studio project, in order, with the model's predictions.

    Examples:
        jostle labelstudio push photos/ --classes cat,dog,other
        jostle labelstudio push photos/ --to 3 -n 50
        jostle labelstudio push reviews.csv --text review --classes good,bad
    """
    from jostle.labeling import labelstudio
    from jostle.labeling.export import json_files

    studio, session = client(place), asked.open_session(data)
    to = tasks.to
    if to is None:
        configuration = json_files.make_config(session.kind, session.source.kind, session.classes())
        to = studio.create(asked.title(data), configuration)
    tags = json_files.parse_tags(studio.project(to)["label_config"], session.kind)
    new, again = studio.push(to, labelstudio.make_tasks(session, tasks.n, tags, tasks.images))
    say(f"{new} tasks set and {again} brought up to date in project {to}: {studio.url}/projects/{to}/data")
    say("Sort by jostle_order to label them in order.")


@app.command(cls=HelpCommand)
@options.expand
def pull(
    data: options.Data,
    asked: labeling.ProjectOptions,
    to: Annotated[int, typer.Option("--from", metavar="N", help="The number of the Label Studio project.")],
    place: StudioOptions,
) -> None:
    """Read the annotations of a Label Studio project back; those that were read before change nothing.

    Examples:
        jostle labelstudio pull photos/ --from 3
        jostle labelstudio pull photos/ --from 3 --url https://studio.example.org
        jostle labelstudio pull photos/ --from 3 --classes cat,dog,other
    """
    from jostle.labeling import labelstudio
    from jostle.labeling.export import json_files

    studio, session = client(place), asked.open_session(data)
    answers, skips, wrong = labelstudio.import_annotations(
        session, json_files.read_annotations(studio.tasks(to), session.kind)
    )
    say(f"{answers} answers and {skips} skips read from project {to}")
    for words in dict.fromkeys(wrong):
        say(f"passed over: {words}")


@app.command(cls=HelpCommand)
@options.expand
def serve(
    data: options.Data,
    asked: labeling.ProjectOptions,
    *,
    round_size: options.RoundSize = None,
    page: options.ServerOptions,
) -> None:
    """Be the ML backend of a Label Studio project: predict its tasks, learn from its annotations.

    Examples:
        jostle labelstudio serve photos/
        jostle labelstudio serve photos/ --classes cat,dog,other
        jostle labelstudio serve photos/ --round-size 100 --port 9091
    """
    session = asked.open_session(data, batch=round_size)
    from jostle.labeling.labelstudio import create_backend_app

    server = serving.bind_server(session.project, page, PORT)
    address = server.auth.address.replace("/?token=", "/")
    serving.announce(
        address, server.auth, "Enter this address as the project's model in Label Studio. Ctrl-C ends it."
    )
    serving.serve_session(create_backend_app(session, server.auth), server, session)
