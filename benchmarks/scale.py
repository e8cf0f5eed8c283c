"""`make bench-scale`: what a Ray cluster costs against one process, what memory it takes, and what 10^9 would need.

Seconds are of scoring and of picking, once workers have started; starting a cluster is told apart. Beside the clock
stand the seconds that processes computed, which other work on the machine does not lengthen. The record is
results/scale.json, from which `python -m tools.evidence docs/how-to/large-pools.md` makes the page's tables.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from tools import scale_page
from torch import nn

from benchmarks.measure import in_fresh_process, peak_bytes
from jostle import datasets
from jostle.engines import Ray
from jostle.engines.ray_engine import prepare
from jostle.engines.ray_shards import RayShards
from jostle.engines.worker import Candidates
from jostle.inputs import Pool
from jostle.selectors import KCenter
from jostle.strategies import NoiseStability

WIDTH, CLASSES, PICKS = 32, 10, 1000
STRATEGY = NoiseStability(num_perturbations=10, projection_dim=32)
SMALL, LARGE = 128, 512  # widths of networks: for memory and many examples, and for what a cluster costs
GROUP = 8192  # rows of a row group
REPEATS = 3  # of what is compared, in turns; the fastest counts


def model(hidden: int) -> nn.Module:
    torch.manual_seed(0)
    first, second = nn.Linear(WIDTH, hidden), nn.Linear(hidden, hidden)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(hidden, CLASSES))


def written(folder: Path, n: int) -> Path:
    """A pool of n examples as Parquet, written group by group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.list_(pa.float32(), WIDTH)
    rng = torch.Generator().manual_seed(1)
    with pq.ParquetWriter(folder / "pool.parquet", pa.schema([("row", kind)])) as writer:
        for start in range(0, n, GROUP):
            rows = torch.randn(min(GROUP, n - start), WIDTH, generator=rng)
            column = pa.FixedSizeListArray.from_arrays(pa.array(rows.flatten().numpy()), WIDTH)
            writer.write_table(pa.table({"row": column}, schema=pa.schema([("row", kind)])))
    return folder / "pool.parquet"


def here(path: str, picks: int, hidden: int) -> dict[str, float]:
    """The call in this process."""
    torch.set_num_threads(1)
    pool = datasets.pool(f"parquet:{path}").train.inputs
    before = time.process_time()
    query = STRATEGY.select(model(hidden), pool, picks, seed=0, task="classification", progress=False)
    return {
        **query.seconds,
        "computed": time.process_time() - before,
        "driver peak": peak_bytes(),
        "check": int(query.indices.sum()),
    }


def on_ray(path: str, picks: int, hidden: int, workers: int) -> dict[str, float]:
    """The call on a cluster of this machine's own, its parts timed."""
    import ray

    torch.set_num_threads(1)
    source = datasets.pool(f"parquet:{path}").train.inputs
    candidates = Candidates(Pool.parts_of(source, None, 0)[0], torch.empty(0, dtype=torch.int64))
    engine = Ray(workers=workers)
    begun = time.perf_counter()
    config = prepare(STRATEGY, model(hidden), candidates, {"seed": 0, "task": "classification"})
    with engine.start_shards(config, candidates) as shards:
        started, own = time.perf_counter(), time.process_time()
        used, _ = usage(ray, shards)
        shards.score(engine.spans(candidates, config.options["batch_size"] or 1, workers), lambda steps: None)
        scored = time.perf_counter()
        picks_found = KCenter().pick_over(shards, picks, seed=0)
        done = time.perf_counter()
        total, peak = usage(ray, shards)
        computed = total - used
    return {
        "start": started - begun,
        "embedding": scored - started,
        "selection": done - scored,
        "computed": computed + time.process_time() - own,
        "driver computed": time.process_time() - own,
        "driver peak": peak_bytes(),
        "worker peak": peak,
        "check": int(picks_found.positions.sum()),
    }


def usage(ray: Any, shards: RayShards) -> tuple[float, int]:
    """Seconds that all workers computed, and the most memory that one of them held."""
    found = ray.get([worker.usage.remote() for worker in shards.workers])
    return sum(seconds for seconds, _ in found), max(peak_bytes(process) for _, process in found)


def measured(path: Path, hidden: int, workers: int) -> dict[str, float]:
    """One call in a process of its own."""
    words = in_fresh_process("benchmarks.scale", "--one", str(path), str(PICKS), str(workers), str(hidden))
    found: dict[str, float] = json.loads(words.strip().splitlines()[-1])
    label = f"{workers} workers" if workers else "this process"
    print(label, path.parent.name, {key: round(value, 3) for key, value in found.items()}, flush=True)
    return found


def total(found: dict[str, float]) -> float:
    """Seconds of scoring and picking by the clock."""
    return found["embedding"] + found["selection"]


def compared(path: Path, hidden: int, counts: tuple[int, ...]) -> list[dict[str, float]]:
    """The fastest of several calls for each number of workers, which take turns so that load falls on all alike."""
    runs = [[measured(path, hidden, count) for count in counts] for _ in range(REPEATS)]
    assert len({found["check"] for turn in runs for found in turn}) == 1, "picks differ"
    return [min(each, key=total) for each in zip(*runs, strict=True)]


def recorded(folder: Path) -> dict[str, Any]:
    """Everything."""
    pools = {}
    for n in (50_000, 100_000, 1_000_000):
        (folder / str(n)).mkdir()
        pools[n] = written(folder / str(n), n)
    record: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    for name, hidden, counts in (("large", LARGE, (0, 1, 2)), ("small", SMALL, (0, 1))):
        for count, found in zip(counts, compared(pools[50_000], hidden, counts), strict=True):
            record[f"50000 {name}, {count} workers"] = found
    for n in (100_000, 1_000_000):
        record[f"{n} small, 2 workers"] = measured(pools[n], SMALL, 2)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--one", nargs=4, help="a file, how many picks and workers (0: this process), width")
    parser.add_argument("--out", type=Path, default=Path("results/scale.json"))
    arguments = parser.parse_args()
    if arguments.one:
        path, picks, workers, width = arguments.one
        call = path, int(picks), int(width)
        print(json.dumps(on_ray(*call, int(workers)) if int(workers) else here(*call)))
        return
    with tempfile.TemporaryDirectory() as folder:
        record = recorded(Path(folder))
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    print(scale_page.costs(record))
    print(scale_page.larger(record))


if __name__ == "__main__":
    main()
