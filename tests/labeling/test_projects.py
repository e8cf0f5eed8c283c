"""All projects on one page: the list, broken and gone ones, several in one server."""

import http.client
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from labeling_data import COLORS, colored_folder
from running_server import NoTrainer, Running
from tools.serving import TOKEN, Person

from jostle.labeling import Session
from jostle.labeling.project import (
    find_project,
    forget_project,
    lock_project,
    read_projects,
    register_project,
)
from jostle.labeling.server import serving
from jostle.labeling.server.security import add_person
from jostle.labeling.server.serving import summarize_all

PASSWORD = "hidden-word"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of this test."""
    monkeypatch.setenv("JOSTLE_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def both(state: Path, tmp_path: Path) -> list[Path]:
    """Two projects with one name, the first with an answer."""
    folders = []
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        data = colored_folder(tmp_path / place / "photos", 6)
        session = Session.open(data, answers=COLORS, encoder="pixels", goal="90%")
        if not folders:
            session.tell(session.ask()[0].key, "red")
        register_project(session.project)
        folders.append(session.project)
        session.close()
    return folders


@pytest.fixture
def running(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(serving, "Trainer", NoTrainer)
    server = Running()
    yield server
    server.stop()


def test_the_list_says_how_far_each_project_is_whatever_became_of_others(
    both: list[Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.labels"
    broken.mkdir()
    (broken / "labels.db").write_bytes(b"no database" * 100)
    register_project(broken)
    shutil.rmtree(both[1])
    rows = {each.entry.name: each for each in summarize_all(read_projects())}
    assert {name: each.state for name, each in rows.items()} == {
        "photos": "there",
        "photos-2": "gone",
        "broken": "broken",
    }
    first = rows["photos"]
    assert (first.progress, first.goal) == ("1 of 6 answered", "90 %")
    assert first.words.startswith("Go on")
    assert "not a database" in rows["broken"].words
    assert find_project("photos").folder == str(both[0])
    forget_project("photos-2")
    with pytest.raises(ValueError, match="no name in the list: broken, photos"):
        find_project("photos-2")


def test_a_list_that_is_broken_or_cannot_be_written_stops_nobody(state: Path, tmp_path: Path) -> None:
    state.mkdir()
    (state / "projects.json").write_text('[{"name": 1}]')
    assert read_projects() == []
    register_project(tmp_path / "a.labels", f"postgresql://ada:{PASSWORD}@host/labels")
    assert [each.name for each in read_projects()] == ["a"]
    assert PASSWORD not in (state / "projects.json").read_text()
    shutil.rmtree(state)
    state.write_text("a file is in the way")
    register_project(tmp_path / "b.labels")
    assert read_projects() == []


def test_one_server_serves_several_projects(both: list[Path], running: Running) -> None:
    ada = Person("Ada", running.port)
    page = ada.call("GET", "/")[1].decode()
    assert "1 of 6 answered" in page
    ids = {ada.call("GET", f"/p/{name}/api/project")[1]["id"] for name in ("photos", "photos-2")}
    assert len(ids) == 2
    shown = ada.call("GET", "/p/photos/api/questions?person=Ada&n=1")[1]["questions"][0]
    assert ada.call("GET", "/p/photos" + shown["content"]["url"])[0] == 200
    assert ada.call("GET", "/p/photos-2/api/questions?person=Ada&n=9")[1]["questions"]
    with pytest.raises(ValueError, match=r"a server of this project is running: open .*/p/photos/[?]token="):
        lock_project(both[0])
    assert ada.call("POST", "/projects/photos/close")[0] == 303
    assert ada.call("GET", "/p/photos/api/project")[0] == 503, "an open page opens no closed project"
    assert ada.call("GET", "/p/photos/")[0] == 200
    assert ada.call("GET", "/p/nothing/api/project")[0] == 503
    assert ada.call("GET", "/p/nothing/")[0] == 303


def test_a_project_of_another_server_says_where_it_is(both: list[Path], running: Running) -> None:
    lock = lock_project(both[0])
    (both[0] / ".server").write_text("http://127.0.0.1:1/?token=t")
    ada = Person("Ada", running.port)
    assert ada.call("GET", "/p/photos/")[0] == 303
    assert "a server of this project is running: open http://127.0.0.1:1/" in ada.call("GET", "/")[1].decode()
    assert ada.call("POST", "/projects/photos/forget")[0] == 303
    assert [each.name for each in read_projects()] == ["photos-2"]
    lock.release()


def request(port: int, method: str, path: str, **headers: str) -> http.client.HTTPResponse:
    """A request with these headers alone."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request(method, path, headers=headers)
    reply = line.getresponse()
    reply.read()
    line.close()
    return reply


def test_a_person_enters_their_project_and_nothing_else(both: list[Path], running: Running) -> None:
    owner = Person("Ada", running.port)
    for name in ("photos", "photos-2"):
        owner.call("GET", f"/p/{name}/")
    token = add_person(running.projects.projects["photos"].session.store, "anna", "manage")
    port = running.port
    entered = request(port, "GET", f"/p/photos/?token={token}")
    assert (entered.status, entered.headers["location"]) == (303, "/p/photos/")
    assert "; Path=/p/photos/;" in entered.headers["set-cookie"]
    cookie = entered.headers["set-cookie"].partition(";")[0]
    assert request(port, "GET", "/p/photos/", cookie=cookie).status == 200
    for path in ("/", "/p/photos-2/", "/p/photos-2/api/project", "/static/page.js"):
        assert request(port, "GET", path, cookie=cookie).status == 401, path
    assert request(port, "POST", "/projects/photos/forget", cookie=cookie).status == 401
    mine = request(port, "GET", f"/p/photos/?token={TOKEN}").headers["set-cookie"]
    assert re.search("Path=/;", mine), "the owner's cookie opens everything"
    crossed = {"cookie": mine.partition(";")[0], "sec-fetch-site": "cross-site"}
    assert request(port, "POST", "/projects/photos/close", **crossed).status == 403
