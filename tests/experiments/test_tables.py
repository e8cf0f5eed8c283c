"""Tables in every format, those of one experiment, and the sentences of its report."""

import csv
import io

import pytest
from synthetic_runs import write_runs

from jostle.experiments.report import details, headline
from jostle.experiments.results import load
from jostle.experiments.statistics import best_first, gains
from jostle.experiments.tables import Cell, Table, aubc_table, mark_best, needs_table
from jostle.experiments.tables import gain_table as table_of_gains

TABLE = Table.of(
    "AUBC & ranks",
    {
        "strategy": [Cell("a_b"), Cell("c|d"), Cell("<e>")],
        "AUBC, %": mark_best([Cell(83.004, 0.791), Cell(83.001), Cell(None)], higher=True),
        "gain": [Cell(-0.5, signed=True), Cell(1 / 3, signed=True), Cell(float("nan"))],
    },
    note="50 % more",
)


def test_cells_show_mean_and_spread_and_what_is_missing():
    assert TABLE.plain() == [
        ["a_b", "83.00 ± 0.79", "−0.50"],
        ["c|d", "83.00", "+0.33"],
        ["<e>", "–", "–"],
    ]


def test_the_best_is_marked_with_all_that_look_the_same():
    assert [row[1].best for row in TABLE.rows] == [True, True, False]
    smallest = mark_best([Cell(3.0), Cell(2.0), Cell("text"), Cell(float("nan"))], higher=False)
    assert [cell.best for cell in smallest] == [False, True, False, False]
    assert not any(cell.best for cell in mark_best([Cell(None)], higher=True))


def test_markdown():
    assert TABLE.markdown() == (
        "**AUBC & ranks**\n\n"
        "| strategy | AUBC, % | gain |\n| --- | ---: | ---: |\n"
        "| a_b | **83.00 ± 0.79** | −0.50 |\n| c\\|d | **83.00** | +0.33 |\n| <e> | – | – |\n\n50 % more\n"
    )


def test_latex_is_escaped():
    text = TABLE.latex()
    assert r"\caption{AUBC \& ranks. 50 \% more}" in text
    assert r"a\_b & \textbf{83.00 $\pm$ 0.79} & $-$0.50 \\" in text
    assert r"$<$e$>$ & -- & -- \\" in text
    assert r"\begin{tabular}{lrr}" in text
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(rule) == 1


def test_csv_has_full_precision_and_a_column_for_the_spread():
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows[0] == ["strategy", "AUBC, %", "AUBC, % std", "gain"]
    assert rows[1] == ["a_b", "83.004", "0.791", "-0.5"]
    assert float(rows[2][3]) == pytest.approx(1 / 3)
    assert rows[3] == ["<e>", "", "", ""]


def test_html_is_escaped_and_colored():
    text = TABLE.html({"a_b": "#123456"})
    assert "<i class='chip' style='background:#123456'></i>a_b" in text
    assert "&lt;e&gt;" in text
    assert "<td class='number'><b>83.00 ± 0.79</b></td>" in text


def test_a_zero_has_no_sign():
    texts = [Cell(value, digits=1, signed=True).text for value in (-0.04, 0.04, 0.06, -0.06)]
    assert texts == ["0.0", "0.0", "+0.1", "−0.1"]


def test_labels_of_a_csv_cannot_become_formulas() -> None:
    table = Table.of("t", {"strategy": [Cell("=1+1")], "-gain": [Cell(-2.5)]})
    assert table.csv() == "strategy,'-gain\n'=1+1,-2.5\n"


def gain_table(results, metric, reference):
    return table_of_gains(results, metric, reference, gains(results, metric, reference))


def texts(table):
    return {row[0]: row[1:] for row in table.plain()}


def test_aubc_table(four):
    table = aubc_table(four, "accuracy")
    columns = ("AUBC, accuracy, %", "last accuracy, %", "rank", "rank, all points", "seeds")
    assert table.columns == ("strategy", *columns)
    assert list(texts(table)) == ["noise-stability", "badge", "random", "entropy"]
    # AUBC by hand: random 64.75, 66.125, 63.75; noise-stability 71.25, 72.625, 70.5; badge 70.375, 72, 68.75
    assert texts(table)["random"] == ["64.88 ± 1.19", "74.33 ± 0.58", "3.00", "2.90", "3"]
    assert [cell.best for cell in table.rows[0]] == [False, True, True, True, True, False]


def test_gain_table(four):
    table = gain_table(four, "accuracy", "random")
    gain, low, high, ahead, p, holm = texts(table)["noise-stability"]
    assert (gain, ahead, p, holm) == ("+6.58", "3 of 3", "0.250", "0.750")
    assert (low, high) == ("+6.50", "+6.75")  # the means of all 27 resamples, three times 6.75 among them
    assert "With 3 seeds no p can be below 0.25" in table.note


def test_needs_table_shows_the_saving(four):
    table = needs_table(four, "accuracy", [50, 70, 82], "random")
    assert table.columns == ("strategy", "50 %", "70 %", "82 %")
    assert texts(table)["random"] == ["≤ 20", "75", "–"]
    assert texts(table)["noise-stability"] == ["≤ 20", "50 (−34 %)", "98"]
    assert "against random" in table.note
    assert "against" not in needs_table(four, "accuracy", [50], None).note


def test_what_was_run_on_fewer_seeds_is_compared_on_those(tmp_path):
    # random needs 30 labels for 60 % in seed 0, and 40 in the mean of both
    curves = {"random": [[0.50, 0.70], [0.40, 0.50]], "vaal": [[0.50, 0.75]]}
    results = load(write_runs(tmp_path / "runs", curves))
    table = needs_table(results, "accuracy", [60], "random")
    assert texts(table) == {"random": ["40", "2"], "vaal": ["28 (−7 %)", "1"]}
    assert table.columns == ("strategy", "60 %", "seeds")
    assert not table.rows[list(texts(table)).index("vaal")][1].best
    assert "on the seeds that both have" in table.note
    assert "ranked, and put in order, by the seeds that both have" in aubc_table(results, "accuracy").note


HEADLINES = {
    "One seed decides nothing yet; badge has the best": {"random": [[0.1, 0.5]], "badge": [[0.1, 0.6]]},
    "Two seeds decide nothing yet; badge has": {"random": [[0.1, 0.5]] * 2, "badge": [[0.1, 0.6]] * 2},
    "No strategy is clearly better than random; badge has the best result, an area": {
        "random": [[0.1, 0.5]] * 3,
        "badge": [[0.1, 0.8], [0.1, 0.8], [0.1, 0.4]],
    },
    "badge has the best result, but no clear lead: an area under the accuracy curve of 30.00 ± 0.00 %, 10.00": {
        "random": [[0.1, 0.3]] * 3,
        "badge": [[0.1, 0.5]] * 3,
        "qbc": [[0.1, 0.45], [0.1, 0.4], [0.1, 0.6]],
    },
    "badge comes out ahead, with an area": {"random": [[0.1, 0.5]] * 3, "badge": [[0.1, 0.6]] * 3},
    "badge has an area under the accuracy curve of 35.00": {"badge": [[0.1, 0.6]] * 3},
}


@pytest.mark.parametrize("said", HEADLINES)
def test_the_headline_claims_what_the_seeds_carry(tmp_path, said):
    results = load(write_runs(tmp_path / "runs", HEADLINES[said]))
    assert headline(results, "accuracy", "random").replace("\u00a0", " ").startswith(said)


def test_many_seeds_are_judged_by_the_interval(tmp_path):
    base = [[0.1, 0.5 + 0.01 * i] for i in range(8)]
    close = [[0.1, 0.5 + 0.01 * i + (0.02 if i % 2 else -0.015)] for i in range(8)]
    results = load(write_runs(tmp_path / "runs", {"random": base, "badge": close}))
    said = details(results, "accuracy", "random")
    assert "ahead in 4 of 8 seeds, 95 % interval −" in said
    assert "may be chance" in said
    assert "few" not in said


def test_one_seed_has_no_spread_and_errors_are_best_when_small(tmp_path):
    curves = {"random": [[30000.0, 21000.0]], "coreset": [[30000.0, 20000.0]]}
    results = load(write_runs(tmp_path / "ames", curves, metric="mae"))
    assert best_first(results, "mae") == ["coreset", "random"]
    assert texts(aubc_table(results, "mae"))["coreset"][:2] == ["25000", "20000"]
    assert texts(gain_table(results, "mae", "random"))["coreset"] == ["+500", "–", "–", "1 of 1", "–", "–"]
    assert "A smaller MAE is better" in aubc_table(results, "mae").note
    assert "500 better than random" in headline(results, "mae", "random")
