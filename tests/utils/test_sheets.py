"""Cells that a spreadsheet opens: no formula, every name back as it was, numbers numbers."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jostle.utils.files import hidden, sheet, unhidden

ODD = st.text(alphabet="=+-@\t\r'a1. \n\",", max_size=8)


@given(ODD)
def test_every_cell_reads_back(cell: str):
    assert unhidden(hidden(cell)) == cell
    rows = list(csv.reader(io.StringIO(sheet([[cell, 1.5]]), newline="")))
    assert [unhidden(rows[0][0]), rows[0][1]] == [cell, "1.5"]


@given(ODD)
def test_no_cell_is_a_formula(cell: str):
    written = hidden(cell)
    try:
        float(written)
    except ValueError:
        assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize("number", [-5, 1.5, -1e-300, 2e22, float("inf"), float("-inf"), float("nan"), 0])
def test_numbers_stay_numbers(number: float):
    assert hidden(str(number)) == str(number)


@pytest.mark.parametrize(
    "cell", ["-1+1", "+cmd|' /C calc'!A0", "@SUM(A1)", "=1", "\t=1", "\r=1", "-inf()", "--1"]
)
def test_formulas_are_hidden(cell: str):
    assert hidden(cell) == f"'{cell}"
