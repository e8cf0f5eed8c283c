"""The forecast that a race goes by, against regressions worked out in another way."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from jostle.embeddings import odds
from jostle.embeddings.odds import Facts, Forecast, forecasts, logarithm, pairs


def facts(n: int, classes: int, seed: int = 0, noise: float = 0.3) -> Facts:
    """Examples that move in proportion to their hints, by another factor between each two classes."""
    rng = torch.Generator().manual_seed(seed)
    p = (torch.randn(n, classes, generator=rng, dtype=torch.float64) * 2).softmax(1)
    hint, total, mean = torch.randn(3, n, generator=rng, dtype=torch.float64)
    factors = torch.randn(classes, classes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    roots = p.sqrt()
    scale = hint + 0.5 * total + 0.2 * mean + torch.einsum("na,ab,nb->n", roots, factors + factors.T, roots)
    errors = noise * torch.randn(n, 3, generator=rng, dtype=torch.float64)
    return Facts(hint, torch.stack([total, mean], 1), (scale[:, None] + errors).exp(), roots)


def by_hand(finished: Facts, heats: int) -> tuple[Tensor, Tensor, Tensor]:
    """Columns, goal and weights of the same regression, with the shrinkage as examples of its own."""
    roots, n = finished.roots, len(finished.hint)
    columns = [torch.ones(n, dtype=torch.float64), *finished.activity.T]
    if heats:
        columns.append(finished.squares[:, :heats].sum(1).log() - finished.hint)
    plain = len(columns)
    for a in range(roots.shape[1]):
        columns += [
            roots[:, a] * roots[:, b] * (1 if a == b else math.sqrt(2)) for b in range(a, roots.shape[1])
        ]
    known = torch.stack(columns, 1)
    goal = finished.squares[:, heats:].sum(1).log() - finished.hint
    shrunk = torch.eye(known.shape[1], dtype=torch.float64)[plain:] * odds.RIDGE**0.5
    rows, goals = torch.cat([known, shrunk]), torch.cat([goal, torch.zeros(len(shrunk), dtype=torch.float64)])
    return known, goal, torch.linalg.lstsq(rows, goals[:, None], driver="gelsd").solution[:, 0]


@pytest.mark.parametrize("heats", [0, 1, 2])
@pytest.mark.parametrize("classes", [0, 2, 4])
def test_weights_are_those_of_a_ridge_regression(heats: int, classes: int) -> None:
    finished = facts(80, classes) if classes else facts(80, 2)._replace(roots=torch.empty(80, 0).double())
    found = Forecast.through(finished, heats, finished.axes())
    known, _, weights = by_hand(finished, heats)
    torch.testing.assert_close(known @ found.weights, known @ weights, rtol=0, atol=1e-8)


def test_errors_are_those_of_examples_left_out() -> None:
    """e / sqrt(1 - pull) is the geometric mean of an example's error and of its error where it was left out."""
    finished = facts(60, 3, noise=0.6)
    found = Forecast.through(finished, 1, finished.axes())
    known, goal, weights = by_hand(finished, 1)
    inside = goal - known @ weights
    outside = torch.empty_like(inside)
    for i in range(60):
        others = Facts(*(part[torch.arange(60) != i] for part in finished))
        outside[i] = goal[i] - known[i] @ by_hand(others, 1)[2]
    spread = float((inside * outside).mean()) ** 0.5
    assert found.spread == pytest.approx(spread, rel=1e-6)


def test_a_chance_is_students_and_doubts_what_was_not_seen() -> None:
    finished = facts(200, 3)
    found = Forecast.through(finished, 1, finished.axes())
    fresh = facts(50, 3, seed=5)._replace(squares=torch.zeros(50, 3, dtype=torch.float64))
    fresh.squares[:, 0] = 0.5
    expected, chances = found.outlook(fresh, 3.0)
    known, _, _ = by_hand(finished, 1)
    precision = known.T @ known
    precision.diagonal()[4:] += odds.RIDGE
    x = fresh.known(1, finished.axes())
    doubt = (x @ torch.linalg.inv(precision) * x).sum(1)
    rest = x @ found.weights + fresh.hint
    missing = (odds.TIE * 3.0) ** 2 - 0.5
    steps = (math.log(missing) - rest) / (found.spread * (1 + doubt).sqrt())
    by_scipy = stats.t(found.freedom).sf(steps.numpy())
    torch.testing.assert_close(chances, torch.from_numpy(by_scipy), rtol=1e-6, atol=0)
    torch.testing.assert_close(expected, 0.5 + rest.exp())
    fresh.squares[:, 0] = 9.5
    assert found.outlook(fresh, 3.0)[1].tolist() == [1.0] * 50, "it has reached it"


def test_chances_hold_for_examples_that_were_not_measured() -> None:
    finished, fresh = facts(400, 4, noise=0.5), facts(4000, 4, seed=9, noise=0.5)
    ahead = forecasts(finished, 3)
    reach = float(fresh.squares.sum(1).sqrt().quantile(0.9))
    reached = fresh.squares.sum(1).sqrt() > reach
    for forecast in ahead:
        so_far = fresh.squares.clone()
        so_far[:, forecast.heats :] = 0
        chances = forecast.outlook(fresh._replace(squares=so_far), reach)[1]
        assert int(reached.sum()) == pytest.approx(float(chances.sum()), rel=0.15)
        assert float(chances[reached].mean()) > 5 * float(chances[~reached].mean())


def test_no_forecast_is_surer_than_odd_examples_allow() -> None:
    """Of examples that all follow one rule, those of another kind would be left out without a jolt."""
    finished = facts(100, 3, noise=0.01)
    assert [each.spread for each in forecasts(finished, 3)] == [odds.ODD] * 3
    silent = finished._replace(
        hint=torch.zeros_like(finished.hint), squares=finished.squares * (-finished.hint).exp()[:, None]
    )
    assert max(each.spread for each in forecasts(silent, 3)) < 0.1, "no hint, nothing to be misled by"


def test_freedom_grows_with_what_is_known() -> None:
    few, some, many = (
        Forecast.through(each, 1, each.axes()).freedom
        for each in (facts(20, 2), facts(100, 2), facts(1000, 2))
    )
    assert few < 20
    assert some == odds.FREEDOM
    assert many == 1000 / odds.MANY


def test_pairs_keep_squares_of_inner_products() -> None:
    a, b = torch.randn(2, 7, 5, dtype=torch.float64)
    torch.testing.assert_close(pairs(a) @ pairs(b).T, (a @ b.T).square())


def test_of_many_classes_the_main_directions_are_told_apart() -> None:
    few = torch.rand(40, 4, dtype=torch.float64)
    mixed = few @ torch.linalg.qr(torch.randn(30, 4, dtype=torch.float64)).Q.T  # 30 classes, 4 directions
    axes = facts(40, 30)._replace(roots=mixed).axes()
    assert axes.shape == (30, odds.DIRECTIONS)
    torch.testing.assert_close(pairs(mixed @ axes) @ pairs(mixed @ axes).T, (few @ few.T).square())


def test_examples_that_do_not_differ_have_a_forecast() -> None:
    same = Facts(*(part[:1].expand(30, *part.shape[1:]) for part in facts(1, 3)))
    for forecast in forecasts(same, 3):
        expected, chances = forecast.outlook(same, 1e3)
        assert bool(expected.isfinite().all())
        assert float(chances.max()) < 1e-6
    still = same._replace(squares=torch.zeros(30, 3, dtype=torch.float64))
    assert bool(forecasts(still, 3)[1].outlook(still, 1.0)[1].isfinite().all())
    assert float(logarithm(torch.zeros(1, dtype=torch.float64))) > -math.inf
