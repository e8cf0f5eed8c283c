"""Databases for tests of the labeling store."""

import uuid

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url


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
