"""Databases of both kinds, and small data to label."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from labeling_data import COLORS, colored_folder, picture

pytest.importorskip("sqlalchemy", reason="labeling needs the extra `label`")

from answering import labeled

from jostle.labeling import Session


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server; without one the tests are skipped, and say so."""
    from databases import postgres_server

    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")
    if not os.environ.get("JOSTLE_POSTGRES"):
        pytest.importorskip("pgserver", reason="no PostgreSQL: set JOSTLE_POSTGRES or pip install pgserver")
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "labels.db")
    from databases import empty_schema

    return empty_schema(request.getfixturevalue("postgres"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of twenty different pictures."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(20):
        picture(number).save(folder / f"{number:02}.png")
    return folder


@pytest.fixture
def colors(tmp_path: Path) -> Path:
    """A folder of pictures in three colors."""
    return colored_folder(tmp_path / "colors")


@pytest.fixture
def session(colors: Path) -> Iterator[Session]:
    """A project of pictures in three colors."""
    opened = Session.open(colors, answers=COLORS, batch=20, encoder="pixels")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def forty_answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures in three colors, and their project with forty true answers and a model."""
    folder = tmp_path_factory.mktemp("forty")
    photos = colored_folder(folder / "colors")
    made = Session.open(photos, answers=COLORS, batch=20, encoder="pixels", project=folder / "project")
    made.train()
    labeled(made, 40)
    made.train()
    made.close()
    return folder


@pytest.fixture
def trained(forty_answers: Path, tmp_path: Path) -> Iterator[Session]:
    """A copy of that project; its pictures belong to all."""
    copied = shutil.copytree(forty_answers / "project", tmp_path / "trained")
    opened = Session.open(forty_answers / "colors", project=copied)
    yield opened
    opened.close()


@pytest.fixture
def on_both(colors: Path, url: str) -> Iterator[Session]:
    """The same on each kind of database."""
    opened = Session.open(colors, answers=COLORS, batch=20, encoder="pixels", db=url)
    yield opened
    opened.close()
