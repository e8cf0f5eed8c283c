"""The movements: their scaling, what moves, what is watched, and that batches, chunks and files do not matter."""

import math
from typing import Any

import pytest
import torch
from asking import context_of, perturbations_of
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from zoo import ZOO, ConvNet, N, SegNet, mlp

import jostle
from jostle import NoiseStability

K = 4


@pytest.mark.parametrize("kind", ZOO)
def test_every_kind_of_model_gives_finite_rows_and_stays_as_it_was(kind: str, unchanged: Any) -> None:
    make, pool = ZOO[kind]
    model = make()
    model.train()
    examples = pool()
    check = unchanged(model)
    rows = jostle.deviations(model, examples, num_perturbations=K, seed=0)
    assert len(rows) == N
    assert torch.isfinite(rows).all()
    assert (rows.norm(dim=1) > 0).all()
    check()
    query = NoiseStability(num_perturbations=K).select(model, examples, n=5, seed=0)
    assert len(set(query.indices.tolist())) == 5
    check()


def test_rows_are_the_scaled_differences_of_the_paper() -> None:
    model, x = mlp(), torch.randn(N, 6)
    rows = jostle.deviations(model, x, num_perturbations=K, noise_scale=1e-2, seed=3)
    jolts = perturbations_of(model, x)
    theta = dict(model.named_parameters())
    length = math.sqrt(sum(float(p.double().square().sum()) for p in theta.values()))
    entries = sum(p.numel() for p in theta.values())
    assert jolts.entries == entries
    assert jolts.size == pytest.approx(1e-3 * length, rel=1e-6)
    for k in range(K):
        direction = jolts.direction(k)
        squares = sum(float(d.double().square().sum()) for d in direction.values())
        assert squares == pytest.approx(1, rel=1e-5)
        moved = functional_call(
            model, {name: theta[name] + 1e-2 * length * direction[name] for name in theta}, x
        )
        expected = (moved.softmax(1) - model(x).softmax(1)) * math.sqrt(entries / K) / (1e-2 * length)
        torch.testing.assert_close(rows[:, 3 * k : 3 * k + 3], expected.detach(), rtol=1e-3, atol=1e-3)
    assert len({float(jolts.direction(k)["0.weight"][0, 0]) for k in range(K)}) == K, (
        "each has its own direction"
    )


@pytest.mark.parametrize(
    "kind", ["mlp", "cnn with batch norm and dropout", "transformer", "segmentation", "bert"]
)
def test_batch_and_chunk_size_change_rows_by_rounding_only(kind: str) -> None:
    """Rounding of the outputs, 2^-24 relative for a few hundred operations, is amplified by the scaling.

    The bound of docs/explanation/noise-stability.md: 64 * 2^-24 * max|output| * sqrt(P/K) / (scale * ||theta||).
    """
    make, pool = ZOO[kind]
    model, examples = make(), pool()
    whole = jostle.deviations(model, examples, num_perturbations=K, seed=0)
    with context_of(model, examples) as context:
        space = context.features() if context.task.moves == "features" else context.probabilities()
    jolts = perturbations_of(model, examples)
    bound = 64 * 2**-24 * float(space.abs().max()) * math.sqrt(jolts.entries / K) / jolts.size
    for batch_size, buffer_bytes in ((1, 2**28), (5, 1), (4, 2000), (13, 1)):
        rows = jostle.deviations(
            model, examples, num_perturbations=K, seed=0, batch_size=batch_size, buffer_bytes=buffer_bytes
        )
        assert float((rows - whole).abs().max()) <= bound


def test_the_pool_is_read_once() -> None:
    class Reading(torch.utils.data.Dataset[tuple[Tensor, str]]):
        reads = 0

        def __len__(self) -> int:
            return N

        def __getitem__(self, position: int) -> tuple[Tensor, str]:
            Reading.reads += 1
            return torch.full((6,), float(position)), "a target that no strategy can use"

    jostle.deviations(mlp(), Reading(), num_perturbations=K, seed=0, batch_size=3, buffer_bytes=1)
    assert Reading.reads == N + 2  # once each, and two for a first look at the outputs


class TestWhatIsWatched:
    def test_the_head_is_the_main_one_though_another_is_called_later(self) -> None:
        make, pool = ZOO["auxiliary head"]
        with context_of(make(), pool()) as context:
            assert context.runner.head == "main"

    def test_a_named_head_and_a_function(self) -> None:
        model, x = ConvNet().eval(), torch.randn(N, 1, 8, 8)
        with context_of(model, x, head="body.4") as context:
            torch.testing.assert_close(context.runner.features(x), model.body[:4](x))
        with context_of(
            model, x, head=lambda module, inputs: module.body[:2](inputs).mean((2, 3))
        ) as context:
            assert context.features().shape == (N, 6)

    def test_spatial_features_are_pooled_to_the_grid(self) -> None:
        model, x = SegNet(), torch.randn(N, 3, 8, 8)
        one, four = (
            jostle.deviations(model, x, num_perturbations=K, seed=0, spatial_grid=grid).view(N, K, 8, -1)
            for grid in (1, 2)
        )
        assert four.shape == (N, K, 8, 4)
        torch.testing.assert_close(four.mean(3, keepdim=True), one, rtol=1e-3, atol=1e-3)

    def test_features_that_are_not_by_example_are_refused(self) -> None:
        class Flattening(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body, self.out = nn.Linear(5, 8), nn.Linear(8, 3)

            def forward(self, x: Tensor) -> Tensor:
                return self.out(self.body(x).flatten(0, 1)).unflatten(0, x.shape[:2])  # (n, tokens, 3)

        with pytest.raises(ValueError, match=r"head 'out' is given shape \(\d+, 8\) for \d+ examples"):
            jostle.deviations(Flattening(), torch.randn(N, 4, 5), task="sequence", space="features")

    def test_the_exact_derivative_refuses_features_by_a_function(self) -> None:
        with pytest.raises(ValueError, match="head= as a layer's name"):
            jostle.deviations(
                mlp(), torch.randn(N, 6), space="features", estimator="jvp", head=lambda m, x: m[0](x)
            )

    def test_sequences_need_to_be_named(self) -> None:
        model = nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 3))
        x = torch.randn(N, 4, 5)
        with pytest.raises(ValueError, match="task='sequence'"):
            jostle.deviations(model, x)
        assert jostle.deviations(model, x, num_perturbations=K, task="sequence").shape == (N, K * 4 * 3)
        assert jostle.deviations(model, x, num_perturbations=K, task="sequence", space="features").shape == (
            N,
            K * 8,
        )


@pytest.mark.parametrize("buffer_bytes", [1, 2**20])
def test_outputs_of_unequal_length_are_an_error_that_shows_them(buffer_bytes: int) -> None:
    def collate(items: list[Tensor]) -> Tensor:
        return nn.utils.rnn.pad_sequence(items, batch_first=True)

    pool = [torch.randn(3 + i, 5) for i in range(6)]
    model = nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 3))
    with pytest.raises(ValueError, match=r"differ in shape between batches: \[\(12,\), \(18,\)"):
        jostle.deviations(
            model,
            pool,
            num_perturbations=2,
            task="sequence",
            collate_fn=collate,
            batch_size=2,
            buffer_bytes=buffer_bytes,
        )


def test_half_precision_is_scored_in_float32() -> None:
    model, x = mlp(), torch.randn(N, 6)
    half = mlp()
    half.load_state_dict(model.state_dict())
    half = half.to(torch.bfloat16)
    rounded = mlp()
    rounded.load_state_dict(half.state_dict())
    rows = jostle.deviations(half, x, num_perturbations=K, seed=0)
    assert rows.dtype == torch.float32
    torch.testing.assert_close(rows, jostle.deviations(rounded, x, num_perturbations=K, seed=0))


def test_a_model_that_parameters_do_not_reach_is_warned_about() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            return F.one_hot((x[:, 0] > 0).long(), 3).float()

    with pytest.warns(UserWarning, match="no output moved"):
        rows = jostle.deviations(Constant(), torch.randn(N, 6), num_perturbations=2, seed=0)
    assert not rows.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise_scale": 0.0}, "noise_scale must be above 0; got 0.0"),
        ({"noise_scale": -1e-3}, "must be above 0"),
        ({"noise_scale": math.nan}, "must be above 0"),
        ({"num_perturbations": 0}, "num_perturbations must be at least 1"),
        ({"noise": "globel"}, "did you mean 'global'"),
        ({"estimator": "jpv"}, "did you mean 'jvp'"),
        ({"space": "probabilites"}, "did you mean 'probabilities'"),
        ({"spatial_grid": 0}, "grid"),
        ({"head": "layer9"}, "unknown module 'layer9'"),
    ],
)
def test_bad_settings_say_what_arrived(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jostle.deviations(
            mlp(), torch.randn(N, 6), **({"space": "features"} if "head" in settings else {}), **settings
        )


def test_autocast_does_not_coarsen_rows() -> None:
    model, x = mlp(), torch.randn(N, 6)
    with torch.autocast("cpu", torch.bfloat16):
        rows = jostle.deviations(model, x, num_perturbations=K, seed=0)
    assert torch.equal(rows, jostle.deviations(model, x, num_perturbations=K, seed=0))
