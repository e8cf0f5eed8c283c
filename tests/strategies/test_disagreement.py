"""BALD, entropy under dropout and query by committee: closed forms, a peer, and exact averages over masks."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from skactiveml.pool import average_kl_divergence
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from zoo import N, SegNet, Squeezing

import jostle
from jostle.embeddings.committee import entropies, jensen_shannon, variance
from jostle.embeddings.uncertainty import entropy
from jostle.strategies import Bald, EntropyDropout, QueryByCommittee

LABELED = TensorDataset(torch.randn(8, 6), torch.arange(8) % 3)


def test_opposite_certainties_give_ln_2_and_equal_opinions_nothing() -> None:
    sure = torch.eye(2)
    torch.testing.assert_close(jensen_shannon([sure, sure.flip(0)]), torch.full((2,), math.log(2)).double())
    same = torch.rand(5, 4).softmax(1)
    assert jensen_shannon([same] * 7).max() < 1e-12


def test_a_shared_doubt_is_no_disagreement_but_counts_in_the_entropy_of_the_mean() -> None:
    of_mean, expected = entropies([torch.full((1, 4), 0.25)] * 3)
    assert of_mean.item() == pytest.approx(math.log(4))
    assert expected.item() == pytest.approx(math.log(4))


def test_disagreement_agrees_with_scikit_activeml_and_scipy() -> None:
    p = torch.randn(4, 30, 5, dtype=torch.float64).softmax(-1)
    np.testing.assert_allclose(jensen_shannon(p), average_kl_divergence(p.numpy().copy()), atol=1e-9)
    two = jensenshannon(p[0].numpy(), p[1].numpy(), axis=1) ** 2
    np.testing.assert_allclose(jensen_shannon(p[:2]), two, atol=1e-12)


class Gated(nn.Module):
    """Two hidden units under dropout of rate 0.5: four masks, of which an average can be written out."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm, self.drop = nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)
        self.head = nn.Linear(2, 3)
        self.head.weight.data *= 4
        self.norm.running_mean = torch.tensor([0.3, -0.2])

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.norm(self.hidden(x))))


def exact_passes(model: Gated, pool: Tensor) -> Tensor:
    """The outputs under each mask, all of them equally likely; BatchNorm as it is in eval mode: (4, n, c)."""
    h = model.norm.eval()(model.hidden(pool))
    masks = itertools.product((0.0, 2.0), repeat=2)
    return torch.stack([model.head(h * torch.tensor(mask)) for mask in masks]).softmax(-1).detach()


def test_bald_and_entropy_under_dropout_approach_the_average_over_all_masks() -> None:
    model, pool = Gated(), torch.randn(20, 3)
    q = exact_passes(model, pool).double()
    model.train()
    bald = Bald(passes=3000).embed(model, pool, seed=1)
    torch.testing.assert_close(bald, entropy(q.mean(0)) - entropy(q).mean(0), atol=0.03, rtol=0)
    flat = EntropyDropout(passes=3000).embed(model, pool, seed=1)
    torch.testing.assert_close(flat, entropy(q.mean(0)), atol=0.03, rtol=0)
    assert bald.max() > 0.3  # the margin of 0.03 is small beside what is measured


def mlp(c: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, c))


def test_a_committee_disagrees_as_the_formula_says(unchanged: Any) -> None:
    members, pool = [mlp() for _ in range(4)], torch.randn(N, 6)
    checks = [unchanged(member) for member in members]
    scores = QueryByCommittee(members=members).embed(members[0], pool)
    for check in checks:
        check()
    p = torch.stack([member.eval()(pool) for member in members]).detach().double().softmax(-1)
    torch.testing.assert_close(scores, entropy(p.mean(0)) - entropy(p).mean(0))
    reverse = QueryByCommittee(members=members[::-1]).embed(members[0], pool)
    torch.testing.assert_close(scores, reverse)
    small = QueryByCommittee(members=members).embed(members[0], pool, batch_size=2)
    torch.testing.assert_close(scores, small)


def test_numbers_disagree_by_their_variance() -> None:
    members, pool = [Squeezing() for _ in range(3)], torch.randn(N, 6)
    values = np.stack([member(pool).detach().numpy() for member in members]).astype(np.float64)
    scores = QueryByCommittee(members=members).embed(members[0], pool, batch_size=4)  # a last batch of one
    np.testing.assert_allclose(scores.numpy(), values.var(0), rtol=1e-4)
    pairs = torch.randn(5, N, 2)
    torch.testing.assert_close(variance(pairs), pairs.double().var(0, unbiased=False).mean(1))


def test_pixels_are_averaged() -> None:
    members, pool = [SegNet().eval() for _ in range(3)], torch.randn(N, 3, 8, 8)
    scores = QueryByCommittee(members=members).embed(members[0], pool)
    p = torch.stack([member(pool) for member in members]).detach().double().softmax(2)
    pixels = average_kl_divergence(p.permute(0, 1, 3, 4, 2).reshape(3, N * 64, 5).numpy().copy())
    np.testing.assert_allclose(scores, pixels.reshape(N, 64).mean(1), atol=1e-8)


def test_a_committee_is_trained_on_the_labeled_set_from_seeds_of_its_own() -> None:
    model, calls, trained = mlp(), [], []

    def fit(dataset: Any, seed: int) -> nn.Module:
        calls.append((dataset, seed))
        torch.manual_seed(seed)
        member = mlp()
        loss = nn.functional.cross_entropy(member(dataset.tensors[0]), dataset.tensors[1])
        loss.backward()
        trained.append(member)
        return member

    pool = torch.randn(N, 6)
    query = jostle.select("qbc", model, pool, n=4, labeled=LABELED, fit=fit, committee=3, seed=5)
    assert [dataset is LABELED for dataset, _ in calls] == [True, True]
    assert len({seed for _, seed in calls}) == 2
    given = jostle.select("qbc", model, pool, n=4, members=[model, *trained])
    assert (query.indices == given.indices).all()
    np.testing.assert_allclose(query.scores, given.scores)
    first = [seed for _, seed in calls]
    jostle.select("qbc", model, pool, n=4, labeled=LABELED, fit=fit, committee=3, seed=5)
    assert [seed for _, seed in calls[2:]] == first


def test_one_model_trained_again_and_again_still_gives_different_members() -> None:
    shared = mlp()

    def fit(dataset: Any, seed: int) -> nn.Module:
        with torch.no_grad():
            for parameter in shared.parameters():
                parameter.normal_(generator=torch.Generator().manual_seed(seed))
        return shared

    query = jostle.select("qbc", mlp(), torch.randn(N, 6), n=4, labeled=LABELED, fit=fit, seed=0)
    assert query.scores.min() > 1e-3


def test_a_committee_that_cannot_be_had_is_an_error() -> None:
    model, pool = mlp(), torch.randn(N, 6)
    with pytest.raises(ValueError, match=r"qbc needs a committee: pass fit=.*members="):
        jostle.select("qbc", model, pool, n=2, labeled=LABELED)
    with pytest.raises(ValueError, match="qbc needs the labeled examples: pass labeled="):
        jostle.select("qbc", model, pool, n=2, fit=lambda dataset, seed: mlp())
    with pytest.raises(ValueError, match="at least 2 members; got 1"):
        jostle.select("qbc", model, pool, n=2, members=[model])
    with pytest.raises(ValueError, match=r"outputs of one shape; got \[\(2, 3\), \(2, 4\)\]"):
        jostle.select("qbc", model, pool, n=2, members=[model, mlp(4)])
    with pytest.raises(TypeError, match=r"a member of a committee is a torch\.nn\.Module; got NoneType"):
        jostle.select("qbc", model, pool, n=2, labeled=LABELED, fit=lambda dataset, seed: None)
