"""Labels out, in, and simulated, from the command line."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run_cli
from labeling_data import COLORS, colored_folder, tickets
from tools.serving import Server

pytest.importorskip("sqlalchemy", reason="labeling needs the extra `label`")

from jostle.cli import labeling, serving
from jostle.labeling import Session
from jostle.labeling.project import lock_project

Run = Callable[..., tuple[str, str]]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOSTLE_STATE", str(tmp_path / "state"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Call `jostle label`, check its code, and return what it printed and what it said."""

    def call(*words: object, code: int = 0) -> tuple[str, str]:
        found, told = run_cli("label", *words), capsys.readouterr()
        assert found == code, told.err
        return told.out, told.err

    return call


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = colored_folder(tmp_path / "photos", 12)
    session = Session.open(folder, answers=COLORS, encoder="pixels", goal=0.9)
    for question in session.ask(5):
        session.tell(question.key, question.name[4:-4])
    session.close()
    return folder


def test_a_project_knows_its_data_and_settings(photos: Path, run: Run, tmp_path: Path) -> None:
    assert run("export", "labels.csv") == ("", "5 examples: labels.csv\n")
    assert (tmp_path / "labels.csv").read_text().startswith("name,answer,by")
    assert Session.open(project=tmp_path / "photos.labels").settings.goal == 0.9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seed", "5"], "draws its audit with seed 0; got 5"),
        (["--strategy", "margn"], "did you mean 'margin'"),
        (["--token", "x"], "use at least 8"),
        (["--classes", "cat,dog"], "and not cat, dog: leave --classes out"),
        (["--host", "0.0.0.0"], "say who gets in with --token"),
        (["--target", "size", "--several"], "give one of them"),
        (["--demo"], "--demo brings data of its own"),
        (["--audit-only", "none.csv"], "there is no such file of predictions"),
        (["--audit-only", "photos/000-red.png", "--audit", "5%"], "leave --audit out"),
    ],
)
def test_mistakes_are_told_before_anything_is_served(
    photos: Path, run: Run, words: list[str], said: str
) -> None:
    assert said in run(photos, "--no-browser", *words, code=2)[1]


def test_a_simulation_says_what_it_saves(tmp_path: Path, run: Run) -> None:
    data = tickets(tmp_path / "t.csv", 70)
    words = "--text message --answers 20 --seeds 1 --round-size 10 --encoder words --people 2 --error 10%"
    out, _ = run("simulate", data, "topic", *words.split(), "--goal", "50%,99%")
    assert "answers, random" in out
    assert "50.0%" in out
    held = json.loads((tmp_path / "t.labels" / "simulation" / "simulation.json").read_text())
    assert [need["value"] for need in held["needed"]] == [0.5, 0.99]
    assert held["study"]["habits"] == {"people": 2, "error": 0.1, "delay": 0.0}
    assert "pass one of them" in run("simulate", data, "topic", "--several", "--numbers", code=2)[1]


def test_a_second_server_of_a_project_says_where_the_first_is(photos: Path, run: Run, tmp_path: Path) -> None:
    project = tmp_path / "photos.labels"
    with Server([str(photos)], project) as server:
        told = run(photos, "--no-browser", code=2)[1]
        assert f"a server of this project is running: open http://127.0.0.1:{server.port}/?token=" in told
        assert stat.S_IMODE((project / ".server").stat().st_mode) == 0o600
    lock_project(project).release()  # the first has ended


def test_a_project_of_the_demo_is_exported_without_naming_its_data(tmp_path: Path, run: Run) -> None:
    session = labeling.ProjectOptions().open_session(None, demo=True, encoder="pixels")
    session.tell(session.ask()[0].key, "3")
    session.close()
    run("export", "labels.csv")
    assert ",3,people" in (tmp_path / "labels.csv").read_text()


def test_any_model_is_scored_on_the_audit(tmp_path: Path, run: Run) -> None:
    session = Session.open(
        colored_folder(tmp_path / "photos", 40), answers=COLORS, encoder="pixels", audit=0.5
    )
    session.train()
    for question in session.ask(20):
        session.tell(question.key, question.name[4:-4])
    names = sorted(session.source.places())
    session.close()
    for file, wrong in (("good.csv", 0), ("bad.csv", 10)):
        said = [f"{name},{'red' if place < wrong else name[4:-4]},0.9" for place, name in enumerate(names)]
        Path(file).write_text("\n".join(["name,prediction,chance", *said]))
    out, told = run("audit", "good.csv", "--against", "bad.csv")
    assert "examples that were never picked" in out
    assert "at least" in out
    assert "good.csv against bad.csv" in out
    assert "cannot be scored by them" in told
    assert "none.csv does not exist" in run("audit", "none.csv", code=2)[1]
    Path("other.labels").mkdir()
    Path("other.labels/labels.db").touch()
    told = run("audit", "good.csv", code=2)[1]
    assert "projects in this folder with --project: other.labels, photos.labels" in told


def test_people_get_a_token_once_and_lose_it(tmp_path: Path, run: Run) -> None:
    project = str(tmp_path / "photos.labels")
    Session.open(colored_folder(tmp_path / "photos", 6), answers=COLORS, encoder="pixels").close()
    out, told = run("people", "add", project, "anna", "--role", "review")
    assert out.startswith("http://127.0.0.1:8321/?token=")
    assert "shown this once" in told
    assert run("people", "list", project)[0] == "anna\treview\n"
    assert "'anna' has a token: remove it first" in run("people", "add", project, "anna", code=2)[1]
    run("people", "remove", project, "anna")
    assert run("people", "list", project)[0] == "nobody has a token of their own\n"
    assert "nowhere is not the folder of a labeling project" in run("people", "list", "nowhere", code=2)[1]


def test_label_alone_lists_projects_also_of_this_folder(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "serve_until_interrupt", lambda app, server: server.socket.close())
    assert run("--no-browser", "--port", 0)[0].startswith("No projects yet.")
    session = Session.open(
        colored_folder(tmp_path / "photos", 6), answers=COLORS, encoder="pixels", goal="90%"
    )
    session.tell(session.ask()[0].key, "red")
    session.close()
    out, told = run("--no-browser", "--port", 0)
    assert told.startswith("http://127.0.0.1:")
    assert out.splitlines()[1].split()[:6] == ["photos", "1", "of", "6", "90", "%"]
