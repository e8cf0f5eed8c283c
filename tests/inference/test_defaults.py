"""A default device of the user's, as notebooks set it for a GPU; `meta`, which computes nothing, stands for it."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import strategies

NAMES = ["alfa-mix", "bald", "core-gcn", "default", "qbc"]  # heads, masks, a training, noise, a committee


class Asking(nn.Module):
    """A network that writes down where tensors are made while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(16, 3)
        self.seen = set[str]()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(torch.empty(1).device.type)
        return self.head(self.body(x))

    def __deepcopy__(self, memo: dict[int, object]) -> "Asking":
        copy = Asking().to("cpu")
        copy.load_state_dict(self.state_dict())
        copy.seen = self.seen
        return copy


@pytest.fixture
def elsewhere() -> Iterator[None]:
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def scene() -> tuple[Asking, Tensor, TensorDataset]:
    with torch.device("cpu"):
        torch.manual_seed(0)
        return Asking().eval(), torch.randn(60, 6), TensorDataset(torch.randn(12, 6), torch.arange(12) % 3)


def picks(name: str) -> tuple[list[int], set[str], list[str]]:
    """What is picked, where the model made tensors, and where a training did."""
    model, pool, labeled = scene()
    trained = list[str]()

    def fit(data: object, seed: int) -> nn.Module:
        trained.append(torch.empty(1).device.type)
        return scene()[0]

    query = strategies.build(name).select(
        model, pool, 5, labeled=labeled, fit=fit, seed=0, task="classification"
    )
    return query.indices.tolist(), model.seen, trained


@pytest.mark.parametrize("name", NAMES)
def test_picks_are_those_without_it(name: str, request: pytest.FixtureRequest) -> None:
    expected, _, _ = picks(name)
    request.getfixturevalue("elsewhere")
    found, seen, trained = picks(name)
    assert found == expected
    assert seen == {"meta"}
    assert set(trained) <= {"meta"}
    assert torch.get_default_device().type == "meta"


@pytest.mark.usefixtures("elsewhere")
def test_it_is_back_after_an_error() -> None:
    model, pool, _ = scene()
    with pytest.raises(ValueError, match="needs"):
        strategies.build("qbc").select(model, pool, 5, seed=0)
    assert torch.get_default_device().type == "meta"
