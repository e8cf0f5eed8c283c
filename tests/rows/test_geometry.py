import pytest
import torch
from selector_rows import normal

from jostle.rows.geometry import (
    Outer,
    distance_bounds,
    nearest_distances,
    origin,
    products,
    squared_differences,
    squared_lengths,
    unit_length,
)


def factors(n: int, seed: int = 0) -> Outer:
    return Outer(normal(n, 3, seed=seed).double(), normal(n, 4, seed=seed + 1).double())


def test_factors_and_rows_agree_on_lengths_products_and_distances() -> None:
    a, b = factors(6), factors(6, seed=7)
    torch.testing.assert_close(squared_lengths(a), squared_lengths(a.dense()))
    torch.testing.assert_close(products(a, b), products(a.dense(), b.dense()))
    torch.testing.assert_close(squared_differences(a, b), squared_differences(a.dense(), b.dense()))
    torch.testing.assert_close(nearest_distances(a, b), nearest_distances(a.dense(), b.dense()))
    unit = unit_length(a)
    assert isinstance(unit, Outer)
    torch.testing.assert_close(unit.dense(), torch.nn.functional.normalize(a.dense()))
    start = origin(a)
    assert isinstance(start, Outer)
    assert start.dense().tolist() == [[0.0] * 12]


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4])
@pytest.mark.parametrize("size", [1e-24, 1e-3, 1.0, 1e25])
def test_bounds_are_never_too_small_and_nearest_distances_never_far_off(offset: float, size: float) -> None:
    for width in (1, 7, 300):
        rows, centers = (normal(50, width) + offset) * size, (normal(20, width, seed=1) + offset) * size
        centers[:5] = rows[:5]
        apart = (rows.double()[:, None] - centers.double()).square().sum(2).amin(1)
        assert (distance_bounds(rows, centers) >= apart).all()
        nearest = nearest_distances(rows.double(), centers.double())
        torch.testing.assert_close(nearest, apart, rtol=1e-6, atol=0)
        assert (nearest[:5] == 0).all()


def test_factors_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"equal length, got left \(3, 2\) and right \(4, 2\)"):
        Outer(normal(3, 2), normal(4, 2))
    with pytest.raises(ValueError, match="one dtype"):
        Outer(normal(3, 2), normal(3, 2).double())
    with pytest.raises(TypeError, match="floating"):
        Outer(torch.ones(3, 2, dtype=torch.int64), torch.ones(3, 2, dtype=torch.int64))
