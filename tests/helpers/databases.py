"""Databases for tests of the labeling store."""

import os
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server: that of JOSTLE_POSTGRES, or one of our own from the package pgserver.

    Raises:
        ImportError: There is neither.
    """
    if given := os.environ.get("JOSTLE_POSTGRES"):
        yield given
        return
    import pgserver

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pgserver.get_server(tempfile.mkdtemp(prefix="jostle-"), cleanup_mode="delete")
    yield server.get_uri()
    os.kill(server.get_pid(), signal.SIGQUIT)  # at once: there is nothing to save
    server._postmaster_info.process.wait(10)
    server.cleanup()


def empty_schema(server: str) -> str:
    """Return the address of a new schema on a PostgreSQL server."""
    address = make_url(server).set(drivername="postgresql+psycopg")
    name = f"jostle_{uuid.uuid4().hex}"
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return address.update_query_dict({"options": f"-csearch_path={name}"}).render_as_string(
        hide_password=False
    )
