import csv
import io

import pytest

from jostle.experiments.tables import Cell, Table, mark_best

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
    assert [Cell(value, digits=1, signed=True).text for value in (-0.04, 0.04, 0.06, -0.06)] == [
        "0.0",
        "0.0",
        "+0.1",
        "−0.1",
    ]


def test_labels_of_a_csv_cannot_become_formulas() -> None:
    table = Table.of("t", {"strategy": [Cell("=1+1")], "-gain": [Cell(-2.5)]})
    assert table.csv() == "strategy,'-gain\n'=1+1,-2.5\n"
