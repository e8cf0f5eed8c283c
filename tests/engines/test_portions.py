"""Portions of a pool, scored apart, give the rows and picks of the whole: no cluster is needed to see that."""

import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import TensorDataset

from jostle import datasets, strategies
from jostle.core import Strategy
from jostle.datasets.binary_files import Stretched
from jostle.datasets.catalog import apply_transform
from jostle.datasets.data import Fields, Split, as_pool
from jostle.datasets.images import ImageFiles
from jostle.engines.ray_engine import Found, Ray, prepare
from jostle.engines.worker import (
    Candidates,
    PortionScorer,
    Worker,
    cache_key,
    describe_pool,
    read_shard,
    write_shard,
)
from jostle.inputs import Pool
from jostle.inputs.pool import positions_in
from jostle.rows.geometry import Outer
from jostle.selectors.shards import LocalShards, Shard

RUNS = {
    "badge", "bald", "batch-bald", "coreset", "default", "egl", "entropy", "entropy-dropout", "flip-cover", "lcmd",
    "least-confidence", "linear-herding", "ll4al", "margin", "margin-herding", "max-herding", "noise-herding",
    "noise-stability", "noise-stability-d", "noise-stability-m", "noise-stability-relative", "typiclust",
    "uncertainty-herding",
}  # fmt: skip


def scene() -> tuple[nn.Module, torch.Tensor, TensorDataset]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
    labeled = TensorDataset(torch.randn(9, 6), torch.arange(9) % 4)
    return model.eval(), torch.randn(150, 6), labeled


@dataclass(frozen=True, kw_only=True)
class Apart(Ray):
    """Scores portions one after the other in this process, which is all that a cluster does to rows."""

    def picks(self, strategy, selector, model, candidates, n, options) -> Found:
        config = prepare(strategy, model, candidates, options)
        micro = config.options["batch_size"]
        spans = list(candidates.spans(micro, self.portion))
        scorer = PortionScorer(config)
        shards = LocalShards([scorer.shard(candidates.portion(span)) for span in spans])
        centers = scorer.centers(candidates.portion(spans[0])) if options.get("labeled") is not None else None
        picks = selector.pick_over(shards, n, centers=centers, seed=options["seed"])
        return Found(picks, {"shards": float(len(spans))}, options["seed"])


def assert_same_picks(strategy: Strategy, model, pool, n: int, size: int, **options) -> None:
    """A pool in portions of some size gives the picks of the whole, ties included."""
    whole = strategy.select(model, pool, n, **options)
    found = strategy.select(model, pool, n, engine=Apart(portion=size), **options)
    assert found.seconds.get("shards", 3) > 2
    assert found.indices.tolist() == whole.indices.tolist()
    np.testing.assert_array_equal(found.scores, whole.scores)
    assert found.seed == whole.seed


@pytest.mark.parametrize("name", strategies.names())
def test_which_strategies_run_over_shards(name: str) -> None:
    model, pool, labeled = scene()
    strategy = strategies.build(name, **({"num_perturbations": 3} if name.startswith("noise") else {}))
    model = strategy.join(model, pool[:2], 0).model.eval()
    options = {"labeled": labeled, "seed": 3, "batch_size": 16, "task": "classification"}
    if name not in RUNS:
        with pytest.raises(ValueError, match=r"on a cluster: leave engine= out, or use one of"):
            strategy.select(model, pool, 10, engine="ray", **options)
        return
    assert_same_picks(strategy, model, pool, 10, 32, **options)


@pytest.mark.parametrize(
    ("name", "outputs"),
    [("default", 3), ("noise-herding", 3), ("noise-herding", 1), ("flip-cover", 3), ("flip-cover", 1)],
)
@pytest.mark.parametrize("labeled", [True, False])
def test_candidates_of_a_cluster_are_those_of_one_machine(name: str, outputs: int, labeled: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, outputs))
    pool = torch.randn(700, 6).repeat(
        4, 1
    )  # every margin four times: the seed decides which of them are kept
    targets = torch.arange(9) % 3 if outputs == 3 else torch.randn(9, 1)
    labeled = TensorDataset(torch.randn(9, 6), targets) if labeled else None
    options = {"labeled": labeled, "seed": 3, "batch_size": 16, "exclude": [0, 5, 1400]}
    assert_same_picks(strategies.build(name), model, pool, 10, 500, **options)


@pytest.mark.parametrize("outputs", [1, 4])
def test_the_default_of_linear_models_runs_over_shards(outputs: int) -> None:
    torch.manual_seed(0)
    pool = torch.randn(2500, 6).repeat(2, 1)  # more than herding has targets, and ties
    targets = torch.arange(9) % 4 if outputs > 1 else torch.randn(9, 1)
    labeled = TensorDataset(torch.randn(9, 6), targets)
    options = {"labeled": labeled, "seed": 3, "batch_size": 16, "exclude": [0, 5, 1400]}
    assert_same_picks(strategies.build("default"), nn.Linear(6, outputs), pool, 12, 900, **options)


def test_rows_that_all_come_here_must_fit() -> None:
    model, pool, _ = scene()
    with pytest.raises(ValueError, match=r"typiclust would need .* more than memory_bytes=20,000"):
        strategies.build("typiclust", memory_bytes=20_000).select(model, pool, 5, engine=Apart(portion=32))


@pytest.mark.parametrize("kind", ["list", "dict", "dataset", "parquet"])
def test_any_pool_can_be_cut(kind: str, tmp_path: Path) -> None:
    model, pool, _ = scene()
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"row": pool.tolist()}), tmp_path / "pool.parquet", row_group_size=40)
        held = datasets.pool(f"parquet:{tmp_path}").train.inputs
    else:
        held = {
            "list": list(pool),
            "dict": {"input": pool},
            "dataset": TensorDataset(pool, torch.zeros(150)),
        }[kind]
    for name in ("entropy", "default"):
        assert_same_picks(strategies.build(name), model, held, 6, 32, seed=0, batch_size=16)


SENT = 40_000  # bytes: a small model and 64 examples


@pytest.mark.parametrize("kind", ["files", "transformed files", "table", "texts", "parquet"])
def test_a_worker_is_sent_its_part_and_keeps_rows_alone(kind: str, tmp_path: Path) -> None:
    def sent(count: int) -> tuple[int, bytes]:
        held, model = pool_of_kind(kind, count, tmp_path)
        candidates = Candidates(Pool.parts_of(as_pool(held), None, 0)[0], torch.tensor([1]))
        config = prepare(strategies.build("entropy"), model, candidates, {"seed": 0, "batch_size": 16})
        portion = candidates.portion(next(candidates.spans(16, 64)))
        worker = Worker(config, None, "", 1)
        worker.score(portion)
        worker.build_shard(1, [])
        return len(pickle.dumps((config, portion))), pickle.dumps(worker.shards)

    (few, _), (many, kept) = sent(100), sent(5000)
    assert few <= many + 100
    assert many <= few + 100 < SENT  # not so much as a byte for each example
    assert len(kept) < 3000
    assert b"0001" not in kept


def pool_of_kind(kind: str, count: int, folder: Path) -> tuple[object, nn.Module]:
    """So many examples, of which only the first hundred are really there."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    if kind == "table":
        return torch.randn(count, 12), model
    if kind == "texts":
        texts = tuple(f"text {i:04}" for i in range(count))
        return Fields({"input": torch.randn(count, 12)}, None, texts), model
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(
            pa.table({"row": torch.randn(count, 12).tolist()}), folder / "p.parquet", row_group_size=65
        )
        return datasets.pool(f"parquet:{folder}").train.inputs, model
    names = tuple(f"{i:04}.png" for i in range(count))
    for name in names[:100]:
        Image.new("RGB", (2, 2), (int(name[:4]), 0, 0)).save(folder / name)
    files = ImageFiles([folder / name for name in names], Stretched(None, "RGB"))
    data = datasets.Data(
        "photos", None, Split(files, torch.empty(0), names), Split(torch.empty(0), torch.empty(0))
    )
    return (files if kind == "files" else apply_transform(data, in_red).train.inputs), model


def in_red(image: Image.Image) -> torch.Tensor:
    """Pixels of an image."""
    return torch.from_numpy(np.array(image, dtype=np.float32))


def test_rows_beside_come_back_as_they_were(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path, weights = tmp_path / "rows.parquet", torch.rand(5)
    for rows in (torch.randn(5, 3), torch.randn(5).double(), Outer(torch.randn(5, 2), torch.randn(5, 5))):
        for given in (None, weights):
            write_shard(path, Shard(rows, torch.arange(7, 12), weights=given))
            back = read_shard(path)
            parts = (rows, back.rows) if isinstance(rows, torch.Tensor) else (rows.dense(), back.rows.dense())
            assert torch.equal(*parts)
            assert back.places.tolist() == [7, 8, 9, 10, 11]
            assert back.weights is None if given is None else torch.equal(back.weights, weights)
    path.write_bytes(b"half a file")
    assert read_shard(path) is None
    assert read_shard(tmp_path / "none.parquet") is None


def test_rows_beside_are_those_of_the_same_model_pool_and_seed() -> None:
    model, pool, _ = scene()
    strategy = strategies.build("entropy")

    def key(model, pool, seed: int = 0, **options) -> str:
        source = Pool.parts_of(pool, None, 0)[0]
        candidates = Candidates(source, positions_in(options.get("exclude"), len(source)))
        config = prepare(strategy, model, candidates, {"seed": seed, **options})
        return cache_key(config, describe_pool(candidates))

    first = key(model, pool)
    assert first == key(model, pool.clone())
    with torch.no_grad():
        changed = nn.Sequential(*model)
        others = {key(model, pool + 1), key(model, pool, 1), key(model, pool, exclude=[3]), first}
        changed[0].weight[0, 0] += 1
        assert len({*others, key(changed, pool)}) == 5


def test_rows_in_a_file_of_the_user_stay_in_one_process() -> None:
    model, pool, _ = scene()
    strategy = strategies.build("noise-stability", num_perturbations=3, cache_path="x.npy")
    with pytest.raises(ValueError, match="cache_path="):
        strategy.select(model, pool, 5, seed=0, engine="ray")
