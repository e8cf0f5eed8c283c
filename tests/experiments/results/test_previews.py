import json

import pytest
from PIL import Image
from synthetic_runs import FOUR, lines, write_run, write_runs

from jostle.experiments import results as previews
from jostle.experiments.report import first_picks, gallery_seed
from jostle.experiments.results import Preview, load, preview_of


def test_previews_are_kept_and_extended(tmp_path):
    previews.add_previews(tmp_path, [4, 2], lambda i: Image.new("L", (8, 8), i))
    previews.add_previews(tmp_path, [2, 7], lambda i: f"text {i}")
    found = previews.read_previews(tmp_path)
    assert list(found) == [2, 4, 7]
    assert found[2] == preview_of(Image.new("L", (8, 8), 2))
    assert found[7] == Preview(text="text 7")


@pytest.mark.parametrize(
    "bad",
    [
        {"picture": "https://example.org/a.png", "text": ""},
        {"picture": "data:image/svg+xml;base64,AAAA", "text": ""},
        {"picture": 'data:image/png;base64,AA" onerror="x', "text": ""},
        {"picture": "", "text": "x" * 281},
        {"picture": 3, "text": ""},
        {"text": ""},
        "x",
    ],
)
def test_what_a_page_should_not_show_is_left_out(tmp_path, bad):
    good = {"picture": "", "text": "fine"}
    (tmp_path / "previews.json").write_text(json.dumps({"1": bad, "2": good, "x": good, "-3": good}))
    assert previews.read_previews(tmp_path) == {2: Preview(text="fine")}


@pytest.mark.parametrize("text", ["[]", "{", "3", "\xff"])
def test_a_broken_file_is_no_file(tmp_path, text):
    (tmp_path / "previews.json").write_bytes(text.encode("latin-1"))
    assert previews.read_previews(tmp_path) == {}


def test_picks_are_shown_of_the_first_seed_that_all_have(tmp_path):
    folder = write_runs(tmp_path / "runs", {"random": FOUR["random"]})
    for seed in (2, 5):
        later = lines([0.5] * 5)
        later[1]["picked"].reverse()
        write_run(folder, "late", seed, later)
    results = load(folder)
    assert gallery_seed(results) == 2
    assert first_picks(results) == {"random": list(range(20, 32)), "late": list(range(39, 27, -1))}
