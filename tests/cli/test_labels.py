"""Labels out, in, and simulated, from the command line."""

import json
import stat
from pathlib import Path

import pytest
from labeling_data import COLORS, colored_folder, tickets
from tools.serving import Server

pytest.importorskip("sqlalchemy", reason="labeling needs the extra `label`")

from jostle.cli import labeling, main, serving
from jostle.labeling import Session
from jostle.labeling.project import lock_project


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["label", *map(str, words)])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = colored_folder(tmp_path / "photos", 12)
    session = Session.open(folder, answers=COLORS, encoder="pixels", goal=0.9)
    for question in session.ask(5):
        session.tell(question.key, question.name[4:-4])
    session.close()
    return folder


def test_a_project_knows_its_data_and_settings(
    photos: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, "export", "labels.csv") == (0, "", "5 examples: labels.csv\n")
    assert (tmp_path / "labels.csv").read_text().startswith("name,answer,by")
    assert Session.open(project=tmp_path / "photos.labels").settings.goal == 0.9
    code, _, told = run(capsys, photos, "--seed", "5")
    assert code == 2
    assert "draws its audit with seed 0; got 5" in told


def test_a_strategy_that_there_is_not_is_named_before_anything_is_served(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, told = run(capsys, photos, "--strategy", "margn")
    assert (code, "did you mean 'margin'" in told) == (2, True)


def test_a_simulation_says_what_it_saves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tickets(tmp_path / "t.csv", 70)
    words = [
        "simulate",
        data,
        "topic",
        "--text",
        "message",
        "--answers",
        "20",
        "--seeds",
        "1",
        "--round-size",
        "10",
    ]
    code, out, told = run(
        capsys, *words, "--encoder", "words", "--people", "2", "--error", "10%", "--goal", "50%,99%"
    )
    assert code == 0, told
    assert "answers, random" in out
    assert "50.0%" in out
    held = json.loads((tmp_path / "t.labels" / "simulation" / "simulation.json").read_text())
    assert [need["value"] for need in held["needed"]] == [0.5, 0.99]
    assert held["study"]["habits"] == {"people": 2, "error": 0.1, "delay": 0.0}
    code, _, told = run(capsys, "simulate", data, "topic", "--several", "--numbers")
    assert (code, "pass one of them" in told) == (2, True)


def test_a_second_server_of_a_project_says_where_the_first_is(
    photos: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    project = tmp_path / "photos.labels"
    with Server([str(photos)], project) as server:
        code, _, told = run(capsys, photos, "--no-browser")
        assert code == 2
        assert f"a server of this project is running: open http://127.0.0.1:{server.port}/?token=" in told
        assert stat.S_IMODE((project / ".server").stat().st_mode) == 0o600
    lock_project(project).release()  # the first has ended


def test_a_weak_token_and_other_classes_are_refused_before_anything_is_served(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, told = run(capsys, photos, "--no-browser", "--token", "x")
    assert (code, "use at least 8" in told) == (2, True)
    code, _, told = run(capsys, photos, "--no-browser", "--classes", "cat,dog")
    assert (code, "and not cat, dog: leave --classes out" in told) == (2, True)


def test_a_project_of_the_demo_is_exported_without_naming_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    session = labeling.ProjectOptions().open_session(None, demo=True, encoder="pixels")
    session.tell(session.ask()[0].key, "3")
    session.close()
    assert run(capsys, "export", "labels.csv")[0] == 0
    assert ",3,people" in (tmp_path / "labels.csv").read_text()


def test_any_model_is_scored_on_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
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
    code, out, told = run(capsys, "audit", "good.csv", "--against", "bad.csv")
    assert code == 0
    assert "examples that were never picked" in out
    assert "at least" in out
    assert "good.csv against bad.csv" in out
    assert "cannot be scored by them" in told
    code, _, told = run(capsys, "audit", "none.csv")
    assert (code, "none.csv does not exist" in told) == (2, True)
    Path("other.labels").mkdir()
    Path("other.labels/labels.db").touch()
    code, _, told = run(capsys, "audit", "good.csv")
    assert code == 2
    assert told == (
        "jostle: name one of the projects in this folder with --project: other.labels, photos.labels\n"
    )


def test_people_get_a_token_once_and_lose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOSTLE_STATE", str(tmp_path / "state"))
    project = str(tmp_path / "photos.labels")
    Session.open(colored_folder(tmp_path / "photos", 6), answers=COLORS, encoder="pixels").close()
    code, out, told = run(capsys, "people", "add", project, "anna", "--role", "review")
    assert (code, out.startswith("http://127.0.0.1:8321/?token=")) == (0, True)
    assert "shown this once" in told
    assert run(capsys, "people", "list", project)[1] == "anna\treview\n"
    code, _, told = run(capsys, "people", "add", project, "anna")
    assert (code, "'anna' has a token: remove it first" in told) == (2, True)
    assert run(capsys, "people", "remove", project, "anna")[0] == 0
    assert run(capsys, "people", "list", project)[1] == "nobody has a token of their own\n"
    code, _, told = run(capsys, "people", "list", "nowhere")
    assert (code, "nowhere is not the folder of a labeling project" in told) == (2, True)


def test_label_alone_lists_projects_also_of_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOSTLE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(serving, "serve_until_interrupt", lambda app, server: server.socket.close())
    assert run(capsys, "--no-browser", "--port", 0)[1].startswith("No projects yet.")
    session = Session.open(
        colored_folder(tmp_path / "photos", 6), answers=COLORS, encoder="pixels", goal="90%"
    )
    session.tell(session.ask()[0].key, "red")
    session.close()
    code, out, told = run(capsys, "--no-browser", "--port", 0)
    assert (code, told.startswith("http://127.0.0.1:")) == (0, True)
    assert out.splitlines()[1].split()[:6] == ["photos", "1", "of", "6", "90", "%"]
