"""The loop: paired by design, repeatable, resumed as if nothing had happened."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from tiny import numbers, tiny
from torch import nn

from jostle.core import Embedded, Embedding, Joined
from jostle.datasets.data import as_dataset, as_pool, take_rows
from jostle.experiments.experiment import plan_runs, run_experiment, smoke_test
from jostle.experiments.loop import candidate_ids, cycles, initial_set, select_examples, valid_picks
from jostle.experiments.setup import ExperimentSetup, build_strategy, one_thread
from jostle.experiments.store import Cycle
from jostle.inference.context import QueryContext
from jostle.inputs import Labeled, Pool
from jostle.strategies import build


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture
def bench(tmp_path: Path) -> ExperimentSetup:
    return ExperimentSetup.load(tiny(tmp_path))


def timeless(found: list[Cycle]) -> list[Cycle]:
    return [replace(each, train_seconds=0, select_seconds=0, peak_memory_bytes=0) for each in found]


def test_a_run_labels_what_it_says(bench: ExperimentSetup):
    found = list(cycles(bench, build("margin"), 0))
    assert [each.labeled for each in found] == [10, 14, 18, 22]
    assert [len(each.picked) for each in found] == [10, 4, 4, 4]
    ids = [example for each in found for example in each.picked]
    assert len(set(ids)) == 22
    assert all(0 <= example < 1297 for example in ids)
    assert found[0].select_seconds == 0
    assert all(
        each.peak_memory_bytes > 2**20 and set(each.metrics) == {"accuracy", "macro_f1"} for each in found
    )


def test_strategies_of_a_seed_share_all_that_is_not_theirs(bench: ExperimentSetup):
    first, second = (next(iter(cycles(bench, build(name), 5))) for name in ("random", "entropy"))
    assert timeless([first]) == timeless([second])  # initial set, weights, batches
    other = next(iter(cycles(bench, build("random"), 6)))
    assert other.picked != first.picked
    labeled = torch.tensor(first.picked)
    one = candidate_ids(bench, 5, 1, labeled)
    two = candidate_ids(bench, 5, 1, torch.cat([labeled, one[:3]]))
    assert two.tolist()[:37] == one.tolist()[3:]  # the same but for what was labeled


def test_candidates_are_unlabeled_and_new_in_each_cycle(bench: ExperimentSetup):
    labeled = initial_set(bench, 0)
    drawn = [candidate_ids(bench, 0, cycle, labeled) for cycle in (1, 2)]
    assert [len(ids) for ids in drawn] == [40, 40]
    assert not torch.isin(torch.cat(drawn), labeled).any()
    assert set(drawn[0].tolist()) != set(drawn[1].tolist())
    everything = replace(bench, protocol=bench.protocol.model_copy(update={"candidates": "all"}))
    assert len(candidate_ids(everything, 0, 1, labeled)) == 1287


def test_an_interrupted_run_ends_as_if_it_had_not_been(bench: ExperimentSetup):
    strategy = build_strategy(bench.protocol.strategies["noise-stability"])
    whole = list(cycles(bench, strategy, 0))
    for done in range(1, 5):
        rest = list(cycles(bench, strategy, 0, whole[:done]))
        assert timeless([*whole[:done], *rest]) == timeless(whole)


def test_other_strategies_and_their_order_change_nothing(tmp_path: Path):
    few = tiny(tmp_path, "rounds=1")
    backwards = dict(reversed(few.strategies.items()))
    for name, strategies, seeds in (
        ("a", few.strategies, [0, 1]),
        ("b", backwards, [1, 0]),
        ("c", {"margin": few.strategies["margin"]}, [1]),
    ):
        run_experiment(few.model_copy(update={"strategies": strategies}), tmp_path / name, seeds)
    a, b, c = (numbers(tmp_path / name) for name in "abc")
    assert a == b
    assert len(a) == 6
    assert c["margin/1"] == a["margin/1"]


def test_what_is_there_is_kept_and_what_is_missing_is_done(tmp_path: Path):
    few = tiny(tmp_path, "rounds=1")
    one = few.model_copy(update={"strategies": {"random": few.strategies["random"]}})
    run_experiment(one, tmp_path / "runs", [0])
    before = (tmp_path / "runs/random/0.jsonl").read_bytes()
    assert len(plan_runs(ExperimentSetup.load(few), tmp_path / "runs", [0, 1]).missing) == 5
    finished = run_experiment(few, tmp_path / "runs", [0])
    assert finished.missing == []
    assert (tmp_path / "runs/random/0.jsonl").read_bytes() == before
    assert set(numbers(tmp_path / "runs")) == {"random/0", "margin/0", "noise-stability/0"}


@dataclass(frozen=True, kw_only=True)
class Watcher(Embedding):
    """Looks at what the loop offers."""

    def embedding(self, context: QueryContext) -> Embedded:
        assert context.labeled is not None
        assert len(context.pool) == 40
        fit, dataset = context.options.get("fit"), context.labeled.dataset
        one, two, again = (next(iter(fit(dataset, member).parameters())) for member in (0, 1, 0))
        assert not torch.equal(one, two)
        assert torch.equal(one, again)
        return Embedded(torch.arange(40.0)[:, None])

    def join(self, model: torch.nn.Module, example: torch.Tensor, seed: int) -> Joined:
        assert example.shape == (2, 1, 8, 8)
        model.joined = True  # type: ignore[assignment]
        return Joined(model)


def test_every_strategy_is_offered_labels_and_training(bench: ExperimentSetup):
    once = replace(bench, protocol=bench.protocol.model_copy(update={"rounds": 1}))
    assert len(list(cycles(once, Watcher(), 0))) == 2


def test_a_strategy_of_ones_own_that_picks_wrongly_is_caught(bench: ExperimentSetup):
    candidates = torch.arange(10)
    for wrong in ([1, 1, 2], [1, 2], [1, 2, 11]):
        with pytest.raises(ValueError, match="3 distinct candidates were asked for"):
            valid_picks(torch.tensor(wrong), candidates, 3)


def test_picks_are_ids_of_the_training_set(bench: ExperimentSetup):
    labeled = initial_set(bench, 0)
    model = bench.model(0)
    picked, _, passes = select_examples(bench, build("margin"), 0, 1, model, labeled)
    assert passes == 1
    candidates = candidate_ids(bench, 0, 1, labeled)
    inputs = bench.data.train.inputs[candidates]
    top = model.eval()(inputs).softmax(1).topk(2).values
    assert set(picked.tolist()) == set(candidates[(top[:, 0] - top[:, 1]).argsort()[:4]].tolist())


@pytest.mark.parametrize(
    ("name", "settings", "passes"),
    [
        ("random", {}, 0),
        ("margin", {}, 1),
        ("noise-stability", {"num_perturbations": 3}, 4),
        ("bald", {"passes": 5}, 5),
    ],
)
def test_passes_through_the_network_are_counted(
    bench: ExperimentSetup, name: str, settings: dict[str, int], passes: float
):
    model = nn.Sequential(bench.model(0), nn.Dropout(0.1), nn.Linear(10, 10))
    found = select_examples(bench, build(name, **settings), 0, 1, model, initial_set(bench, 0))
    assert found.passes == pytest.approx(passes, abs=0.3)  # of 40 candidates; a few are looked at before


def test_a_mismatch_fails_in_the_try_out(tmp_path: Path):
    points = tmp_path / "points.py"
    points.write_text(
        "import numpy as np\n"
        "def line():\n"
        "    x = np.linspace(0, 1, 60)[:, None]\n"
        "    return x[:40], x[:40, 0], x[40:], x[40:, 0]\n"
    )
    p = tiny(
        tmp_path, f"dataset.use={points}:line", "model.use=mlp", "candidates=all", "initial=4", "test=all"
    )
    regression = ExperimentSetup.load(p.model_copy(update={"strategies": {"ok": p.strategies["random"]}}))
    smoke_test(regression, ["ok"])
    assert set(next(iter(cycles(regression, build("random"), 0))).metrics) == {"mae", "rmse", "published"}
    with pytest.raises(ValueError, match=r"margin does not work in tiny: .*regression"):
        smoke_test(ExperimentSetup.load(p), ["margin"])


def test_what_is_not_a_tensor_is_read_by_the_batch(bench: ExperimentSetup):
    class Rows:
        def __len__(self) -> int:
            return 9

        def __getitem__(self, index: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"a": index * 10}

    ids = torch.tensor([7, 2, 5])
    assert take_rows(Rows(), ids)[torch.tensor([0, 2])]["a"].tolist() == [70, 50]
    assert next(as_pool(Rows(), ids).batches(2))["a"].tolist() == [70, 20]
    split = replace(bench.data.train, inputs=Rows(), targets=torch.arange(9), names=())
    part = split.take(ids)
    known = as_dataset(part.inputs, part.targets)
    assert (known[1][0]["a"].item(), known[1][1].item()) == (20, 2)
    assert next(Pool.of(known).batches(2))["a"].tolist() == [70, 20]
    assert Labeled.of(known).targets().tolist() == [7, 2, 5]


def test_a_budget_that_the_data_cannot_pay_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"1297 training examples, but the budget is 4010"):
        ExperimentSetup.load(tiny(tmp_path, "rounds=1000"))
    with pytest.raises(ValueError, match="cannot pick 41 of 40 candidates"):
        ExperimentSetup.load(tiny(tmp_path, "pick=41"))


def test_the_initial_set_can_hold_every_class(tmp_path: Path):
    whole = ExperimentSetup.load(tiny(tmp_path, "every_class=true", "initial=20"))
    for seed in range(5):
        assert len(whole.data.train.targets[initial_set(whole, seed)].unique()) == 10
    impossible = ExperimentSetup.load(tiny(tmp_path, "every_class=true", "initial=9"))
    with pytest.raises(ValueError, match="initial set of 9 with all 10 classes"):
        initial_set(impossible, 0)


def test_shares_count_the_training_set(tmp_path: Path):
    shared = ExperimentSetup.load(tiny(tmp_path, "initial=0.1", "pick=0.01", "candidates=0.5"))
    assert (shared.initial, shared.pick, shared.candidates, len(shared.data.test)) == (130, 13, 649, 60)
