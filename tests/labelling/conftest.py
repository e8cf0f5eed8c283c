"""Databases of both kinds, and small data to label."""

import os
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from labelling_data import COLOURS, coloured_folder, picture

pytest.importorskip("sqlalchemy", reason="labelling needs the extra `label`")

from jostle.labelling import Session


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server: that of JOSTLE_POSTGRES, or one of our own from the package pgserver."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")
    if given := os.environ.get("JOSTLE_POSTGRES"):
        yield given
        return
    pgserver = pytest.importorskip(
        "pgserver", reason="no PostgreSQL: set JOSTLE_POSTGRES or pip install pgserver"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pgserver.get_server(tempfile.mkdtemp(prefix="jostle-"), cleanup_mode="delete")
    yield server.get_uri()
    os.kill(server.get_pid(), signal.SIGQUIT)  # at once: there is nothing to save
    server._postmaster_info.process.wait(10)
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "labels.db")
    from sqlalchemy import create_engine, text
    from sqlalchemy.engine import make_url

    server = make_url(request.getfixturevalue("postgres")).set(drivername="postgresql+psycopg")
    name = f"jostle_{uuid.uuid4().hex}"
    engine = create_engine(server)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return server.update_query_dict({"options": f"-csearch_path={name}"}).render_as_string(
        hide_password=False
    )


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of twenty different pictures."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(20):
        picture(number).save(folder / f"{number:02}.png")
    return folder


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """A folder of pictures in three colours."""
    return coloured_folder(tmp_path / "colours")


@pytest.fixture
def session(colours: Path, url: str) -> Iterator[Session]:
    """The same on both databases."""
    opened = Session.open(colours, answers=COLOURS, batch=20, encoder="pixels", db=url)
    yield opened
    opened.close()
