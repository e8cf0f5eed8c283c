"""The guide: its sections belong to classes, nothing in it becomes HTML, and only its own pictures are served."""

import os
from pathlib import Path

import pytest
from answering import purposes
from commands import run_cli
from labeling_data import colored, colored_folder
from running_server import Running
from sqlalchemy import select
from tools.serving import Person

from jostle.labeling import Answers, Session
from jostle.labeling.guide import Guide, GuideReader, words
from jostle.labeling.store.schema import examples

TEXT = """# Colors

Say the color of **most** pixels. <script>alert(1)</script> [a trap](javascript:alert(1)) ![elsewhere](http://example.org/x.png)

## Red

As a ripe
*tomato*.

![ripe](tomato.png) ![](000-red.png)

## purple

![](../secret.png) ![](/etc/hostname)

# At the end

Take a rest.
"""


def project(folder: Path, text: str = TEXT, answers: Answers | list[str] | None = None) -> Session:
    """Open thirty colored pictures with a guide."""
    colored_folder(folder / "photos", 30)
    colored(1000).save(folder / "secret.png")
    (folder / "rules").mkdir()
    colored(999).save(folder / "rules" / "tomato.png")
    (folder / "rules" / "guide.md").write_text(text)
    return Session.open(
        folder / "photos",
        answers=answers or ["red", "green", "blue"],
        encoder="pixels",
        guide=str(folder / "rules" / "guide.md"),
    )


def read(session: Session) -> Guide:
    """Read the guide once."""
    return GuideReader(session).get()


def test_a_heading_that_names_a_class_begins_its_section(tmp_path: Path) -> None:
    guide = read(project(tmp_path))
    assert [each.name for each in guide.sections] == ["", "red", "", ""]
    red = guide.sections[1]
    assert red.sentence == "As a ripe tomato."
    assert [each["name"] for each in red.examples] == ["ripe", "000-red.png"], (
        "beside the guide, and of the data"
    )
    assert "No class is called purple." in guide.problems
    assert words(guide.sections[2].nodes).startswith("purple"), "what names no class is shown as it is"


def test_nothing_of_a_guide_is_html_or_comes_from_elsewhere(tmp_path: Path) -> None:
    guide = read(project(tmp_path))
    assert "<script>alert(1)</script>" in words(guide.sections[0].nodes), "raw HTML is text"
    assert "javascript:" not in str(
        [node for node in guide.sections[0].nodes[1]["inside"] if node != str(node)]
    )
    refused = " ".join(guide.problems)
    assert all(place in refused for place in ("http://example.org/x.png", "../secret.png", "/etc/hostname"))
    assert len(guide.pictures) == 2


def test_an_example_whose_class_was_shown_no_longer_measures(tmp_path: Path) -> None:
    session = project(tmp_path)
    session.index.refresh()
    read(session)
    with session.store.read_transaction() as tx:
        wanted = tx.execute(select(examples.c.name).where(examples.c.wanted)).scalars().all()
    assert wanted == ["000-red.png"]
    assert set(purposes(session).values()) == {None}, "it can still be asked"


def test_a_changed_guide_is_read_again_and_a_lost_one_says_so(tmp_path: Path) -> None:
    session = project(tmp_path)
    reader, file = GuideReader(session), tmp_path / "rules" / "guide.md"
    before = reader.get()
    assert reader.get() is before
    file.write_text("## green\n\nAs grass.\n")
    os.utime(file, ns=(1, 1))
    assert [each.sentence for each in reader.get().sections] == ["As grass."]
    session.rename_class("green", "lime")
    assert reader.get().sections[0].name == "lime", "by its earlier name"
    file.unlink()
    assert reader.get().problems[0].startswith("The guide cannot be read")


def test_numbers_have_no_class_headings(tmp_path: Path) -> None:
    guide = read(project(tmp_path, "## How to measure\n\nIn meters.", Answers("number")))
    assert guide.problems == []


def test_the_server_sends_pictures_of_the_guide_alone(tmp_path: Path) -> None:
    running = Running(project(tmp_path))
    ada = Person("Ada", running.port)
    _, sent = ada.call("GET", "/api/guide")
    address = sent["sections"][1]["examples"][0]["content"]["url"]
    status, data = ada.call("GET", address)
    assert (status, data[:4]) == (200, b"\x89PNG")
    assert ada.call("GET", "/api/guide/secret.png")[0] == 404
    running.stop()


@pytest.mark.parametrize(("content", "message"), [(None, "there is no such file"), (b"\xff\xfe", "UTF-8")])
def test_a_guide_that_cannot_be_read_is_an_error_before_a_project_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    photos, guide = colored_folder(tmp_path / "photos", 3), tmp_path / "guide.md"
    if content is not None:
        guide.write_bytes(content)
    assert run_cli("label", photos, "--classes", "red,green", "--guide", guide) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "photos.labels").exists()
