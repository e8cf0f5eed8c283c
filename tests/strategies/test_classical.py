"""Chance, entropy, margin, least confidence and expected gradient length against closed forms and a peer."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from skactiveml.pool import uncertainty_scores
from torch import Tensor, nn
from torch.nn import functional as F

import jostle
from jostle.embeddings.gradients import expected_gradient_length
from jostle.embeddings.uncertainty import entropy
from jostle.strategies import build, describe

SCORES = {"entropy": "entropy", "margin": "margin_sampling", "least-confidence": "least_confident"}


class Count(list[int]):
    """Copies count together."""

    def __deepcopy__(self, memo: Any) -> "Count":
        return self


class Same(nn.Module):
    """Gives back its inputs, so that a pool is its own logits; counts the examples that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Count([0])

    def forward(self, x: Tensor) -> Tensor:
        self.seen[0] += len(x)
        return x


def scores(name: str, logits: Tensor, **options: Any) -> Tensor:
    rows = build(name).embed(Same(), logits, seed=0, **options)
    assert isinstance(rows, Tensor)
    return rows.double()


@pytest.mark.parametrize("name", SCORES)
def test_scores_and_picks_agree_with_scikit_activeml(name: str) -> None:
    logits = 2 * torch.randn(60, 5, dtype=torch.float64)
    peer = uncertainty_scores(logits.softmax(1).numpy(), method=SCORES[name])
    np.testing.assert_allclose(scores(name, logits).numpy(), peer, atol=1e-12)
    query = jostle.select(name, Same(), logits, n=7)
    np.testing.assert_array_equal(query.indices, np.argsort(-peer)[:7])
    np.testing.assert_allclose(query.scores, np.sort(peer)[::-1][:7], atol=1e-12)


def test_sure_and_uniform_predictions_bound_every_score() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [2000.0, -2000.0, 0.0, 0.0]])
    for name, most in (("entropy", math.log(4)), ("margin", 1.0), ("least-confidence", 0.75)):
        torch.testing.assert_close(scores(name, logits), torch.tensor([most, 0.0]).double())


@pytest.mark.parametrize("name", SCORES)
def test_pixels_labels_and_tokens_are_averaged(name: str) -> None:
    of = {
        "entropy": lambda p: -sum(q * math.log(q) for q in p),
        "margin": lambda p: 1 - (sorted(p)[-1] - sorted(p)[-2]),
        "least-confidence": lambda p: 1 - max(p),
    }[name]
    maps = torch.randn(3, 4, 2, 5, dtype=torch.float64)
    pixels = maps.permute(0, 2, 3, 1).softmax(-1).reshape(3, 10, 4)
    labels = torch.randn(3, 6, dtype=torch.float64)
    yes = labels.sigmoid()
    sites = {
        "segmentation": (maps, pixels),
        "sequence": (maps[:, 0], maps[:, 0].softmax(-1)),
        "multi-label": (labels, torch.stack([1 - yes, yes], -1)),
    }
    for task, (outputs, distributions) in sites.items():
        expected = [np.mean([of(p) for p in example]) for example in distributions.tolist()]
        np.testing.assert_allclose(scores(name, outputs, task=task).numpy(), expected, atol=1e-12)


def test_expected_gradient_length_is_that_of_autograd() -> None:
    torch.manual_seed(3)
    body, head = nn.Sequential(nn.Linear(4, 6), nn.ReLU()), nn.Linear(6, 5)
    model = nn.Sequential(body, head).double()
    pool = torch.randn(8, 4, dtype=torch.float64)
    expected = []
    for x in pool:
        p = model(x[None]).softmax(1)[0]
        lengths = []
        for y in range(5):
            loss = F.cross_entropy(model(x[None]), torch.tensor([y]))
            lengths.append(torch.autograd.grad(loss, head.weight)[0].norm())
        expected.append(sum(p[y] * lengths[y] for y in range(5)).item())
    rows = build("egl").embed(model, pool)
    np.testing.assert_allclose(np.asarray(rows), expected, rtol=1e-9)


def test_a_sure_prediction_has_no_expected_gradient() -> None:
    assert expected_gradient_length(torch.eye(4), torch.randn(4, 9)).tolist() == [0.0] * 4


def test_gradient_lengths_of_nearly_sure_predictions_keep_their_order() -> None:
    logits = torch.tensor([[8.0, 0.0, 0.0], [12.0, 0.0, 0.0], [16.0, 0.0, 0.0]]).double()
    lengths = expected_gradient_length(logits.softmax(1), torch.ones(3, 1))
    assert lengths[0] > 10 * lengths[1] > 100 * lengths[2] > 0


def test_random_does_not_run_the_model() -> None:
    model = Same()
    query = jostle.select("random", model, torch.randn(50, 3), n=20, seed=1)
    assert model.seen[0] == 0
    assert len(set(query.indices)) == 20
    assert np.isnan(query.scores).all()


def test_random_depends_on_the_seed_alone_and_a_longer_list_goes_on() -> None:
    def picks(n: int, seed: int) -> list[int]:
        return jostle.select("random", Same(), torch.randn(40, 3), n=n, seed=seed).indices.tolist()

    assert picks(9, 4) == picks(9, 4) == picks(40, 4)[:9]
    assert picks(9, 4) != picks(9, 5)
    assert sorted(picks(40, 4)) == list(range(40))


def test_random_is_uniform() -> None:
    counts = np.zeros(6)
    for seed in range(150):
        counts[jostle.select("random", Same(), torch.zeros(6, 2), n=2, seed=seed).indices] += 1
    assert (abs(counts - 50) < 30).all()  # five standard deviations


def test_entropy_of_a_probability_of_zero_is_zero() -> None:
    assert entropy(torch.tensor([1.0, 0.0])).item() == 0


@pytest.mark.parametrize("name", ["random", *SCORES, "egl"])
def test_cards_say_what_a_method_needs(name: str) -> None:
    card = describe(name)
    assert card.idea.count(".") == 2
    assert card.formula
    assert card.cost
    assert card.when
    assert ("regression" in card.tasks) == (name == "random")
