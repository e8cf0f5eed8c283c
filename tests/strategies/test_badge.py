import numpy as np
import pytest
import torch
from skactiveml.classifier import SklearnClassifier
from skactiveml.pool import Badge as PeerBadge
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.nn import functional as F

from jostle.strategies import Badge, select


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 4))


def test_rows_are_the_last_layers_gradients(model: nn.Module) -> None:
    x = torch.randn(9, 6)
    rows = Badge().embed(model, x, seed=0)
    for example, row in zip(x, rows.dense(), strict=True):
        logits = model(example[None])
        loss = F.cross_entropy(logits, logits.argmax(1))
        gradient = torch.autograd.grad(loss, model[2].weight)[0]
        torch.testing.assert_close(row, gradient.flatten(), rtol=1e-4, atol=1e-6)


def test_picks_from_factors_are_picks_from_gradients(model: nn.Module) -> None:
    x = torch.randn(60, 6, dtype=torch.float64)
    strategy = Badge()
    rows = strategy.embed(model.double(), x, seed=3)
    query = strategy.select(model, x, 12, seed=3)
    explicit = strategy.selector.pick(rows.dense(), 12, seed=3)
    assert query.indices.tolist() == explicit.positions.tolist()
    np.testing.assert_allclose(query.scores, explicit.scores)


def test_scikit_activeml_agrees_on_gradients() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), np.full(50, np.nan)
    y[:12] = np.arange(12) % 3
    fitted = SklearnClassifier(LogisticRegression(), classes=[0, 1, 2]).fit(x, y)
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 3)).double()
    with torch.no_grad():
        model[1].weight.copy_(torch.as_tensor(fitted.estimator_.coef_))
        model[1].bias.copy_(torch.as_tensor(fitted.estimator_.intercept_))
    picks, utilities = PeerBadge(random_state=0).query(
        x, y, fitted, fit_clf=False, batch_size=2, return_utilities=True
    )
    query = select("badge", model, torch.as_tensor(x[12:]), n=1, seed=0)
    assert query.indices[0] + 12 == picks[0]  # the first is the longest gradient in both
    rows = Badge().embed(model, torch.as_tensor(x[12:]), seed=0).dense()
    odds = (rows - rows[query.indices[0]]).square().sum(1)
    odds = torch.minimum(odds, rows.square().sum(1))  # the peer keeps the origin as a center, BADGE does not
    expected = np.delete(utilities[1, 12:], query.indices[0])
    np.testing.assert_allclose(np.delete((odds / odds.sum()).numpy(), query.indices[0]), expected, rtol=1e-6)
