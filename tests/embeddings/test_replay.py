"""What no jolt reaches is computed once and replayed: the same rows, bit for bit; where that is not safe, as ever."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import jostle
from jostle import models
from jostle.embeddings import deviations

K = 3


class Seen(nn.Linear):
    """Counts calls by widths, outside of itself: a module that keeps a count on itself is not replayed."""

    calls: ClassVar[Counter[tuple[int, int]]] = Counter()

    def forward(self, x: Tensor) -> Tensor:
        Seen.calls[self.in_features, self.out_features] += 1
        return super().forward(x)


class Base(nn.Module):
    """A trunk that is watched, a tail that is jolted, and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        Seen.calls.clear()
        self.trunk, self.tail, self.head = Seen(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.tail(self.trunk(x)).relu())


class Twice(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.tail(self.trunk(x) + self.trunk(x.flip(1))))


class WrittenInto(Base):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.trunk(x)
        out = self.tail(hidden)
        hidden.mul_(2)
        return self.head(out + hidden)


class Numbers(Base):
    """Goes another way by a number that a jolt reaches."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.tail(x.repeat(1, 2)[:, :8])
        if hidden.sum() > -1e9:
            return self.head(hidden + self.trunk(x))
        return self.head(hidden)


class Numpy(Base):
    """What a jolt reaches leaves torch and comes back."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.tail(x.repeat(1, 2)[:, :8])
        again = torch.from_numpy(hidden.detach().cpu().numpy().copy())
        return self.head(self.trunk(again[:, :6]))


class Keeping(nn.Module):
    """Hands something out beside its output."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Seen(6, 8)
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.inner(x)
        self.kept = hidden * 3
        return hidden + 1


class ByAnotherWay(Base):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = Keeping()  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        out = self.tail(self.trunk(x))
        return self.head(out + self.trunk.kept)  # type: ignore[operator]


class AfterTail(Base):
    """The watched module follows what is jolted, through a function of somebody's own."""

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.tail(Own.apply(self.trunk(self.tail(x.repeat(1, 2)[:, :8])[:, :6]))))


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


class Random(Base):
    """Draws in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = nn.Sequential(Seen(6, 6), Noisy())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.tail(self.trunk(self.noise(x))))


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x) * 0


class InPlace(Base):
    """ReLUs in place behind modules, as torchvision writes networks."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), Seen(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.tail(self.block(self.relu(self.trunk(x)))))


def both(
    model: nn.Module, pool: Any, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> tuple[Tensor, Tensor]:
    """Rows with replay, and without."""
    call = {"jolts": K, "seed": 0, "parameters": ["tail.*", "head.*"], "batch_size": 5} | settings
    replayed = jostle.deviations(model, pool, **call)
    with monkeypatch.context() as patch:
        patch.setattr(deviations, "can_replay", lambda network: False)
        return replayed, jostle.deviations(model, pool, **call)


POOL = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))  # four batches
PLAIN = 4 * (K + 1)  # calls without replay


@pytest.mark.parametrize("settings", [{}, {"space": "logits"}, {"project": 4}, {"noise": "layerwise"}])
def test_a_trunk_runs_once_for_each_micro_batch(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Base()
    jostle.deviations(model, POOL, jolts=K, seed=0, parameters="tail.*", batch_size=5, **settings)
    calls = Seen.calls[6, 8]
    assert 4 < calls <= 4 + 8 < PLAIN, "each batch once, one trace, a few looks at shapes"
    assert torch.equal(*both(model, POOL, monkeypatch, **settings))


@pytest.mark.parametrize(
    "kind", [Twice, WrittenInto, Numbers, Numpy, ByAnotherWay, AfterTail, Random, InPlace]
)
def test_the_same_rows_whatever_a_model_does(kind: type[Base], monkeypatch: pytest.MonkeyPatch) -> None:
    model = kind()
    replayed, plain = both(model, POOL, monkeypatch)
    assert torch.equal(replayed, plain)
    assert plain.any()


@pytest.mark.parametrize("kind", [Twice, WrittenInto, Numbers, Numpy, AfterTail])
def test_what_is_not_safe_is_computed_as_ever(kind: type[Base]) -> None:
    model = kind()
    jostle.deviations(model, POOL, jolts=K, seed=0, parameters=["tail.*", "head.*"], batch_size=5)
    assert Seen.calls[6, 8] >= PLAIN


def test_what_is_safe_beside_what_is_not_is_replayed() -> None:
    model = InPlace()
    jostle.deviations(model, POOL, jolts=K, seed=0, parameters=["tail.*"], batch_size=5)
    assert Seen.calls[8, 8] < PLAIN <= Seen.calls[6, 8]


def test_flow_by_numbers_of_the_inputs_alone_is_followed_batch_by_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Branching(Base):
        def forward(self, x: Tensor) -> Tensor:
            hidden = self.trunk(x)
            if float(x[0, 0]) > 0:  # some batches go one way, some the other
                hidden = self.trunk(self.tail(hidden)[:, :6])
            return self.head(self.tail(hidden))

    model = Branching()
    assert {float(batch[0, 0]) > 0 for batch in POOL.split(5)} == {True, False}
    assert torch.equal(*both(model, POOL, monkeypatch))


@pytest.mark.parametrize(
    ("name", "shape", "patterns", "settings"),
    [
        ("resnet18-cifar", (3, 32, 32), ["layer4.1.*", "head.*"], {}),
        ("drn-d-22", (3, 32, 48), ["trunk.layer8.*", "seg.*"], {"task": "segmentation"}),
    ],
)
def test_networks_give_the_same_rows(
    name: str,
    shape: tuple[int, ...],
    patterns: list[str],
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = models.build(name, seed=0, width=0.125).eval()
    pool = torch.randn(12, *shape, generator=torch.Generator().manual_seed(0))
    replayed, plain = both(model, pool, monkeypatch, parameters=patterns, **settings)
    assert torch.equal(replayed, plain)
    assert plain.any()


def test_bert_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    model = models.build("bert-tiny", seed=0, layers=3)
    lengths = torch.randint(8, 17, (12, 1), generator=torch.Generator().manual_seed(0))
    pool = {
        "input_ids": torch.randint(5, 999, (12, 16)),
        "attention_mask": (torch.arange(16) < lengths).long(),
    }
    patterns = ["bert.encoder.layer.2.*", "classifier.*"]
    assert torch.equal(*both(model, pool, monkeypatch, parameters=patterns))
