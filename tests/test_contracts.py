"""Contracts of every strategy of the registry on one task; those of the call once for each way through the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from quick import QUICK
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from zoo import ConvNet, SegNet

from jostle import strategies
from jostle.core import Query, Strategy

N, M, PICKS = 24, 12, 5
DRAWS = {  # picks depend on draws that a permutation moves to other examples, or (prob-cover) on ties
    "random", "badge", "noise-stability-d", "vaal", "sraal", "alfa-mix", "cluster-margin", "typiclust",
    "core-gcn", "uncertain-gcn", "batch-bald", "prob-cover", "drop-query", "power-margin",
    "clue", "falcun", "ldm-s",
}  # fmt: skip


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class Scene:
    """A model with BatchNorm and Dropout, a pool and a labeled set, for one task."""

    def __init__(self, task: str) -> None:
        rng = torch.Generator().manual_seed(1)
        self.task = task
        self.settings: dict[str, Any] = {}
        if task == "classification":
            self.make, shape, targets = ConvNet, (1, 8, 8), torch.arange(M) % 4
        elif task == "binary":
            self.make, shape, targets = ConvNet, (1, 8, 8), (torch.arange(M) % 2).float()
            self.settings = {"classes": 1}
        elif task == "multi-label":
            self.make, shape, targets = ConvNet, (1, 8, 8), torch.randint(0, 2, (M, 4), generator=rng).float()
        elif task == "sequence":
            self.make, shape, targets = Tagger, (5, 6), torch.randint(0, 4, (M, 5), generator=rng)
        elif task == "regression":
            self.make, shape, targets = Regressor, (6,), torch.randn(M, 1, generator=rng)
        else:
            self.make, shape, targets = SegNet, (3, 8, 8), torch.randint(0, 5, (M, 8, 8), generator=rng)
        self.pool = torch.randn(N, *shape, generator=rng)
        self.labeled = TensorDataset(torch.randn(M, *shape, generator=rng), targets)
        self.model = self.fit(self.labeled, 0)

    def fit(self, dataset: Any, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        model = self.make(**self.settings)
        model(dataset.tensors[0])  # running statistics of its own
        return model

    def trained_with(self, strategy: Strategy) -> nn.Module:
        return strategy.join(self.model, self.pool[:2], 0).model


def select(
    strategy: Strategy, scene: Scene, model: nn.Module, pool: Any = None, n: int = PICKS, seed: int = 3
) -> Query:
    options: dict[str, Any] = {"labeled": scene.labeled, "fit": scene.fit, "task": scene.task, "seed": seed}
    return strategy.select(model, scene.pool if pool is None else pool, n, **options)


TASKS = ("classification", "binary", "regression", "segmentation", "multi-label", "sequence")
PATHS = ("entropy", "coreset", "noise-stability", "bald", "qbc", "alfa-mix", "ll4al", "vaal")


def cases(served: bool, names: Iterable[str] = strategies.names(), most: int = 1) -> list[Any]:
    """Strategies with tasks that they serve, or do not serve: the first ones of each."""
    fitting = {
        name: [task for task in TASKS if (task in strategies.describe(name).tasks) == served]
        for name in names
    }
    return [
        pytest.param(name, task, id=f"{name}-{task}")
        for name, tasks in fitting.items()
        for task in tasks[:most]
    ]


EVERY = cases(True)
EACH_PATH = cases(True, PATHS)


@pytest.fixture
def strategy(name: str) -> Strategy:
    return strategies.build(name, **QUICK.get(name, {}))


@pytest.fixture
def scene(task: str) -> Scene:
    return Scene(task)


@pytest.mark.parametrize(("name", "task"), {p.id: p for p in [*EVERY, *cases(True, PATHS, most=9)]}.values())
def test_distinct_positions_that_repeat_and_leave_the_model_alone(
    strategy: Strategy, scene: Scene, unchanged: Any
) -> None:
    model = scene.trained_with(strategy)
    model.train()
    next(model.parameters()).grad = torch.ones_like(next(model.parameters()))
    check = unchanged(model)
    query = select(strategy, scene, model)
    check()
    assert query.indices.dtype == np.int64
    assert len(set(query.indices.tolist())) == PICKS
    assert set(query.indices.tolist()) <= set(range(N))
    assert query.scores.shape == (PICKS,)
    again = select(strategy, scene, model)
    assert again.indices.tolist() == query.indices.tolist()
    np.testing.assert_array_equal(again.scores, query.scores)


class Overwriting(nn.Module):
    """Shifts and cuts its inputs, in place or not, in front of another model; that one's layers likewise."""

    def __init__(self, model: nn.Module, inplace: bool) -> None:
        super().__init__()
        self.model, self.inplace = model, inplace
        for part in model.modules():
            if hasattr(part, "inplace"):
                part.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        x = x.sub_(0.3) if self.inplace else x - 0.3
        return self.model(nn.functional.leaky_relu(x, 0.1, inplace=self.inplace))


@pytest.mark.parametrize(("name", "task"), EACH_PATH)
def test_a_model_that_writes_into_its_inputs_picks_the_same_and_leaves_them_alone(
    strategy: Strategy, scene: Scene
) -> None:
    found = []
    for inplace in (False, True):

        def fit(dataset: Any, seed: int, inplace: bool = inplace) -> nn.Module:
            return Overwriting(scene.fit(TensorDataset(dataset.tensors[0].clone()), seed), inplace)

        model = strategy.join(fit(scene.labeled, 0), scene.pool[:2], 0).model
        pool, known = scene.pool.clone(), TensorDataset(*(part.clone() for part in scene.labeled.tensors))
        found.append(strategy.select(model, pool, PICKS, labeled=known, fit=fit, task=scene.task, seed=3))
        assert torch.equal(pool, scene.pool)
        assert all(map(torch.equal, known.tensors, scene.labeled.tensors))
    plain, overwriting = found
    assert overwriting.indices.tolist() == plain.indices.tolist()
    np.testing.assert_array_equal(overwriting.scores, plain.scores)


@pytest.mark.parametrize(("name", "task"), EVERY)
def test_all_but_the_excluded_can_be_picked_and_rows_are_one_for_each(
    strategy: Strategy, scene: Scene
) -> None:
    options: dict[str, Any] = {"labeled": scene.labeled, "fit": scene.fit, "task": scene.task, "seed": 3}
    model = scene.trained_with(strategy)
    assert len(strategy.embed(model, scene.pool, **options)) == N
    kept = strategy.select(model, scene.pool, N - 4, **options, exclude=[0, 7, 8, 23])
    assert sorted(kept.indices.tolist()) == [i for i in range(N) if i not in (0, 7, 8, 23)]


@pytest.mark.parametrize(("name", "task"), EVERY)
def test_duplicates_and_constant_inputs_are_served(strategy: Strategy, scene: Scene) -> None:
    model = scene.trained_with(strategy)
    for pool in (scene.pool[:3].repeat(8, *[1] * (scene.pool.ndim - 1)), torch.zeros_like(scene.pool)):
        query = select(strategy, scene, model, pool)
        assert len(set(query.indices.tolist())) == PICKS
        assert not np.isinf(query.scores).any()


@pytest.mark.parametrize(("name", "task"), [p for p in EVERY if p.values[0] not in DRAWS])
def test_a_permuted_pool_gives_permuted_picks(strategy: Strategy, scene: Scene) -> None:
    model = scene.trained_with(strategy)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(8))
    plain = select(strategy, scene, model).indices
    permuted = select(strategy, scene, model, scene.pool[order]).indices
    assert order[permuted].tolist() == plain.tolist()


@pytest.mark.parametrize(("name", "task"), EACH_PATH)
def test_an_interrupt_leaves_no_trace(
    strategy: Strategy, scene: Scene, unchanged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scene.trained_with(strategy)
    check = unchanged(model)
    calls = 0

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return forward(*args, **kwargs)

    kind = scene.make
    forward = kind.forward
    monkeypatch.setattr(kind, "forward", interrupted)
    try:
        select(strategy, scene, model)
    except KeyboardInterrupt:
        pass
    else:
        assert calls < 2, "the interrupt was swallowed"
    check()


@pytest.mark.parametrize(("name", "task"), cases(False))
def test_a_task_that_is_not_served_is_an_error_that_names_it(
    name: str, task: str, strategy: Strategy, scene: Scene
) -> None:
    with pytest.raises(ValueError, match=rf"{name} is not available for {task}|prob-cover .*delta="):
        select(strategy, scene, scene.trained_with(strategy))


def test_who_cannot_do_without_the_labeled_set_asks_for_it() -> None:
    scene = Scene("classification")
    for name in ("alfa-mix", "bait", "core-gcn", "coreset", "lcmd", "qbc", "sraal", "uncertain-gcn", "vaal"):
        strategy = strategies.build(name, **QUICK.get(name, {}))
        with pytest.raises(ValueError, match=f"{name} needs the labeled examples: pass labeled="):
            strategy.select(scene.model, scene.pool, 3, fit=scene.fit)


def test_every_card_is_complete() -> None:
    needs = {"weights", "probabilities", "features", "labeled set", "dropout", "extra training", "images"}
    for card in map(strategies.describe, strategies.names()):
        assert card.idea.count(".") >= 2, f"{card.name}: an idea is two sentences"
        assert all((card.formula, card.tasks, card.cost, card.when)), card.name
        assert card.paper or card.name == "random"
        assert set(card.needs) <= needs, card.name


def test_messages_call_a_strategy_as_the_registry_does() -> None:
    known = strategies.names()
    assert {name: made.name for name in known if (made := strategies.build(name)).name not in known} == {}
    assert strategies.build("typiclust").name == "typiclust"

    class Mine(type(strategies.build("typiclust"))):  # type: ignore[misc]
        """Not in the registry."""

    assert Mine().name == "mine"
