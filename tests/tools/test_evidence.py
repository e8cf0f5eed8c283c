"""The page of results: blocks made from raw runs, the paper beside them, and small runs scaled to full size."""

from pathlib import Path

import pytest
from synthetic_runs import lines, write_run, write_runs
from tools.conditions import SHOWN
from tools.evidence import gathered
from tools.extrapolation import full_cycle
from tools.pack_results import pack

from jostle.experiments import protocol
from jostle.experiments.results import load

PAPER = """
[mnist.aubc]
random = 60.0
entropy = 70.5
[mnist.rank]
random = 2.0
entropy = 1.0
[timing-group1.minutes]
coreset = 4.0
bald = 10.0
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "paper.toml").write_text(PAPER)
    curves = {"random": [[0.5, 0.6, 0.7]], "own": [[0.5, 0.9, 0.95]], "entropy": [[0.5, 0.7, 0.8]]}
    pack(write_runs(tmp_path / "runs" / "mnist", curves), tmp_path / "results")
    return tmp_path


def rows(page: str) -> dict[str, list[str]]:
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {name: rest for name, *rest in cells}


def test_the_papers_numbers_stand_beside_ours_and_ranks_are_among_its_own_strategies(root: Path) -> None:
    page = gathered("Before\n<!-- aubc results/mnist accuracy -->\nold\n<!-- end -->\nAfter\n", root).page
    assert page.startswith("Before\n")
    assert page.endswith("<!-- end -->\nAfter\n")
    assert "\nold\n" not in page
    assert rows(page)["entropy"][-3:] == ["70.50", "1.00", "1.00"]
    assert rows(page)["random"][-3:] == ["60.00", "2.00", "2.00"]
    assert rows(page)["own"][-3:] == ["–", "–", "–"]
    assert rows(page)["random"][2] == "3.00"  # third of all three


def test_a_page_made_twice_is_the_same_and_figures_are_drawn(root: Path) -> None:
    once = gathered("<!-- curves results/mnist accuracy -->\n<!-- end -->\n", root)
    again = gathered(once.page, root)
    assert once == again
    assert "![mnist: curves](../figures/mnist-curves-accuracy.svg)" in once.page
    assert "entropy" in once.figures["mnist-curves-accuracy.svg"]


def test_gains_are_over_random_unless_the_block_says_otherwise(root: Path) -> None:
    page = gathered("<!-- gains results/mnist accuracy -->\n<!-- end -->\n", root).page
    assert rows(page)["entropy"][0] == "+7.50"  # areas 67.5 and 60
    page = gathered("<!-- gains results/mnist accuracy own -->\n<!-- end -->\n", root).page
    assert rows(page)["entropy"][0] == "−13.75"


def test_several_folders_are_judged_by_the_strategies_that_all_of_them_have(root: Path) -> None:
    curves = {"random": [[0.5, 0.6, 0.7]], "entropy": [[0.5, 0.7, 0.8]]}
    pack(write_runs(root / "runs" / "digits", curves), root / "results")
    folders = "results/mnist results/digits"
    blocks = (f"<!-- {kind} {folders} -->\n<!-- end -->\n" for kind in ("overview", "arena_gains"))
    made = gathered("".join(blocks), root)
    assert rows(made.page).keys() >= {"random", "entropy"}
    assert "own" not in rows(made.page)
    assert "own" not in made.figures["arena_gains.svg"]


def test_two_metrics_have_two_figures(root: Path) -> None:
    blocks = [
        f"<!-- curves results/mnist {metric} -->\n<!-- end -->\n" for metric in ("accuracy", "macro_f1")
    ]
    for path in (root / "runs" / "mnist").glob("*/0.jsonl"):
        path.write_text(path.read_text().replace('"accuracy":', '"macro_f1": 0.5, "accuracy":'))
    pack(root / "runs" / "mnist", root / "results")
    assert set(gathered("".join(blocks), root).figures) == {
        "mnist-curves-accuracy.svg",
        "mnist-curves-macro_f1.svg",
    }


@pytest.fixture
def small(root: Path) -> Path:
    """A hundredth of the timing protocol; training takes 2 s, selections 2 s, but bald's 9 s and 5 s, qbc's 11 s."""
    folder = root / "runs" / "timing-group1"
    sizes = ["training.epochs=2", "initial=40", "candidates=100", "pick=10"]
    hundredth = protocol.load("timing-group1", sizes).written()
    hundredth["strategies"]["vaal"] = {"use": "vaal", "steps": 10, "batch": 64}
    folder.mkdir()
    write_runs(folder, {}, **hundredth)
    for label, seconds in {"coreset": 2.0, "qbc": 11.0, "vaal": 2.0}.items():
        write_run(folder, label, 0, lines([0.1, 0.2], select_seconds=seconds))
    for seed, seconds in enumerate((9.0, 5.0)):
        write_run(folder, "bald", seed, lines([0.1, 0.2], select_seconds=seconds))
    return pack(folder, root / "results")


def test_a_cycle_at_full_size_by_hand(small: Path) -> None:
    training = 2.0 * (4000 * 200) / (40 * 2)
    cycles = full_cycle(load(small))
    assert cycles["coreset"] == pytest.approx(training + 2 * 100)
    assert cycles["bald"] == pytest.approx(training + 5 * 100)
    others = 4 * 2.0  # of the 11 s: the committee's, whose first member is the model itself
    assert cycles["qbc"] == pytest.approx(5 * training + (11 - others) * 100)
    steps = 100 * 14_000 // 128  # 100 passes over labeled set and candidates
    assert cycles["vaal"] == pytest.approx(training + 2 * (steps * 128) / (10 * 64))


def test_ratios_are_of_the_quickest_seeds(root: Path, small: Path) -> None:
    page = gathered("<!-- ratios results/timing-group1 -->\n<!-- end -->\n", root).page
    assert rows(page)["bald"] == ["2.50", "1.01", "2.50"]
    assert rows(page)["coreset"] == ["1.00", "1.00", "1.00"]
    assert rows(page)["qbc"][1:] == ["4.97", "–"]


def test_a_condition_is_a_row_with_gains_over_random(root: Path) -> None:
    better = {label: [[0.5, 0.7, 0.7], [0.5, 0.7, 0.7]] for label in SHOWN}
    for name in ("arena-a", "noise-a"):
        pack(
            write_runs(root / "runs" / name, {"random": [[0.5, 0.6, 0.5], [0.5, 0.6, 0.5]], **better}),
            root / "results",
        )
    page = gathered("<!-- conditions results/arena-* results/noise-* -->\n<!-- end -->\n", root).page
    assert rows(page)["one label of ten is wrong"][:2] == ["a", "2"]
    assert rows(page)["as it is"][2] == "+22.2 (1.000)"  # areas 55 and 65: 10 of 45 points


def test_a_gain_is_read_as_a_share_of_the_oracles(root: Path) -> None:
    curves = {"random": [[0.5, 0.5, 0.5]], "margin": [[0.5, 0.6, 0.6]], "oracle": [[0.5, 0.7, 0.7]]}
    pack(write_runs(root / "runs" / "oracle-a", curves), root / "results")
    page = gathered("<!-- ceiling results/oracle-* -->\n<!-- end -->\n", root).page
    assert rows(page)["margin"][:2] == ["+15.0", "50"]
    assert list(rows(page))[-2:] == ["oracle", "margin"]
