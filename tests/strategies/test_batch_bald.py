"""BatchBALD against the joint entropy written out, and its relation to BALD."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import jostle
from jostle.embeddings.committee import jensen_shannon
from jostle.strategies.batch_bald import JointInformation


def opinions(n: int, passes: int, c: int, seed: int = 0) -> Tensor:
    """Distributions that a random linear model gives, one set of weights for each pass: (n, T, c)."""
    draws = torch.Generator().manual_seed(seed)
    weights = torch.randn(passes, 4, c, generator=draws, dtype=torch.float64)
    inputs = torch.randn(n, 4, generator=draws, dtype=torch.float64)
    return torch.einsum("nd,tdc->ntc", inputs, weights).softmax(-1)


def information(rows: Tensor, batch: list[int]) -> float:
    """I(labels of the batch; pass), by listing every combination of labels."""
    _, passes, c = rows.shape
    joint, given = 0.0, 0.0
    for labels in itertools.product(range(c), repeat=len(batch)):
        each = [
            math.prod(float(rows[i, t, y]) for i, y in zip(batch, labels, strict=True)) for t in range(passes)
        ]
        mean = sum(each) / passes
        joint -= mean * math.log(mean)
        given -= sum(p * math.log(p) for p in each) / passes
    return joint - given


def greedy(rows: Tensor, n: int) -> tuple[list[int], list[float]]:
    batch: list[int] = []
    total, gains = 0.0, []
    for _ in range(n):
        values = {i: information(rows, [*batch, i]) for i in range(len(rows)) if i not in batch}
        batch.append(max(values, key=lambda i: values[i]))
        gains.append(values[batch[-1]] - total)
        total = values[batch[-1]]
    return batch, gains


@pytest.mark.parametrize("seed", range(3))
def test_picks_and_gains_are_those_of_the_joint_distribution_written_out(seed: int) -> None:
    rows = opinions(7, 4, 3, seed)
    batch, gains = greedy(rows, 4)
    picks = JointInformation().pick(rows, 4)
    assert picks.positions.tolist() == batch
    np.testing.assert_allclose(picks.scores, gains, atol=1e-10)


def test_drawn_combinations_approach_all_of_them() -> None:
    rows = opinions(40, 20, 3, 1)
    exact = JointInformation(exact=3**6).pick(rows, 6)
    drawn = JointInformation(exact=1, samples=20_000).pick(rows, 6, seed=0)
    assert drawn.positions[0] == exact.positions[0]
    np.testing.assert_allclose(drawn.scores, exact.scores, atol=0.02)
    assert abs(drawn.scores - exact.scores)[1:].max() > 1e-7  # it was a sample
    again = JointInformation(exact=1, samples=20_000).pick(rows, 6, seed=0)
    assert (drawn.positions == again.positions).all()
    assert (drawn.scores == again.scores).all()


def test_a_copy_adds_less_than_it_tells_alone() -> None:
    rows = opinions(12, 16, 3, 4)
    alone = jensen_shannon(rows.unbind(1))
    best = int(alone.argmax())
    twins = torch.cat([rows[best : best + 1]] * 2)
    gains = JointInformation().pick(twins, 2).scores
    assert gains[0].item() == pytest.approx(alone[best].item())
    assert gains[1] < 0.9 * gains[0]
    crowd = torch.cat([rows, *[rows[best : best + 1]] * 5])
    assert (alone.sort(descending=True).values[1] < alone[best]).all()
    assert len(crowd[JointInformation().pick(crowd, 3).positions].unique(dim=0)) == 3


def test_labels_tell_the_logarithm_of_the_passes_at_most_and_the_rest_goes_by_bald() -> None:
    told = torch.eye(2, dtype=torch.float64)[None]  # a label that says which of two passes it was
    rows = torch.cat([opinions(8, 2, 2, 6), told, opinions(8, 2, 2, 7)])
    picks = JointInformation().pick(rows, 17)
    alone = jensen_shannon(rows.unbind(1))
    assert picks.positions.tolist() == alone.argsort(descending=True).tolist()
    assert picks.positions[0] == 8
    np.testing.assert_allclose(picks.scores, [math.log(2)] + [0.0] * 16, atol=1e-12)


def test_permuting_the_rows_permutes_the_picks_also_of_a_sample() -> None:
    rows, order = opinions(50, 12, 3, 5), torch.randperm(50)
    for selector in (JointInformation(), JointInformation(exact=9, samples=500)):
        picks = selector.pick(rows, 6, seed=1)
        turned = selector.pick(rows[order], 6, seed=1)
        assert order[turned.positions].tolist() == picks.positions.tolist()


def test_one_pick_is_that_of_bald_and_more_are_spread() -> None:
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    model[3].weight.data *= 8
    pool = 2 * torch.randn(30, 4)
    bald = jostle.select("bald", model, pool, n=1, seed=3, passes=20)
    joint = jostle.select("batch-bald", model, pool, n=1, seed=3, passes=20)
    assert (bald.indices == joint.indices).all()
    np.testing.assert_allclose(bald.scores, joint.scores, atol=1e-12)
    twice = pool[torch.as_tensor(bald.indices)].repeat(4, 1)
    many = torch.cat([pool, twice])
    copies = {int(bald.indices[0]), *range(30, 34)}
    assert len(copies & set(jostle.select("bald", model, many, n=5, seed=3, passes=20).indices.tolist())) == 5
    joint = jostle.select("batch-bald", model, many, n=3, seed=3, passes=20)
    assert len(copies & set(joint.indices.tolist())) < 3
