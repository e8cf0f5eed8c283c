import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from PIL import Image
from synthetic_runs import FOUR, write_runs

from jostle.experiments import page
from jostle.experiments.across import Across
from jostle.experiments.comparison import load_all, write_comparison
from jostle.experiments.report import first_picks, varied_setting
from jostle.experiments.report import write_report as report_of
from jostle.experiments.results import load, preview_of, shorten


def write_report(folder, *args, gallery=None, **options):
    results = load(folder)
    picks = {example for ids in first_picks(results).values() for example in ids}
    previews = {example: preview_of(gallery(example)) for example in picks} if gallery else results.previews
    return report_of(replace(results, previews=previews), *args, **options)


def compare(folders, out, metric=None):
    return write_comparison(Across.of(load_all(folders), metric), out)


VOID = {"meta", "img", "br", "path", "use", "rect"}


class Seen(HTMLParser):
    """Tags, links and ids of a page; checks that what is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids, self.open = Counter(), [], Counter(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.links += [value for name, value in attrs if name in {"src", "href", "xlink:href"}]
        self.ids.update(value for name, value in attrs if name == "id")

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag


@pytest.fixture(autouse=True)
def _quick_png(monkeypatch):
    """Spare the rasters, which take half of a report's time; tests of figures draw them."""
    monkeypatch.setattr(page, "png", lambda figure: b"PNG")


@pytest.fixture
def folder(tmp_path):
    return write_runs(tmp_path / "digits", FOUR)


def picture(example):
    return Image.new("L", (8, 8), example % 256)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """One report for all tests that only look."""
    return write_report(write_runs(tmp_path_factory.mktemp("runs") / "digits", FOUR), gallery=picture)


def test_a_report_is_one_page_that_needs_nothing_else(report):
    assert report.parts[-3:] == ("digits", "report", "report.html")
    text = report.read_text()
    seen = Seen(text)
    assert seen.open == []
    assert all(link.startswith(("#", "data:image/")) for link in seen.links)
    assert not {"script", "link", "iframe", "object"} & set(seen.tags)
    assert not re.findall(r"url\((?!#)|@import", text)
    assert "#1d2127" not in text.split("</style>", 1)[1]  # ink is the page's, in light and in dark
    assert 'patch_1"' not in text  # no figure brings a white ground
    assert max(seen.ids.values()) == 1
    assert {link[1:] for link in seen.links if link.startswith("#")} <= set(seen.ids)
    assert seen.tags["img"] == 4 * 12
    assert seen.tags["svg"] == 6


def test_a_report_says_what_the_runs_say(report):
    text = report.read_text()
    assert "noise-stability comes out ahead" in text
    assert "<b>71.46 ± 1.08</b>" in text
    assert "jostle run digits --out &#39;a folder&#39;" in text
    assert "0 1 2" in text
    assert "Gain over random" in text


def test_tables_and_figures_lie_beside_it(folder):
    path = write_report(folder, folder.parent / "elsewhere")
    out = path.parent
    assert not (folder / "report").exists()
    assert "What each picked first" not in path.read_text()  # without a gallery
    tables = {path.name for path in (out / "tables").iterdir()}
    assert tables == {
        f"{t}.{e}" for t in ("aubc", "gains", "wins", "labels", "times") for e in ("md", "tex", "csv")
    }
    drawn = {path.name for path in (out / "figures").iterdir()}
    names = ("learning-curves", "gain-curves", "aubc", "gains", "wins", "times")
    assert drawn == {f"{name}.{suffix}" for name in names for suffix in ("png", "svg")}


@pytest.mark.parametrize("name", ["report.html", "tables/aubc.csv", "figures/aubc.svg"])
def test_files_of_others_are_not_written_over(tmp_path, name):
    folder = write_runs(tmp_path / "small", {"random": [[0.5, 0.6]], "badge": [[0.5, 0.7]]})
    theirs = tmp_path / "site" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    with pytest.raises(
        FileExistsError, match="not of jostle's making, so it is left alone: name another folder"
    ):
        write_report(folder, tmp_path / "site")
    assert [path.name for path in (tmp_path / "site").rglob("*.*")] == [theirs.name]
    assert theirs.read_text() == "precious"
    theirs.unlink()
    first = write_report(folder, tmp_path / "site").read_bytes()
    assert write_report(folder, tmp_path / "site").read_bytes() == first  # an earlier one is ours


def test_a_report_is_the_same_every_time_and_adds_no_run(report):
    folder = report.parents[1]
    files = [path for path in report.parent.rglob("*.*") if path.suffix != ".png"]
    first = {path: path.read_bytes() for path in files}
    write_report(folder, gallery=picture)
    assert {path: path.read_bytes() for path in files} == first
    assert len(load(folder).runs) == 12


def test_baseline_and_goals_can_be_chosen(folder):
    out = write_report(folder, baseline="entropy", goals=[61.0]).parent
    assert "In brackets the change against entropy" in (out / "tables" / "labels.md").read_text()
    assert "| strategy | 61 % |" in (out / "tables" / "labels.md").read_text()
    assert "over entropy" in (out / "tables" / "gains.md").read_text()


def test_strange_labels_do_no_harm(tmp_path):
    curves = {"a&b <i>": FOUR["badge"], "random": FOUR["random"], r"50%_$\frac$": FOUR["entropy"]}
    text = write_report(write_runs(tmp_path / "runs", curves)).read_text()
    assert "<i>\n" not in text
    assert "a&amp;b &lt;i&gt;" in text
    assert Seen(text).open == []


def test_the_varied_setting_is_found():
    strategies = {
        "exact": {"use": "noise-stability", "exact": True},
        "b": {"use": "noise-stability", "noise_scale": 1e-6, "num_perturbations": 30},
        "a": {"use": "noise-stability", "noise_scale": 10.0, "num_perturbations": 30},
        "c": {"use": "noise-stability", "noise_scale": 1, "num_perturbations": 30},
        "random": {"use": "random"},
    }
    found = varied_setting(strategies, list(strategies))
    assert found == ("noise_scale", {"b": "1e-6", "c": "1", "a": "10", "exact": "exact"})
    assert list(found[1]) == ["b", "c", "a", "exact"]
    assert varied_setting({"random": {"use": "random"}, "badge": {"use": "badge"}}, ["random", "badge"]) == (
        "",
        {},
    )
    assert varied_setting(["random"], ["random"]) == ("", {})


def test_runs_side_by_side(folder, tmp_path):
    other = write_runs(tmp_path / "b" / "digits", {"badge": FOUR["badge"], "new": FOUR["random"]}, pick=3)
    path = compare([folder, other], tmp_path / "out")
    text = path.read_text()
    assert path.name == "compare.html"
    assert Seen(text).open == []
    assert "b/digits" in text  # the folders' names are the same, so more of their paths is shown
    assert ">pick<" in text
    assert "strategies.new.use" not in text
    assert (tmp_path / "out" / "tables" / "compare-change.csv").exists()
    assert (tmp_path / "out" / "figures" / "compare-curves.svg").exists()


def test_many_sets_of_different_tasks_are_one_page(tmp_path):
    curves = {f"s{i}": [[0.5, 0.5 + 0.02 * i + 0.001 * k] for k in range(3)] for i in range(9)}
    folders = [write_runs(tmp_path / f"set{n}", {"random": FOUR["random"][:3], **FOUR}) for n in range(3)]
    folders += [
        write_runs(tmp_path / f"other{n}", {"random": curves["s0"], **curves}, "rmse") for n in range(2)
    ]
    path = compare(folders, tmp_path / "out")
    seen = Seen(path.read_text())
    assert seen.open == []
    assert max(seen.ids.values()) == 1
    assert all(link.startswith("#") for link in seen.links)
    drawn = {path.stem for path in (tmp_path / "out" / "figures").glob("*.svg")}
    ranks = {"compare-ranks-accuracy", "compare-ranks-rmse"}  # only random is in all
    assert drawn == {"compare-gains", "compare-wins", "compare-curves", *ranks}
    assert "5 sets of runs, 13 strategies, judged by accuracy, RMSE." in path.read_text()
    assert "What differs" not in path.read_text()


def test_runs_that_cannot_be_compared(folder, tmp_path):
    other = write_runs(tmp_path / "ames", {"random": [[3.0, 2.0]]}, metric="mae")
    with pytest.raises(ValueError, match="unknown metric of ames 'accuracy'"):
        compare([folder, other], tmp_path / "out", "accuracy")
    with pytest.raises(ValueError, match="at least two folders"):
        compare([folder], tmp_path / "out")
    with pytest.raises(ValueError, match="given twice"):
        compare([folder, folder], tmp_path / "out")


def test_texts_are_shown_escaped_and_cut(folder):
    text = write_report(folder, gallery=lambda i: f"<b>{i}</b> & " + "so on " * 100).read_text()
    assert "&lt;b&gt;20&lt;/b&gt; &amp; so on" in text
    assert "…</li>" in text
    assert len(shorten("x" * 1000)) == 280
