"""Private copies share nothing with the user's model, whatever its `__deepcopy__` says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jostle
from jostle.inference.isolation import private_copy, scoring_device

X = torch.randn(30, 6)


class Itself(nn.Module):
    """Gives itself for a copy, as huge frozen parts do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def __deepcopy__(self, memo: Any) -> nn.Module:
        return self


def sharing(share: Callable[[Tensor], Tensor]) -> type[nn.Module]:
    """A module whose copy's parameters are what `share` gives for its own."""

    class Shares(Itself):
        def __deepcopy__(self, memo: Any) -> nn.Module:
            made = type(self)()
            for own, new in zip(self.parameters(), made.parameters(), strict=True):
                new.data = share(own.data)
            return made

    return Shares


class SharesBuffers(Itself):
    def __deepcopy__(self, memo: Any) -> nn.Module:
        made = type(self)()
        made.load_state_dict(self.state_dict())
        made.net[1]._buffers = self.net[1]._buffers
        return made


class Holds(nn.Module):
    """Holds such a module twice, behind a bound method."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Itself()
        self.again = self.part
        self.run = self.part.forward

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x) + self.again(x)


class StubbornParameter(nn.Parameter):
    def __deepcopy__(self, memo: Any) -> nn.Parameter:
        return self


class Stubborn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.net.weight = StubbornParameter(self.net.weight.data)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


SHARING = {
    "itself": Itself,
    "weights": sharing(lambda own: own),
    "views": sharing(lambda own: own.reshape(-1).view(own.shape)),
    "buffers": SharesBuffers,
    "holds": Holds,
    "stubborn": Stubborn,
}


@pytest.mark.parametrize("kind", SHARING)
def test_a_copy_by_force_shares_nothing_and_computes_the_same(kind: str) -> None:
    model = SHARING[kind]().eval()
    made = private_copy(model)
    torch.testing.assert_close(made(X), model(X), rtol=0, atol=0)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        for tensor in [*made.parameters(), *made.buffers()]:
            tensor.fill_(7)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not torch.allclose(made(X), model(X)), "the copy must compute with its own weights"
    assert not {id(part) for part in made.modules()} & {id(part) for part in model.modules()}


def test_what_cannot_be_separated_is_refused() -> None:
    class Insists(nn.Linear):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)

        def __deepcopy__(self, memo: Any) -> nn.Module:
            return self

        def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
            return own.items()  # whoever asks, gets these

    model = Insists(6, 3)
    own = {"weight": nn.Parameter(torch.randn(3, 6))}
    with pytest.raises(ValueError, match="a copy of Insists shares or lacks weight"):
        private_copy(model)


def test_a_model_is_scored_where_there_is_float64() -> None:
    model = nn.Linear(6, 3)
    assert scoring_device(model) == scoring_device(model, "mps") == torch.device("cpu")
    plain, told = (jostle.select("entropy", model, X, 5, device=device) for device in (None, "mps"))
    assert plain.indices.tolist() == told.indices.tolist()


@pytest.mark.parametrize(
    ("where", "given", "words"),
    [
        ("meta", None, "the model is on the meta device, which holds no numbers: load"),
        ("cpu", "meta", "the model is on the meta device"),
        ("cpu", "gpu", "cannot compute on the device 'gpu'"),
    ],
)
def test_devices_that_hold_nothing_or_do_not_exist_are_refused(
    where: str, given: str | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        jostle.select("entropy", nn.Linear(6, 3, device=where), X, 5, device=given)
