"""What a race counts and compares."""

import math

import pytest
import torch

from jostle.embeddings import race


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
