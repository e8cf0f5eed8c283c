"""The one call: what it returns, what it refuses, and that an interrupt leaves no trace."""

import csv
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from zoo import ConvNet, N, mlp

import jostle
from jostle import NoiseStability

X = torch.randn(N, 6, generator=torch.Generator().manual_seed(5))


def test_a_query_is_positions_scores_seconds_and_a_seed(tmp_path: Any) -> None:
    query = NoiseStability(num_perturbations=5).select(mlp(), X, n=4, seed=7)
    assert query.indices.dtype == np.int64
    assert query.indices.shape == query.scores.shape == (4,)
    assert (np.diff(query.scores) <= 0).all()  # gaps of greedy k-center never grow
    assert query.seconds.keys() == {"embedding", "selection"}
    assert query.seconds["embedding"] > 0
    assert query.seed == 7
    query.save(tmp_path / "picks.csv")
    with (tmp_path / "picks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["position"]) for row in rows] == query.indices.tolist()
    assert [int(row["order"]) for row in rows] == [0, 1, 2, 3]
    assert [float(row["score"]) for row in rows] == query.scores.tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["picks.csv"]


def test_saved_queries_replace_only_each_other(tmp_path: Any) -> None:
    query = NoiseStability(num_perturbations=2).select(mlp(), X, n=4, seed=7)
    path = tmp_path / "picks.csv"
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "picks.csv.part").symlink_to(precious)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(query.save, [path] * 40))
    assert len(path.read_text().splitlines()) == 5
    path.write_text("position,order,score,label\n3,0,0.5,cat\n")  # somebody went on with it by hand
    with pytest.raises(FileExistsError, match="overwrite=True"):
        query.save(path)
    assert "cat" in path.read_text()
    query.save(path, overwrite=True)
    assert "cat" not in path.read_text()
    assert precious.read_text() == "precious"


class Broken(nn.Module):
    def __init__(self, bad: float) -> None:
        super().__init__()
        self.net, self.bad = mlp(), bad

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x[:, :1] > 1, torch.tensor(self.bad), self.net(x))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_non_finite_outputs_name_the_examples(bad: float) -> None:
    where = (X[:, 0] > 1).nonzero().flatten().tolist()
    shown = ", ".join(map(str, where[:5]))
    with pytest.raises(
        ValueError, match=rf"NaN or infinite for {len(where)} of {N} examples \(positions {shown}"
    ):
        NoiseStability(num_perturbations=2).select(Broken(bad), X, n=2)
    kept = NoiseStability(num_perturbations=2).select(Broken(bad), X, n=2, exclude=where, seed=0)
    assert not set(kept.indices.tolist()) & set(where)


@pytest.mark.parametrize(
    ("name", "settings", "what"),
    [
        ("noise-stability", {"initial_centers": "labeled", "num_perturbations": 2}, "outputs"),
        ("lcmd", {"sketch": 2}, "outputs"),
        ("coreset", {}, "features"),
        ("vaal", {"steps": 1}, "inputs"),
        ("sraal", {"steps": 1}, "inputs"),
    ],
)
def test_non_finite_labeled_examples_are_told_from_those_of_the_pool(
    name: str, settings: dict[str, Any], what: str
) -> None:
    pool, known = torch.randn(12, 1, 8, 8), torch.randn(5, 1, 8, 8)
    known[2, 0, 0, 0] = float("nan")
    call = {"labeled": TensorDataset(known, torch.arange(5) % 4), "seed": 0, **settings}
    with pytest.raises(
        ValueError,
        match=rf"{what} of the labeled set are NaN or infinite for 1 of 5 examples \(positions 2\)",
    ):
        jostle.select(name, ConvNet(), pool, n=2, **call)
    pool[[1, 7], 0, 0, 0] = float("inf")
    call["labeled"] = TensorDataset(torch.randn(5, 1, 8, 8), torch.arange(5) % 4)
    with pytest.raises(ValueError, match=r"are NaN or infinite for 1 of 11 examples \(positions 7\)"):
        jostle.select(name, ConvNet(), pool, n=2, exclude=[1], **call)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n": N + 1}, ValueError, f"asked for {N + 1} examples from a pool of {N}"),
        ({"n": N, "exclude": [1]}, ValueError, f"asked for {N} examples from a pool of {N} less 1 excluded"),
        ({"pool": X[:0]}, ValueError, "pool is empty"),
        ({"pool": []}, ValueError, "pool is empty"),
        ({"strategy": "noise-stabilty"}, ValueError, "did you mean 'noise-stability'"),
        (
            {"num_perturbation": 3},
            ValueError,
            "unknown setting of noise-stability 'num_perturbation'; did you mean 'num_perturbations'",
        ),
        ({"model": lambda x: x}, TypeError, "nn.Module; got function"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"exclude": [N]}, ValueError, "exclude holds positions"),
        (
            {"exclude": torch.zeros(N, dtype=torch.bool)},
            ValueError,
            "bool: of a mask, pass its nonzero places",
        ),
        ({"exclude": [0.5]}, ValueError, "whole numbers; got float64"),
        ({"labeld": X}, ValueError, "did you mean 'labeled'"),
        ({"head": "fc"}, ValueError, "unknown module 'fc'"),
        ({"seed": 1.5}, TypeError, "seed is a whole number; got 1.5"),
    ],
)
def test_bad_input_says_what_arrived(change: dict[str, Any], error: type[Exception], message: str) -> None:
    call = {"strategy": "noise-stability", "model": mlp(), "pool": X, "n": 2} | change
    with pytest.raises(error, match=message):
        jostle.select(**call)


def test_by_name_with_settings_or_as_it_was_built() -> None:
    model, built = mlp(), NoiseStability(num_perturbations=5, noise_scale=1e-2)
    found = [
        jostle.select("noise-stability", model, X, n=4, seed=0, num_perturbations=5, noise_scale=1e-2),
        jostle.select(built, model, X, n=4, seed=0),
        built.select(model, X, n=4, seed=0),
    ]
    assert len({tuple(query.indices.tolist()) for query in found}) == 1


class Returning(nn.Module):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.net, self.value = mlp(), value

    def forward(self, x: Tensor) -> Any:
        return self.value(self.net(x))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (lambda y: "words", TypeError, "returned str.*outputs="),
        (lambda y: {"scores": y}, TypeError, "returned dict with scores.*outputs="),
        (lambda y: y.t(), ValueError, r"returned shape \(3, 2\) for 2 examples"),
        (lambda y: y.sum(), ValueError, r"shape \(\) for 2 examples"),
        (lambda y: (), TypeError, "returned tuple"),
        (lambda y: y.argmax(1), TypeError, "outputs are torch.int64; strategies need logits"),
    ],
)
def test_strange_outputs_are_errors(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NoiseStability(num_perturbations=2).select(Returning(value), X, n=2)


def test_a_progress_bar_only_where_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    NoiseStability(num_perturbations=2).select(mlp(), X, n=2, seed=0)
    assert capfd.readouterr() == ("", "")
    NoiseStability(num_perturbations=2).select(mlp(), X, n=2, seed=0, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "perturbing" in err


def test_a_call_from_two_threads_at_once_leaves_the_random_state_alone() -> None:
    model = mlp()
    state = torch.get_rng_state()
    with ThreadPoolExecutor(2) as threads:
        queries = [
            threads.submit(NoiseStability(num_perturbations=20).select, model, X, 4, seed=0) for _ in range(8)
        ]
        picks = {tuple(query.result().indices.tolist()) for query in queries}
    assert len(picks) == 1
    assert torch.equal(state, torch.get_rng_state())


def test_micro_batches_follow_from_the_largest_activation() -> None:
    def size(width: int) -> int:
        model = nn.Sequential(nn.Linear(6, width), nn.Linear(width, 3))
        with NoiseStability().context(model, X, seed=0) as context:
            return context.micro_batch

    assert size(8) == 1024  # never more
    assert size(8192) == 256  # 8 MiB / (4 bytes x 8192)
    assert size(9000) == 128  # a power of two


def test_public_names_are_found_where_they_are_defined() -> None:
    assert {name for name in jostle.__all__ if getattr(jostle, name, None) is None} == set()
    assert jostle.k_center is jostle.selectors.k_center
    with pytest.raises(AttributeError, match="'jostle' has no attribute 'selct'"):
        _ = jostle.selct
