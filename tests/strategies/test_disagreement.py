"""Query by committee: who is trained, on what, and what cannot be a committee."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset
from zoo import N

import jostle

LABELED = TensorDataset(torch.randn(8, 6), torch.arange(8) % 3)


def mlp(c: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, c))


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
