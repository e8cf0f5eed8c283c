"""Results of stored runs: curves, areas, and previews of the first picks."""

import json

import numpy as np
import pytest
from PIL import Image
from synthetic_runs import FOUR, lines, write_run, write_runs

from jostle.experiments import results as previews
from jostle.experiments.report import first_picks, gallery_seed
from jostle.experiments.results import Preview, aubc, load, preview_of


def test_area_with_uneven_steps_by_hand():
    # (10 * 55 + 30 * 70) / 40
    assert aubc([10, 20, 50], [50, 60, 80]) == pytest.approx(66.25)


def test_a_single_point_is_its_own_area():
    assert aubc([20], [71.5]) == 71.5


@pytest.mark.parametrize(("counts", "values"), [([1, 2], [1.0]), ([2, 2], [1.0, 1.0]), ([], [])])
def test_curves_that_make_no_sense_are_refused(counts, values):
    with pytest.raises(ValueError, match="arrived"):
        aubc(counts, values)


def test_labels_come_in_the_order_of_the_protocol(tmp_path):
    results = load(write_runs(tmp_path / "digits", FOUR))
    assert results.labels == ("random", "noise-stability", "badge", "entropy")
    assert results.counts == (20, 40, 60, 80, 100)
    assert results.name == "digits"
    assert results.seeds("badge") == [0, 1, 2]


def test_shares_are_read_as_percentages(tmp_path):
    results = load(write_runs(tmp_path / "digits", FOUR))
    np.testing.assert_allclose(results.curves("random", "accuracy")[0], [50, 60, 66, 71, 74])
    np.testing.assert_allclose(results.mean_curve("random", "accuracy")[:2], [50, 179 / 3])
    np.testing.assert_allclose(results.aubc("random", "accuracy", seeds=[0]), [(321 - 62) / 4])


def test_the_main_metric_comes_first_and_metrics_not_shared_are_left_out(tmp_path):
    write_run(tmp_path, "a", 0, [{"labeled": 1, "metrics": {"macro_f1": 0.5, "odd": 1, "accuracy": 0.5}}])
    write_run(tmp_path, "b", 0, [{"labeled": 1, "metrics": {"macro_f1": 0.5, "accuracy": 0.5}}])
    assert load(tmp_path).metrics == ("accuracy", "macro_f1")


def test_a_torn_last_line_is_ignored(tmp_path):
    folder = write_runs(tmp_path / "digits", FOUR)
    with (folder / "badge" / "1.jsonl").open("a") as file:
        file.write('{"cycle": 5, "labeled": 120, "metr')
    assert len(load(folder).runs) == 12
    text = (folder / "badge" / "1.jsonl").read_text().splitlines()
    (folder / "badge" / "1.jsonl").write_text("\n".join(text[:4]) + "\n" + text[4][:30])
    results = load(folder)
    assert [(run.label, run.seed, len(run.counts)) for run in results.incomplete] == [("badge", 1, 4)]
    assert results.seeds("badge") == [0, 2]


def test_the_protocol_says_how_many_points_a_run_has(tmp_path):
    folder = write_runs(tmp_path / "digits", FOUR, rounds=5)
    with pytest.raises(ValueError, match="no finished run yet: 12 started, 6 points"):
        load(folder)


def test_runs_with_other_counts_are_refused(tmp_path):
    write_run(tmp_path, "a", 0, lines([0.1, 0.2], step=20))
    write_run(tmp_path, "b", 0, lines([0.1, 0.2], step=30))
    with pytest.raises(ValueError, match="labeled"):
        load(tmp_path)


def test_values_that_are_missing_are_nan(tmp_path):
    write_run(tmp_path, "a", 0, [{"labeled": 5, "metrics": {"accuracy": None}}])
    (run,) = load(tmp_path).runs
    assert np.isnan(run.metrics["accuracy"]).all()
    assert np.isnan([run.costs("train_seconds"), run.costs("peak_memory_bytes")]).all()


def test_folders_that_hold_no_runs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="is not an experiment"):
        load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no finished run"):
        load(tmp_path)
    write_run(tmp_path, "a", 0, lines([0.1])).rename(tmp_path / "a" / "first.jsonl")
    with pytest.raises(ValueError, match="must be a seed"):
        load(tmp_path)


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
