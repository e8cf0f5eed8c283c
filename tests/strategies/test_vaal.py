from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import models
from jostle.strategies import VAAL, select, vaal
from jostle.strategies.autoencoders import (
    Encoder,
    Frame,
    code_divergence,
    decoder,
    discriminator,
    discriminator_logits,
    mean_of_both_sets,
    seeded_network,
    shuffled_batches,
    squared_error,
    standardize,
    state_losses,
)
from jostle.strategies.vaal import VAE


def black_and_white(seed: int = 0) -> tuple[TensorDataset, Tensor, set[int]]:
    """40 labeled images, all black; 100 others, ten of them white, at these positions."""
    rng = torch.Generator().manual_seed(seed)
    white = torch.randperm(100, generator=rng)[:10]
    pool = 0.05 * torch.randn(100, 1, 8, 8, generator=rng)
    pool[white] += 1
    labeled = TensorDataset(0.05 * torch.randn(40, 1, 8, 8, generator=rng), torch.arange(40) % 10)
    return labeled, pool, set(white.tolist())


@pytest.fixture
def model() -> nn.Module:
    return models.build("digits-cnn", seed=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_images_unlike_the_labeled_ones_are_picked(model: nn.Module, seed: int) -> None:
    labeled, pool, white = black_and_white(seed)
    query = VAAL(steps=20, batch=32, beta=0.1).select(model, pool, n=10, labeled=labeled, seed=seed)
    assert len(white & set(query.indices.tolist())) >= 8
    assert query.scores.tolist() == sorted(query.scores, reverse=True)


def test_divergence_is_summed_over_the_code_and_not_over_the_batch() -> None:
    zeros = torch.zeros(3, 5)
    assert code_divergence(zeros, zeros).tolist() == [0, 0, 0]
    torch.testing.assert_close(
        code_divergence(zeros + 2, zeros), torch.full((3,), 5 * 2.0)
    )  # half of the squared mean
    torch.testing.assert_close(code_divergence(zeros, zeros + 1), torch.full((3,), 5 * (math.e - 2) / 2))


def test_an_undecided_discriminator_loses_two_ln_two() -> None:
    states = torch.tensor([1.0, 1, 1, 0])
    loss = mean_of_both_sets(state_losses(torch.zeros(4, 1), states), m=3)
    assert loss.item() == pytest.approx(2 * math.log(2))
    assert mean_of_both_sets(state_losses(torch.tensor([[9.0], [9], [9], [-9]]), states), m=3) < 1e-3


def test_reconstruction_is_a_mean_over_pixels() -> None:
    assert squared_error(torch.ones(2, 3, 4, 4), torch.full((2, 3, 4, 4), 3.0)).tolist() == [4, 4]


def sides(network: nn.Sequential, x: Tensor) -> list[int]:
    """Sides of the maps after each convolution."""
    found = []
    for part in network:
        x = part(x)
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d | nn.Unflatten):
            found.append(x.shape[-1])
    return found


@pytest.mark.parametrize(
    ("side", "light", "down", "up"),
    [
        (32, False, [16, 8, 4, 2], [4, 8, 16, 32, 32]),
        (28, False, [14, 7, 3, 2], [4, 7, 14, 28, 28]),
        (64, False, [32, 16, 8, 4], [8, 16, 32, 64, 64]),
        (28, True, [29, 14, 7], [7, 14, 28, 28]),
        (8, True, [9, 4, 2], [2, 4, 8, 8]),
        (64, True, [65, 32, 16], [16, 32, 64, 64]),
    ],
)
def test_maps_of_the_published_sizes(side: int, light: bool, down: list[int], up: list[int]) -> None:
    frame = Frame(3, side, light)
    with torch.device("meta"):
        encoder = Encoder(frame, 32)
        assert sides(encoder.maps, torch.empty(2, 3, side, side)) == down
        assert encoder(torch.empty(2, 3, side, side))[1].shape == (2, 32)
        assert sides(decoder(frame, 32), torch.empty(2, 32)) == up


def test_weights_of_the_published_number() -> None:
    def weights(network: nn.Module) -> int:
        return sum(p.numel() for p in network.parameters())

    with torch.device("meta"):
        assert weights(VAE(Frame(3, 32, light=False), 32)) == 22_835_139
        assert weights(VAE(Frame(1, 28, light=True), 32)) < 500_000
        assert weights(discriminator(32, hidden=2)) == 32 * 512 + 512 + 512 * 512 + 512 + 512 + 1


@pytest.mark.parametrize(
    ("settings", "shape", "expected"),
    [
        ({}, (1, 8, 8), Frame(1, 8, True)),
        ({}, (1, 28, 28), Frame(1, 28, True)),
        ({"encoder": "full"}, (1, 28, 28), Frame(1, 28, False)),
        ({}, (3, 32, 32), Frame(3, 32, False)),
        ({"encoder": "light"}, (3, 32, 30), Frame(3, 32, True)),
        ({}, (3, 224, 160), Frame(3, 64, False)),
        ({"resize": 128}, (3, 688, 688), Frame(3, 128, False)),
    ],
)
def test_images_of_every_size_are_framed(
    settings: dict[str, Any], shape: tuple[int, ...], expected: Frame
) -> None:
    class Anything(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :2]

    strategy = VAAL(**settings)
    images = torch.randn(2, *shape)
    with strategy.context(Anything(), images, seed=0) as context:
        frame = strategy.frame(context, "vaal")
        assert frame == expected
        assert frame.read(context, context.pool).shape == (2, shape[0], expected.side, expected.side)


def test_any_range_of_pixels_is_standardized() -> None:
    a, b = 300 + 80 * torch.randn(40, 2, 5, 5), 300 + 80 * torch.randn(60, 2, 5, 5)
    a[:, 1] = b[:, 1] = 7  # a channel that never changes
    standardize(a, b)
    both = torch.cat([a, b])
    torch.testing.assert_close(both[:, 0].mean().item(), 0.0, atol=1e-5, rtol=0)
    torch.testing.assert_close(both[:, 0].std(correction=0).item(), 1.0, atol=1e-5, rtol=0)
    assert not both[:, 1].any()


def test_two_updates_of_the_autoencoder_then_one_of_the_discriminator(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    updated, seen = [], []
    descend, error = vaal.descend, vaal.squared_error

    def count(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        updated.append(sum(p.numel() for p in optimizer.param_groups[0]["params"]))
        assert optimizer.param_groups[0]["lr"] == 5e-4
        descend(optimizer, loss)

    def remember(images: Tensor, decoded: Tensor) -> Tensor:
        seen.append(images)
        return error(images, decoded)

    monkeypatch.setattr(vaal, "descend", count)
    monkeypatch.setattr(vaal, "squared_error", remember)
    labeled, pool, _ = black_and_white()
    VAAL(steps=3, batch=16).select(model, pool, n=1, labeled=labeled, seed=0)
    judge = sum(p.numel() for p in discriminator(32, hidden=2).parameters())
    assert [size == judge for size in updated] == [False, False, True] * 3
    assert not any(torch.equal(a, b) for a, b in pairwise(seen)), "batches are drawn afresh"


def test_losses_by_hand(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each update's loss and its pull at the codes, from the networks and what they last saw."""
    networks: list[Any] = []
    last: dict[str, Tensor] = {}
    updates: list[str] = []
    build, error, divergence, descend = (
        vaal.seeded_network,
        vaal.squared_error,
        vaal.code_divergence,
        vaal.descend,
    )

    def made(*arguments: Any) -> Any:
        networks.append(build(*arguments))
        return networks[-1]

    def see(images: Tensor, decoded: Tensor) -> Tensor:
        last.update(images=images, decoded=decoded)
        return error(images, decoded)

    def code(mean: Tensor, log_variance: Tensor) -> Tensor:
        last.update(mean=mean, log_variance=log_variance)
        return divergence(mean, log_variance)

    def halves(losses: Tensor) -> Tensor:
        return losses[:16].sum() / 16 + losses[16:].sum() / 16

    def check(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        vae, judge = networks
        if optimizer.param_groups[0]["params"][0] is next(vae.parameters()):
            mean, log_variance = last["mean"], last["log_variance"]
            rebuilt = (last["images"] - last["decoded"]).square().mean((1, 2, 3))
            normal = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
            labeled = -judge(mean).sigmoid().log()[:, 0]  # both sets shall be taken for labeled
            expected = halves(rebuilt + 0.3 * normal + 0.7 * labeled)
            pulls = [torch.autograd.grad(each, mean, retain_graph=True)[0] for each in (loss, expected)]
            torch.testing.assert_close(*pulls, rtol=1e-4, atol=1e-6)
            updates.append("vae")
        else:
            p = judge(vae.encoder(last["images"])[0]).sigmoid()[:, 0]
            expected = halves(-torch.cat([p[:16].log(), (1 - p[16:]).log()]))
            updates.append("judge")
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-6)
        descend(optimizer, loss)

    for name, patch in {
        "seeded_network": made,
        "squared_error": see,
        "code_divergence": code,
        "descend": check,
    }.items():
        monkeypatch.setattr(vaal, name, patch)
    labeled, pool, _ = black_and_white()
    settings: dict[str, Any] = {"beta": 0.3, "adversary": 0.7, "learning_rate": 5e-3}
    VAAL(steps=3, batch=16, **settings).select(model, pool, n=1, labeled=labeled, seed=0)
    assert updates == ["vae", "vae", "judge"] * 3


def test_published_number_of_steps() -> None:
    assert VAAL(batch=96).number_of_steps(20 + 1000) == 1062
    assert VAAL(steps=7).number_of_steps(10**6) == 7
    assert VAAL().number_of_steps(1) == 1


def test_a_score_does_not_depend_on_the_batch(model: nn.Module) -> None:
    encoder, judge = Encoder(Frame(1, 8, light=True), 4).train(), discriminator(4, hidden=2)
    images = torch.randn(6, 1, 8, 8)
    strategy = VAAL()
    with strategy.context(model, images, seed=0) as context:
        whole, single = (discriminator_logits(images, encoder, judge, context, batch) for batch in (6, 1))
    torch.testing.assert_close(whole, single)


def test_batches_cover_every_pass_and_repeat_with_the_seed() -> None:
    def some() -> list[list[int]]:
        batches = shuffled_batches(7, 3, torch.Generator().manual_seed(0))
        return [next(batches).tolist() for _ in range(4)]

    assert some() == some()
    assert all(len(set(a + b)) == 6 for a, b in zip(some()[::2], some()[1::2], strict=True))
    assert sorted(next(shuffled_batches(3, 128, torch.Generator()))) == [0, 1, 2]


def test_the_seed_decides_and_nothing_else_changes(model: nn.Module, unchanged: Any) -> None:
    labeled, pool, _ = black_and_white()
    check = unchanged(model.train())
    with torch.no_grad():  # training does not mind
        a = select("vaal", model, pool, n=5, labeled=labeled, seed=0, steps=2, batch=16)
    check()
    torch.rand(3)
    b = select("vaal", model, pool, n=5, labeled=labeled, seed=0, steps=2, batch=16)
    c = select("vaal", model, pool, n=5, labeled=labeled, seed=1, steps=2, batch=16)
    assert a.indices.tolist() == b.indices.tolist()
    assert a.scores.tolist() == b.scores.tolist() != c.scores.tolist()


def test_first_weights_follow_the_seed_alone(model: nn.Module) -> None:
    def weights(seed: int) -> Tensor:
        with VAAL().context(model, torch.zeros(2, 1, 8, 8), seed=seed) as context:
            torch.rand(seed + 1)  # whatever else is drawn
            return seeded_network(lambda: discriminator(4, hidden=1), context, "discriminator")[0].weight

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_errors_say_what_is_missing(model: nn.Module) -> None:
    labeled, pool, _ = black_and_white()
    with pytest.raises(ValueError, match="vaal needs the labeled examples"):
        select("vaal", model, pool, n=2)
    rows = torch.randn(9, 6)
    with pytest.raises(ValueError, match=r"vaal learns from images.*\(2, 6\)"):
        select("vaal", nn.Linear(6, 3), rows, n=2, labeled=TensorDataset(rows, torch.arange(9) % 3))
    pool[3, 0, 0, 0] = math.nan
    with pytest.raises(ValueError, match="inputs are NaN"):
        select("vaal", model, pool, n=2, labeled=labeled)
    for wrong in ({"steps": 0}, {"batch": 0}, {"resize": 40}, {"encoder": "wide"}):
        with pytest.raises(ValueError, match=rf"{next(iter(wrong))}"):
            VAAL(**wrong)


def test_numbers_and_several_labels_are_refused_by_name(model: nn.Module) -> None:
    labeled, pool, _ = black_and_white()
    one = models.build("digits-cnn", classes=1, seed=0)
    with pytest.raises(ValueError, match=r"vaal is not available for regression .*\(2, 1\)\): .*coreset"):
        select("vaal", one, pool, n=2, labeled=TensorDataset(labeled.tensors[0], torch.rand(40)))
    several = TensorDataset(labeled.tensors[0], torch.randint(0, 2, (40, 10)))
    with pytest.raises(ValueError, match=r"vaal is not available for multi-label .*\(2, 10\)\)"):
        select("vaal", model, pool, n=2, labeled=several, task="multi-label")
