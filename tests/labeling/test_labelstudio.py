"""Label Studio's formats, by its own package where that is installed."""

import json
from typing import Any

import pytest

from jostle.labeling.export.json_files import (
    KEY_FIELD,
    LabelStudioError,
    Tags,
    make_config,
    make_prediction,
    make_task,
    parse_tags,
    read_annotations,
)
from jostle.labeling.sources.contents import Content

IMAGE = Content("image", "cats & dogs/a #1.jpg", b"")
TEXT = Content("text", "row 1", texts=("I was charged twice.", "<b>Really</b>"))
ROW = Content("row", "row 2", fields={"rooms": 3, "heating": None})
CONTENTS = {"image": IMAGE, "text": TEXT, "row": ROW}
CLASSES = ["cat", 'dog "big" & <small>', "other"]
ANSWERS: dict[str, Any] = {"one": "cat", "several": ("cat", "other"), "number": 3.5}


def pushed(kind: Any, shows: Any) -> tuple[str, dict[str, Any]]:
    config = make_config(kind, shows, [] if kind == "number" else CLASSES)
    found = parse_tags(config, kind)
    said = make_prediction(ANSWERS[kind], 0.41, "round-3", found)
    return config, make_task(CONTENTS[shows], 3, found, said)


def test_a_task_is_as_label_studio_wants_it() -> None:
    _, made = pushed("one", "image")
    value = {"choices": ["cat"]}
    result = {"from_name": "label", "to_name": "image", "type": "choices", "value": value}
    shown = "/data/local-files/?d=cats%20%26%20dogs/a%20%231.jpg"
    assert made == {
        "data": {"image": shown, "jostle_key": IMAGE.key, "jostle_order": 3},
        "predictions": [{"model_version": "round-3", "score": 0.41, "result": [result]}],
    }


@pytest.mark.parametrize("shows", CONTENTS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_official_models_accept_what_is_pushed(kind: str, shows: str) -> None:
    """The oracle: Label Studio's own package parses the configuration and judges the task."""
    official = pytest.importorskip("label_studio_sdk.label_interface", reason="pip install label-studio-sdk")
    objects = pytest.importorskip("label_studio_sdk.label_interface.objects")
    config, made = pushed(kind, shows)
    interface = official.LabelInterface(config)
    interface.validate()
    assert interface.validate_prediction(made["predictions"][0], return_errors=True) == []
    read = objects.TaskValue.model_validate(made)
    assert interface.validate_task({"data": read.data})
    assert read.predictions[0].score == 0.41
    if kind != "number":
        assert set(interface.get_control("label").labels) == set(CLASSES)


@pytest.mark.parametrize("kind", ANSWERS)
def test_official_exports_are_read(kind: str) -> None:
    """An annotation made by Label Studio's own package comes back as the answer that it holds."""
    official = pytest.importorskip("label_studio_sdk.label_interface", reason="pip install label-studio-sdk")
    interface = official.LabelInterface(make_config(kind, "text", [] if kind == "number" else CLASSES))  # type: ignore[arg-type]
    sample = interface.generate_sample_annotation()
    annotation = {"id": 9, "completed_by": 1, "lead_time": 2.5, **sample}
    export = {"id": 1, "data": {KEY_FIELD: "k"}, "annotations": [annotation]}
    (read,) = read_annotations([export], kind)  # type: ignore[arg-type]
    value = (
        sample["result"][0]["value"] if sample["result"] else {"choices": []}
    )  # nothing chosen is no result
    if kind == "number":
        assert read.answer == float(value["number"])
    else:
        assert read.answer == (tuple(value["choices"]) if kind == "several" else value["choices"][0])


def test_configurations_of_others_are_understood() -> None:
    config = """<View><Header value="x"/>
      <Image name="img" value="$picture"/><Choices name="mood" toName="img"><Choice value="a"/></Choices>
      <Text name="t" value="$t"/><Number name="n" toName="t"/></View>"""
    assert parse_tags(config, "one") == Tags("mood", "img", "picture", "one")
    assert parse_tags(config, "number") == Tags("n", "t", "t", "number")
    with pytest.raises(LabelStudioError, match=r"no Number tag.*Choices, Image, View"):
        parse_tags('<View><Image name="i" value="$i"/><Choices name="c" toName="i"/></View>', "number")
    with pytest.raises(LabelStudioError, match="cannot be read"):
        parse_tags("<View>", "one")
    with pytest.raises(LabelStudioError, match="DOCTYPE"):
        parse_tags('<!DOCTYPE v [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]><View>&b;</View>', "one")


def said(number: int, choices: list[str] | None, **more: Any) -> dict[str, Any]:
    value = {"type": "choices", "from_name": "label", "to_name": "image", "value": {"choices": choices}}
    result = [] if choices is None else [value]
    usual = {"was_cancelled": False, "completed_by": 1, "lead_time": 2.0}
    return {"id": number, "result": result, **usual, **more}


def test_an_export_becomes_answers_in_the_order_they_were_made() -> None:
    bo = {"id": 7, "email": "bo@example.org"}
    first = said(1, ["cat"], updated_at="2026-01-02")
    earlier = said(2, ["dog"], updated_at="2026-01-01", completed_by=bo)
    skipped = said(3, None, was_cancelled=True, updated_at="2026-01-03")
    export = [
        {"data": {KEY_FIELD: "k1"}, "annotations": [first, earlier]},
        {"data": {KEY_FIELD: "k2"}, "annotations": [skipped]},
        {"data": {"image": "of others"}, "annotations": [said(4, ["cat"])]},
        {"data": {KEY_FIELD: "k3"}, "annotations": []},
        {"data": {KEY_FIELD: "k4"}, "annotations": [said(5, None)]},  # submitted without a choice
    ]
    read = read_annotations(export, "one")
    assert [(each.key, each.person, each.answer) for each in read] == [
        ("k1", "bo@example.org", "dog"),
        ("k1", "labelstudio-1", "cat"),
        ("k2", "labelstudio-1", None),
    ]
    assert [each.seconds for each in read] == [2.0] * 3


def test_ids_change_with_what_is_said_and_with_nothing_else() -> None:
    def id_of(annotation: dict[str, Any]) -> str:
        return read_annotations([{"data": {KEY_FIELD: "k"}, "annotations": [annotation]}], "one")[0].id

    first = said(1, ["cat"], updated_at="2026-01-01")
    assert id_of(first) == id_of(json.loads(json.dumps(first)) | {"lead_time": 99})
    assert id_of(first) != id_of({**first, "updated_at": "2026-01-02"})
    assert id_of(first) != id_of(said(1, ["dog"], updated_at="2026-01-01"))
    assert id_of(first) != id_of({**first, "id": 2})
    assert id_of(first).startswith("labelstudio-1-")
