import copy
import random
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from jostle import models

IMAGES = {"vgg": 32, "resnet18-cifar": 32, "resnet18": 64, "drn": 40, "mnist": 28, "digits": 8}

needs_nlp = pytest.mark.skipif(find_spec("transformers") is None, reason="needs jostle[nlp]")


def networks(taking: str | None = None) -> list[object]:
    """Every name but bert's, which has tests of its own on a folder that they write."""
    return [
        pytest.param(name, marks=needs_nlp if name == "bert-tiny" else ())
        for name in models.names()
        if name != "bert" and (taking is None or taking in models.settings(name))
    ]


def narrow(name: str) -> dict[str, object]:
    return {"width": 0.125} if "width" in models.settings(name) else {}


def batch(name: str, n: int = 4) -> Tensor | dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    if name == "bert-tiny":
        return {"input_ids": torch.randint(30522, (n, 6), generator=draw)}
    if name == "mlp":
        return torch.randn(n, 215, generator=draw)
    size = next(size for start, size in IMAGES.items() if name.startswith(start))
    return torch.randn(n, models.settings(name)["channels"], size, size, generator=draw)


def run(model: nn.Module, inputs: Tensor | dict[str, Tensor]) -> Tensor:
    return model(inputs) if isinstance(inputs, Tensor) else model(**inputs).logits


def weights(model: nn.Module) -> Tensor:
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def numpy_state() -> list[int]:
    return np.random.get_state()[1].tolist()  # noqa: NPY002


@pytest.mark.parametrize("name", networks())
def test_weights_depend_on_the_seed_alone_and_nothing_global_changes(name: str) -> None:
    torch.manual_seed(1)
    states = torch.get_rng_state(), random.getstate(), numpy_state()
    first = models.build(name, seed=5, **narrow(name))
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (random.getstate(), numpy_state())
    torch.manual_seed(2)
    assert torch.equal(weights(first), weights(models.build(name, seed=5, **narrow(name))))
    assert not torch.equal(weights(first), weights(models.build(name, seed=6, **narrow(name))))


def test_without_a_seed_the_global_generator_decides() -> None:
    torch.manual_seed(3)
    first, second = models.build("mlp"), models.build("mlp")
    torch.manual_seed(3)
    assert torch.equal(weights(first), weights(models.build("mlp")))
    assert not torch.equal(weights(first), weights(second))


def test_a_seed_gives_the_same_weights_whatever_the_default_device() -> None:
    with torch.device("meta"):
        model = models.build("mlp", seed=5)
    torch.testing.assert_close(weights(model), weights(models.build("mlp", seed=5)), rtol=0, atol=0)


@pytest.mark.parametrize("name", networks())
def test_every_parameter_takes_part_and_copies_agree(name: str) -> None:
    model = models.build(name, seed=0, **narrow(name))
    assert all(part.training for part in model.modules())
    run(model, batch(name)).square().mean().backward()
    idle = [key for key, each in model.named_parameters() if each.requires_grad and each.grad is None]
    assert idle == []
    model.eval()
    twin = copy.deepcopy(model)
    torch.testing.assert_close(run(model, batch(name)), run(twin, batch(name)), rtol=0, atol=0)


@pytest.mark.parametrize("name", networks())
def test_no_hook_finds_its_tensor_overwritten_in_place(name: str) -> None:
    """What a module returned must still be so after the forward pass, or a tapped map would lie."""
    model, kept = models.build(name, seed=0, **narrow(name)).eval(), []
    for part in model.modules():
        part.register_forward_hook(
            lambda _part, _inputs, output: (
                kept.append((output, output.clone())) if isinstance(output, Tensor) else None
            )
        )
    with torch.no_grad():
        run(model, batch(name))
    assert kept
    assert all(torch.equal(output, then) for output, then in kept)


@pytest.mark.parametrize("width", [0, -1.0, float("nan")])
def test_a_width_that_is_no_width(width: float) -> None:
    with pytest.raises(ValueError, match="width must be positive"):
        models.build("vgg16", width=width)


def test_a_user_adds_a_network() -> None:
    with models.REGISTRY.restored():

        @models.register("line")
        def line(inputs: int, outputs: int = 1) -> nn.Module:
            """A straight line."""
            return nn.Linear(inputs, outputs)

        assert models.describe("line") == "A straight line."
        assert models.settings("line")["outputs"] == 1
        assert models.build("line", inputs=3, seed=0)(torch.zeros(2, 3)).shape == (2, 1)
