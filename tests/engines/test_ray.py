"""A cluster of three simulated nodes: the picks of one machine, also where nodes, workers and files fail."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import jostle
from jostle import datasets
from jostle.engines import EngineError, Ray
from jostle.engines.ray_shards import RayShards
from jostle.experiments import protocol as protocols
from jostle.experiments.experiment import run_experiment
from jostle.inference.runner import ModelRunner
from jostle.selectors.k_means_pp import draw_candidates
from jostle.utils.names import parse_specs

ray = pytest.importorskip("ray")
from ray_nodes import SMALL, Nodes, assert_same  # noqa: E402

pytestmark = pytest.mark.ray
MOST = 300  # seconds that any of these may take before it counts as a hang


class Slow(nn.Module):
    """A classifier that takes its time, says so in a folder, and dies if it is told to."""

    def __init__(self, folder: Path, pause: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        self.folder, self.pause, self.driver = str(folder), pause, os.getpid()

    def forward(self, x: Tensor) -> Tensor:
        if os.getpid() != self.driver:
            Path(self.folder, f"seen-{os.getpid()}").touch()
            time.sleep(self.pause)
            self.die_if("always") if Path(self.folder, "always").exists() else self.die_if("once")
        return self.body(x)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if os.getpid() != self.driver:  # a worker that starts
            self.die_if("start")

    def die_if(self, name: str) -> None:
        """End this process, as the kernel does when memory ends, if a file of this name is there."""
        file = Path(self.folder, name)
        if name != "always":
            try:
                file.rename(file.with_name(f"{name}-done"))  # by one worker only, whoever is first
            except FileNotFoundError:
                return
        os.kill(os.getpid(), signal.SIGKILL)


def slow(folder: Path, pause: float = 0.0) -> Slow:
    torch.manual_seed(0)
    return Slow(folder, pause)


def pool(n: int = 600) -> Tensor:
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(1))


OPTIONS = {"seed": 3, "batch_size": 32, "task": "classification"}


def once(condition, act) -> threading.Thread:
    """Act as soon as a condition holds, beside what else is done."""

    def watch() -> None:
        end = time.monotonic() + MOST
        while not condition() and time.monotonic() < end:
            time.sleep(0.05)
        act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["noise-stability(num_perturbations=3)", "badge", "coreset"])
def test_picks_are_those_of_one_machine(nodes: Nodes, name: str, tmp_path: Path) -> None:
    model, examples = slow(tmp_path), pool()
    labeled = TensorDataset(examples[:9] + 1, torch.arange(9) % 4)
    spec = parse_specs(name)[0]
    strategy = jostle.strategies.build(spec.use, **spec.settings)
    whole = strategy.select(model, examples, 40, labeled=labeled, exclude=[5, 6], **OPTIONS)
    assert_same(
        strategy.select(model, examples, 40, labeled=labeled, exclude=[5, 6], engine=SMALL, **OPTIONS), whole
    )


def test_the_default_finds_margins_there_and_jolts_few_here(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, examples, seen = slow(tmp_path), pool(1200).round(), list[int]()
    labeled = TensorDataset(examples[:9] + 1, torch.arange(9) % 4)
    options = {"labeled": labeled, "exclude": [5, 6], **OPTIONS}
    whole = jostle.select("default", model, examples, 5, **options)
    (tmp_path / "once").touch()
    call = ModelRunner.call
    monkeypatch.setattr(ModelRunner, "call", lambda self, x: (seen.append(len(x)), call(self, x))[1])
    assert_same(jostle.select("default", model, examples, 5, engine=SMALL, **options), whole)
    assert (tmp_path / "once-done").exists()  # a worker died on the way
    assert (20 + 1) * (20 * 5 + 9) <= sum(seen) <= (20 + 1) * (20 * 5 + 9) + 20


def test_a_node_killed_while_scoring(nodes: Nodes, tmp_path: Path) -> None:
    model, examples = slow(tmp_path, pause=0.05), pool()
    whole = jostle.select("noise-stability", model, examples, 20, num_perturbations=3, **OPTIONS)
    killer = once(lambda: len(list(tmp_path.glob("seen-*"))) >= 3, nodes.kill)
    engine = Ray(workers=3, portion=64, patience=120)
    found = jostle.select(
        "noise-stability", model, examples, 20, num_perturbations=3, engine=engine, **OPTIONS
    )
    killer.join()
    assert len(nodes.others) == 1
    assert_same(found, whole)


def test_a_node_killed_while_selecting(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, examples, calls = slow(tmp_path), pool(), list[object]()
    whole = jostle.select("badge", model, examples, 40, **OPTIONS)
    gather = RayShards.gather

    def killing(self: RayShards, function):
        calls.append(function.func)
        if calls.count(draw_candidates) == 2 and len(nodes.others) == 2:
            nodes.kill()
        return gather(self, function)

    monkeypatch.setattr(RayShards, "gather", killing)
    found = jostle.select(
        "badge", model, examples, 40, engine=Ray(workers=3, portion=64, patience=120), **OPTIONS
    )
    assert len(nodes.others) == 1
    assert_same(found, whole)


def test_a_worker_out_of_memory_is_replaced_and_a_deadly_portion_is_named(
    nodes: Nodes, tmp_path: Path
) -> None:
    model, examples = slow(tmp_path), pool(200)
    whole = jostle.select("entropy", model, examples, 10, **OPTIONS)
    (tmp_path / "once").touch()
    assert_same(jostle.select("entropy", model, examples, 10, engine=SMALL, **OPTIONS), whole)
    (tmp_path / "always").touch()
    with pytest.raises(EngineError, match=r"3 workers died over the examples at places \d+ to \d+"):
        jostle.select("entropy", model, examples, 10, engine=SMALL, **OPTIONS)


def test_a_worker_that_dies_while_starting_leaves_the_call_to_the_others(
    nodes: Nodes, tmp_path: Path
) -> None:
    model, examples = slow(tmp_path), pool(200)
    whole = jostle.select("entropy", model, examples, 10, **OPTIONS)
    (tmp_path / "start").touch()
    assert_same(jostle.select("entropy", model, examples, 10, engine=SMALL, **OPTIONS), whole)
    assert (tmp_path / "start-done").exists()


def test_a_corrupt_or_vanished_shard_is_named(nodes: Nodes, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for part in range(3):
        pq.write_table(
            pa.table({"row": pool(100).tolist()}), tmp_path / f"part-{part}.parquet", row_group_size=50
        )
    held, model = datasets.pool(f"parquet:{tmp_path}").train.inputs, slow(tmp_path)
    whole = jostle.select("entropy", model, held, 10, **OPTIONS)
    assert_same(jostle.select("entropy", model, held, 10, engine=SMALL, **OPTIONS), whole)
    content = (tmp_path / "part-1.parquet").read_bytes()
    (tmp_path / "part-1.parquet").write_bytes(content[:50] + bytes(300) + content[350:])
    with pytest.raises(datasets.DataError, match=r"part-1\.parquet.* can(not)? be read"):
        jostle.select("entropy", model, held, 10, engine=SMALL, **OPTIONS)
    (tmp_path / "part-2.parquet").unlink()
    (tmp_path / "part-1.parquet").write_bytes(content)
    with pytest.raises(datasets.DataError, match=r"part-2\.parquet.* can(not)? be read"):
        jostle.select("entropy", model, held, 10, engine=SMALL, **OPTIONS)


def test_a_model_that_cannot_be_pickled_is_an_error_at_once(nodes: Nodes, tmp_path: Path) -> None:
    model = slow(tmp_path)
    model.lock = threading.Lock()
    with pytest.raises(EngineError, match=r"cannot be sent to workers: TypeError: cannot pickle"):
        jostle.select("entropy", model, pool(), 5, engine=SMALL, task="classification")


DRIVER = """
import sys
sys.path[:0] = {tests!r}
import test_ray
from test_ray import *
ray.init(address={address!r}, log_to_driver=False, logging_level="ERROR")
engine = Ray(workers=2, portion=64, patience=120, cache_folder={rows!r})
model = slow(Path({folder!r}), pause=0.05)
jostle.select("noise-stability", model, pool(), 20, num_perturbations=3, engine=engine, **OPTIONS)
"""


def test_a_driver_that_was_killed_goes_on_where_it_was(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows"
    here = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "helpers")]
    words = DRIVER.format(tests=here, address=nodes.cluster.address, rows=str(rows), folder=str(tmp_path))
    driver = subprocess.Popen([sys.executable, "-c", words])
    end = time.monotonic() + MOST
    while len(list(rows.glob("*.parquet"))) < 4 and time.monotonic() < end and driver.poll() is None:
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    before = {path: path.stat().st_mtime_ns for path in rows.glob("*.parquet")}
    assert 4 <= len(before) < 10
    scored = list[int]()
    build = RayShards.build_shards

    def counting(self: RayShards, *given) -> None:
        scored.append(self.portions_scored)
        build(self, *given)

    monkeypatch.setattr(RayShards, "build_shards", counting)
    engine, model = Ray(workers=2, portion=64, patience=120, cache_folder=rows), slow(tmp_path, pause=0.05)
    found = jostle.select("noise-stability", model, pool(), 20, num_perturbations=3, engine=engine, **OPTIONS)
    assert scored == [10 - len(before)]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_same(
        found, jostle.select("noise-stability", slow(tmp_path), pool(), 20, num_perturbations=3, **OPTIONS)
    )


VARIES = {"seconds", "memory", "checksum"}  # the last is that of the line


def experiment():
    return protocols.load("digits", ["rounds=2", "training.epochs=2"]).chosen(parse_specs("margin,random"))


def numbers(folder: Path) -> dict[str, list[str]]:
    """All lines of all runs, word for word, less what varies between repetitions."""

    def kept(line: str) -> str:
        return json.dumps({k: v for k, v in json.loads(line).items() if not VARIES & set(k.split("_"))})

    return {
        str(path.relative_to(folder)): [kept(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("*/*.jsonl"))
    }


def test_an_experiment_survives_a_killed_node_and_is_that_of_one_process(
    nodes: Nodes, tmp_path: Path
) -> None:
    run_experiment(experiment(), tmp_path / "one", range(2))
    killer = once(lambda: len(list((tmp_path / "many").glob("*/*.jsonl"))) >= 1, nodes.kill)
    plan = run_experiment(experiment(), tmp_path / "many", range(2), engine=Ray(workers=3, patience=120))
    killer.join()
    assert not plan.failures
    assert numbers(tmp_path / "many") == numbers(tmp_path / "one")
    assert len(numbers(tmp_path / "one")) == 4


def marked(mark: str) -> list[int]:
    """Processes that inherited a mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    mark = f"JOSTLE_MARK={os.getpid()}-{time.time_ns()}"
    words = ["run", "digits", "--strategies", "random", "--seeds", "1", "--set", "training.epochs=3000",
             "--engine", "ray(workers=1)", "--no-report", "--out-dir", str(tmp_path / "runs")]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"} | dict([mark.split("=")])
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "jostle", *words],
        env=environment,
        stderr=log,
        stdout=log,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # a shell may have it ignored
    )
    end = time.monotonic() + MOST
    while not (seen := b"ray::RunWorker" in cmdlines(marked(mark))) and time.monotonic() < end:
        assert process.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.5)
    assert seen
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.2)
    assert not marked(mark)
    assert "stopped; the same command resumes from here" in (tmp_path / "log").read_text()


def cmdlines(processes: list[int]) -> bytes:
    """What some processes are called."""
    found = b""
    for process in processes:
        try:
            found += Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue
    return found
