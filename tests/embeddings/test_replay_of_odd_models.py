"""Models that do unusual things give the rows of computing every pass in full, bit for bit, and never fail for it."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jostle
from jostle.embeddings import deviations
from jostle.scoring.replay import Replay

POOL = torch.randn(13, 6, generator=torch.Generator().manual_seed(0))  # the last batch is shorter
STASH: list[Tensor] = []


class Part(nn.Module):
    """A trunk that does something with its layer's output and itself."""

    def __init__(self, act: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.act = nn.Linear(6, 8), act
        self.count = 0
        self.cache: list[Tensor] = []
        self.hidden: Tensor | None = None
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x: Tensor, *args: Any) -> Any:
        return self.act(self, self.layer(x), *args)


class Model(nn.Module):
    """A trunk, a tail that is jolted, and a head that is too; `flow` says what becomes of the input."""

    def __init__(self, flow: Callable[[Any, Tensor], Tensor], trunk: nn.Module) -> None:
        super().__init__()
        self.trunk, self.flow, self.count = trunk, flow, 0
        self.middle, self.tail, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.generator = np.random.default_rng(0)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.flow(self, x))


def straight(model: Any, x: Tensor) -> Tensor:
    return model.tail(model.trunk(x))


def of_tail(x: Any, model: Any) -> Tensor:
    """Something that a jolt reaches, (n, 8)."""
    return model.tail(x.repeat(1, 2)[:, :8])


def counting(part: Any, hidden: Tensor) -> Tensor:
    part.count += 1
    return hidden * (1 + 0.1 * part.count)


def counted_outside(model: Any, x: Tensor) -> Tensor:
    model.count += 1
    return model.tail(model.trunk(x, model.count))


def kept(part: Any, hidden: Tensor) -> Tensor:
    part.hidden = hidden
    return hidden


def recurrent(part: Any, hidden: Tensor) -> Tensor:
    if part.hidden is not None and len(part.hidden) == len(hidden):
        hidden = hidden + 0.1 * part.hidden
    part.hidden = hidden
    return hidden * 1


def cached(part: Any, hidden: Tensor) -> Tensor:
    part.cache.append(hidden.mean(0))
    return hidden + torch.stack(part.cache).mean(0)


def averaged(part: Any, hidden: Tensor) -> Tensor:
    part.average.mul_(0.9).add_(hidden.mean(0))
    return hidden - part.average


def stashed(part: Any, hidden: Tensor) -> Tensor:
    STASH[:] = [hidden]
    return hidden


def by_shape(part: Any, hidden: Tensor) -> Tensor:
    part.scale = len(hidden)
    return hidden * 1


def mask_by_shape(part: Any, hidden: Tensor) -> Tensor:
    if part.hidden is None or len(part.hidden) != len(hidden):
        part.hidden = torch.ones_like(hidden) * len(hidden)
    return hidden * part.hidden


def weight_of(part: Any, hidden: Tensor) -> Tensor:
    """A weight that is made anew when another has changed."""
    (tail,) = part.others
    if part.hidden is None or part.count != tail.weight._version:
        part.count, part.hidden = tail.weight._version, tail.weight * 2
    return F.linear(hidden, part.hidden)


def saved(hidden: Tensor) -> Tensor:
    file = io.BytesIO()
    torch.save(hidden, file)
    file.seek(0)
    loaded: Tensor = torch.load(file)
    return loaded


def written_by_numpy(model: Any, x: Tensor) -> Tensor:
    hidden = model.trunk(x)
    hidden.detach().numpy()[:] *= 2
    return model.tail(hidden)


def of_data(model: Any, x: Tensor) -> Tensor:
    hidden = model.trunk(x)
    hidden.data = hidden.data * 2
    return model.tail(hidden)


def marked(model: Any, x: Tensor) -> Tensor:
    hidden = model.trunk(x)
    hidden.times = getattr(hidden, "times", 0) + 1
    return model.tail(hidden) * hidden.times


def by_strides(model: Any, x: Tensor) -> Tensor:
    hidden = model.trunk(x)
    assert hidden.is_contiguous()
    return model.tail(model.middle(hidden)) * hidden.stride(0)


def plus(model: Any, x: Tensor, value: Callable[[], Any]) -> Tensor:
    return model.tail(model.trunk(x)) + value()


def through(leave: Callable[[Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """The trunk is given what a jolt reaches, by a way that no operation shows."""
    return lambda model, x: model.trunk(leave(of_tail(x, model).detach())[:, :6])


def multiplied(number: Callable[[Tensor], Any]) -> Callable[[Any, Tensor], Tensor]:
    """The trunk is given the inputs times a number that a jolt reaches."""
    return lambda model, x: model.trunk(x * number(of_tail(x, model)))


def sparse(model: Any, x: Tensor) -> Tensor:
    return model.tail(torch.sparse.mm(torch.eye(len(x)).to_sparse(), model.trunk(x)))


def conditional(model: Any, x: Tensor) -> Tensor:
    hidden = model.trunk(x)
    return model.tail(torch.cond(hidden.sum() > 0, torch.sin, torch.cos, (hidden,)))


def beside(model: Any, x: Tensor) -> Tensor:
    return model.tail(model.trunk(x)) + model.trunk.hidden


def under_autocast(model: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return model.middle(model.tail(model.trunk(x))).float()


PLAIN = {  # what a trunk does
    "counts its calls": counting,
    "goes on from the last hidden state": recurrent,
    "adds to a list": cached,
    "writes into a buffer": averaged,
    "draws from Python": lambda part, hidden: hidden * random.random(),
    "draws from NumPy": lambda part, hidden: hidden * np.random.rand(),  # noqa: NPY002
}
FLOWS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "called, and forward called": lambda m, x: m.tail(m.trunk(x) + m.trunk.forward(x.flip(1))),
    "written into by numpy": written_by_numpy,
    "written into by .data": of_data,
    "an attribute of the output": marked,
    "strides of the output": by_strides,
    "a generator of its own": lambda m, x: m.tail(m.trunk(x)) + m.generator.random(),
    "numbers in a list": multiplied(lambda hidden: torch.tensor([hidden.sum()])),
    "numbers in an old constructor": multiplied(lambda hidden: torch.Tensor([hidden.sum()])),
    "numbers by dlpack": through(torch.from_dlpack),
    "numbers by an old dlpack": through(
        lambda t: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(t))
    ),
    "numbers in a file": through(saved),
    "sparse": sparse,
    "vmap": lambda m, x: m.tail(torch.vmap(m.trunk)(x)),
    "torch.cond": conditional,
    "autocast": under_autocast,
}


def both(make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    """The rows of two models that are made alike are equal, with replay and without."""
    call = {"jolts": 3, "seed": 0, "parameters": ["tail.*", "head.*"], "batch_size": 5} | settings

    def rows() -> Tensor:
        torch.manual_seed(0)
        STASH.clear()
        return jostle.deviations(make(), POOL, **call)

    replayed = rows()
    with monkeypatch.context() as patch:
        patch.setattr(deviations, "can_replay", lambda network: False)
        plain = rows()
    assert torch.equal(replayed, plain)
    assert plain.any()


@pytest.mark.parametrize("what", PLAIN)
def test_what_a_trunk_keeps_for_the_next_pass(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    both(lambda: Model(straight, Part(PLAIN[what])), monkeypatch)


@pytest.mark.parametrize("what", FLOWS)
def test_ways_through_a_model(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    both(lambda: Model(FLOWS[what], nn.Linear(6, 8)), monkeypatch)


@pytest.mark.parametrize(
    ("act", "flow"),
    [
        (kept, beside),
        (mask_by_shape, beside),
        (stashed, lambda m, x: m.tail(m.trunk(x)) + STASH[0]),
        (by_shape, lambda m, x: m.tail(m.trunk(x)) * m.trunk.scale),
        (lambda part, hidden, n: hidden * n, counted_outside),
        (kept, lambda m, x: m.tail(h := m.trunk(x)) * (2 if h is m.trunk.hidden else 3)),
    ],
)
def test_what_a_trunk_hands_out_beside_its_output(
    act: Callable[..., Any], flow: Callable[[Any, Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    both(lambda: Model(flow, Part(act)), monkeypatch)
    both(lambda: Model(flow, Part(act)), monkeypatch, batch_size=2)


def test_a_weight_that_is_made_of_a_jolted_one_when_that_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> Model:
        model = Model(straight, Part(weight_of))
        model.trunk.others = [model.tail]  # type: ignore[assignment]
        return model

    both(make, monkeypatch)


def doubling(module: nn.Module, args: Any, output: Tensor) -> Tensor:
    return output * 2


@pytest.mark.parametrize("where", ["the trunk", "everywhere"])
def test_hooks_that_change_an_output_do_so_once(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> Model:
        model = Model(straight, nn.Linear(6, 8))
        if where == "the trunk":
            model.trunk.register_forward_hook(doubling)
        return model

    hook = nn.modules.module.register_module_forward_hook(doubling) if where == "everywhere" else None
    try:
        both(make, monkeypatch)
    finally:
        if hook is not None:
            hook.remove()


@pytest.mark.parametrize("jolted", ["layers.1.*", "layers.1.linear2.*"])
@pytest.mark.parametrize("masked", [False, True])
def test_fused_attention_stays_fused(jolted: str, masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Encoder(nn.TransformerEncoder):
        def __init__(self) -> None:
            super().__init__(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
            self.first, self.head = nn.Linear(1, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            padding = (x > 0.5) & (torch.arange(6) > 2) if masked else None
            return self.head(super().forward(self.first(x[..., None]), src_key_padding_mask=padding).sum(1))

    both(Encoder, monkeypatch, parameters=[jolted, "head.*"])


def test_autocast_inside_a_model_does_not_hold_weights_of_before_a_jolt() -> None:
    model = Model(under_autocast, nn.Linear(6, 8))
    frozen = copy.deepcopy(model).requires_grad_(False)  # of which autocast keeps no copies
    call: dict[str, Any] = {"jolts": 2, "seed": 0, "scale": 0.1, "parameters": "tail.*"}
    rows = jostle.deviations(model, POOL, **call)
    assert rows.any()
    assert torch.equal(rows, jostle.deviations(frozen, POOL, **call))


@pytest.mark.parametrize("place", ["buffer", "output"])
def test_sparse_tensors_are_no_obstacle(place: str) -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)
            if place == "buffer":
                self.register_buffer("edges", torch.eye(3).to_sparse_csr())
            self.made = Part(lambda part, hidden: torch.eye(3).to_sparse())

        def forward(self, x: Tensor) -> Tensor:
            edges = self.edges if place == "buffer" else self.made(x)
            return (edges @ self.layer(x).T).T

    torch.manual_seed(0)
    model = Graph()
    dense = nn.Sequential(copy.deepcopy(model.layer))
    rows = jostle.deviations(model, POOL, jolts=2, seed=0, parameters="layer.*")
    torch.testing.assert_close(rows, jostle.deviations(dense, POOL, jolts=2, seed=0))


def replayed_modules(model: nn.Module, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> set[str]:
    """The names of the modules that were replayed in any micro-batch."""
    found: set[str] = set()
    plain = Replay.recorded

    def recorded(self: Replay, *args: Any) -> Any:
        clean, record = plain(self, *args)
        found.update(record.outputs)
        return clean, record

    call = {"jolts": 2, "seed": 0, "parameters": ["tail.*", "head.*"], "batch_size": 5} | settings
    with monkeypatch.context() as patch:
        patch.setattr(Replay, "recorded", recorded)
        jostle.deviations(model, POOL, **call)
    return found


def test_weights_that_are_made_anew_in_each_pass_are_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    trunk = nn.utils.weight_norm(nn.Linear(6, 8))
    assert replayed_modules(Model(straight, trunk), monkeypatch) == {"trunk"}


def test_what_is_inside_a_trunk_that_keeps_something_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part(stashed)
    assert replayed_modules(Model(lambda m, x: m.tail(m.trunk(x)) + STASH[0], part), monkeypatch) == {
        "trunk.layer"
    }


def test_an_interrupt_leaves_the_model_as_it_is() -> None:
    class Interrupted(Model):
        def forward(self, x: Tensor) -> Tensor:
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return super().forward(x)

    torch.manual_seed(0)
    model, left = Interrupted(straight, nn.Linear(6, 8)), [0]
    before = copy.deepcopy(model.state_dict())
    names = [sorted(vars(part)) for part in model.modules()]
    interrupts = 0
    while left[0] <= 0:
        interrupts += 1
        left[0] = interrupts
        try:
            jostle.deviations(model, POOL, jolts=2, seed=0, parameters=["tail.*"], batch_size=5)
        except KeyboardInterrupt:
            assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
            assert [sorted(vars(part)) for part in model.modules()] == names
            assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert interrupts > 9, "at rest, in a trace, and in the middle of a replay"
