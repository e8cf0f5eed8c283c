"""What a race counts and compares."""

import math

import pytest
import torch

from jostle.embeddings import race
from jostle.scoring.passes import Passes


def test_heats_double() -> None:
    assert race.stops(30) == [1, 2, 4, 8, 16, 30]
    assert [race.stops(jolts) for jolts in (1, 2, 5)] == [[1], [1, 2], [1, 2, 4, 5]]


def test_numbers_within_a_percent_are_one() -> None:
    values = torch.tensor([0.0, 1.0, 1.0 + 1e-5, 3e-9, 3e-9 * (1 + 1e-6), 700.0], dtype=torch.float64)
    found = race.rounded(values)
    torch.testing.assert_close(found, values, rtol=0.008, atol=0)
    assert found[1] == found[2]
    assert found[3] == found[4]
    assert found[0] == 0


def test_how_much_goes_through_the_layers_is_added_up_and_averaged() -> None:
    first, second = torch.tensor([[4.0, 1.0], [0.0, 0.0]], dtype=torch.float64).T
    found = race.liveliness([first, second, torch.ones(7)], torch.ones(2, 3))
    assert found[0].tolist() == pytest.approx([math.log(5), math.log(4) / 2])
    assert found[1].tolist() == [0, 0], "nothing goes through"
    assert race.liveliness([], torch.full((1, 3), 2.0)).tolist() == [[pytest.approx(math.log(12))] * 2]
    assert race.liveliness([], torch.ones(2, 3, dtype=torch.int64)).tolist() == [[0, 0]] * 2


def test_what_a_race_took_is_told_in_words() -> None:
    passes = Passes(made=3_100, plain=31_000, risk=0.0004)
    assert (passes.saved, passes.confidence) == (27_900, 0.9996)
    saved, sure = str(passes).split("; ")
    assert saved == "27,900 of 31,000 passes were saved (90%)"
    assert sure == "the picks are those of all jolts with a chance of at least 99.9600%"
