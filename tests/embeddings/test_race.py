"""Racing jolts: the picks of all jolts for all examples, from fewer passes, and what is proven about it."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as values
from sure import WORK, trained
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import NoiseStability
from jostle.embeddings import race, teams
from jostle.embeddings.teams import Ranked, Team, boundary
from jostle.scoring.passes import tallied
from jostle.scoring.room import Room
from jostle.selectors import KCenter, k_center, longest
from jostle.selectors.shards import Here


@settings(max_examples=40, deadline=None)
@given(values.integers(0, 10**6), values.integers(1, 12), values.sampled_from([k_center, longest]))
def test_rows_shorter_than_the_last_gap_change_no_pick(seed: int, n: int, selector: Any) -> None:
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randn(60, 3, generator=rng) * torch.rand(60, 1, generator=rng) ** 2
    everyone = selector.pick(rows, n)
    reach = selector.reach(rows, n)
    kept = (rows.double().norm(dim=1) >= reach * (1 - 1e-6)).nonzero()[:, 0]
    assert kept[selector.pick(rows[kept], n).positions].tolist() == everyone.positions.tolist()


def test_selectors_that_take_short_rows_have_no_reach() -> None:
    assert KCenter(unit=True).reach(torch.randn(5, 2), 2) is None
    assert KCenter(origin=False).reach(torch.randn(5, 2), 2) is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"selector": "longest"},
        {"space": "logits"},
        {"noise": "layerwise"},
        {"normalize": True},
        {"estimator": "jvp"},
    ],
    ids=str,
)
def test_the_picks_are_the_same_from_fewer_passes(seed: int, options: dict[str, Any]) -> None:
    model, pool = trained(seed=seed), torch.randn(500, 6)
    plain = NoiseStability(jolts=16, race=None, **options).select(model, pool, 8, seed=seed)
    raced = NoiseStability(jolts=16, race=0.01, **options).select(model, pool, 8, seed=seed)
    assert raced.indices.tolist() == plain.indices.tolist()
    assert raced.scores.tolist() == pytest.approx(plain.scores.tolist(), rel=1e-4)
    assert plain.passes is None
    assert raced.passes is not None
    assert raced.passes.plain == 500 * 17
    assert raced.passes.made <= raced.passes.plain
    assert raced.passes.risk <= 0.01


def test_a_sure_network_needs_a_fraction() -> None:
    query = NoiseStability(race=0.01).select(trained(), torch.randn(1500, 6), 10, seed=0)
    assert query.passes is not None
    assert query.passes.made < 0.5 * query.passes.plain


def test_features_of_a_regression_race_by_what_the_jolts_show() -> None:
    model, pool = trained(classes=1), torch.randn(400, 6) * torch.rand(400, 1) * 3
    plain = NoiseStability(jolts=16, race=None).select(model, pool, 6, seed=0)
    raced = NoiseStability(jolts=16, race=0.01).select(model, pool, 6, seed=0)
    assert raced.indices.tolist() == plain.indices.tolist()
    assert raced.passes is not None
    assert raced.passes.made < raced.passes.plain


def test_excluded_examples_stay_out_and_positions_are_the_pools() -> None:
    model, pool = trained(), torch.randn(400, 6)
    out = list(range(0, 400, 3))
    plain = NoiseStability(jolts=8, race=None).select(model, pool, 5, seed=1, exclude=out)
    raced = NoiseStability(jolts=8, race=0.01).select(model, pool, 5, seed=1, exclude=out)
    assert raced.indices.tolist() == plain.indices.tolist()


@pytest.mark.parametrize(
    "options",
    [{"selector": "k-means++"}, {"start": "labeled"}, {"project": 4}, {"selector": "k-center-unit"}],
    ids=str,
)
def test_what_has_no_bound_is_measured_whole(options: dict[str, Any]) -> None:
    labeled = TensorDataset(torch.randn(5, 6), torch.arange(5) % 4)
    query = NoiseStability(jolts=4, race=0.01, **options).select(
        trained(), torch.randn(200, 6), 5, labeled=labeled, seed=0
    )
    assert query.passes is None


def test_most_of_a_pool_is_not_worth_a_race() -> None:
    query = NoiseStability(jolts=4, race=0.01).select(trained(), torch.randn(30, 6), 20, seed=0)
    assert query.passes is None


def test_equal_examples_and_examples_that_do_not_move() -> None:
    pool = torch.cat([torch.ones(100, 6), torch.randn(60, 6)])
    plain = NoiseStability(jolts=8, race=None).select(trained(), pool, 10, seed=0)
    raced = NoiseStability(jolts=8, race=0.01).select(trained(), pool, 10, seed=0)
    assert raced.scores.tolist() == pytest.approx(plain.scores.tolist(), rel=1e-4)
    assert len(set(raced.indices.tolist())) == 10


def test_copies_tie_as_ever_and_the_first_is_picked() -> None:
    """They run side by side in one batch, or rounding would choose among them."""
    torch.manual_seed(0)
    kinds = torch.randn(150, 6)
    pool = torch.cat([kinds, kinds, kinds])[torch.randperm(450)]
    for seed in range(3):
        plain = NoiseStability(jolts=16, race=None).select(trained(seed=seed), pool, 8, seed=seed)
        raced = NoiseStability(jolts=16, race=0.01).select(trained(seed=seed), pool, 8, seed=seed)
        assert raced.indices.tolist() == plain.indices.tolist()
        assert raced.passes is not None
        assert raced.passes.made < raced.passes.plain


def test_embed_still_gives_all_rows() -> None:
    rows = NoiseStability(jolts=4, race=0.01).embed(trained(), torch.randn(50, 6), seed=0)
    assert isinstance(rows, Tensor)
    assert rows.shape == (50, 16)


class Known(Team):
    """Examples of which nothing but their chances is known."""

    def __init__(self, chances: Tensor) -> None:
        self.chances, self.expected, self.ranked = chances, chances, dict[float | None, Ranked]()


def contenders(chances: Tensor, risk: float, shards: int) -> list[int]:
    """Examples that cannot be left out."""
    cut, borne, left = boundary(Here([Known(part) for part in chances.chunk(shards)]), None, risk)
    assert borne == pytest.approx(float(chances[chances <= cut].sum()))
    found: list[int] = (chances > cut).nonzero()[:, 0].tolist()
    assert left == len(found)
    return found


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_chances_that_are_borne_add_up_to_the_risk(shards: int) -> None:
    chances = torch.tensor([0.5, 0.001, 0.002, 0.0, 0.006], dtype=torch.float64)
    assert contenders(chances, 0.01, shards) == [0]
    assert contenders(chances, 0.005, shards) == [0, 4]
    assert contenders(chances, 1e-9, shards) == [0, 1, 2, 4]


@pytest.mark.parametrize("shards", [1, 3])
def test_of_many_the_same_are_left_out_as_by_adding_up_one_by_one(
    shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teams, "RUNGS", 16)  # so that several looks are needed
    chances = torch.rand(5000, dtype=torch.float64).pow(12)
    order = chances.argsort()
    for risk in (1e-6, 1e-3, 1.0):
        borne = int((chances[order].cumsum(0) <= risk).sum())
        assert contenders(chances, risk, shards) == order[borne:].sort().values.tolist()
    assert contenders(torch.full((100,), 0.01, dtype=torch.float64), 0.5, shards) == list(range(100))
    assert contenders(torch.full((100,), 0.001, dtype=torch.float64), 0.5, shards) == []
    parts = Here([Known(part) for part in chances.chunk(shards)])
    bar = boundary(parts, 0.5, 100, reached=True)[0]
    assert int(((chances > 0.5) & (-chances <= bar)).sum()) == 100


@pytest.mark.parametrize("risk", [0.0, 1.0, -1.0, "never"])
def test_a_risk_is_a_chance(risk: Any) -> None:
    with pytest.raises(ValueError, match="race is a chance between 0 and 1"):
        NoiseStability(race=risk)


class TestByDefault:
    """Nothing need be said: jolts race where that saves time, and where it cannot be everything is jolted."""

    def test_a_small_pool_is_jolted_whole(self) -> None:
        query = NoiseStability(jolts=8).select(trained(), torch.randn(300, 6), 5, seed=0)
        assert query.passes is None
        plan = NoiseStability(jolts=8).plan(trained(), torch.randn(300, 6), 5, seed=0)
        assert plan.notes == ("everything is jolted: that takes less time here than a race would",)
        assert plan.fewest == plan.passes == 300 * 9

    def test_a_large_one_races_and_the_plan_says_from_where_to_where(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(race, "SMALL", 400 * 16 * WORK)
        model, pool = trained(), torch.randn(400, 6)
        plain = NoiseStability(jolts=16, race=None).select(model, pool, 6, seed=0)
        plan = NoiseStability(jolts=16).plan(model, pool, 6, seed=0)
        with tallied() as tally:
            query = NoiseStability(jolts=16).select(model, pool, 6, seed=0)
        assert query.indices.tolist() == plain.indices.tolist()
        assert query.passes is not None
        assert query.passes.risk <= race.RISK
        assert plan.fewest == 400 + 24 * 16 <= query.passes.made < plan.passes == query.passes.plain
        assert 0 <= tally.examples - query.passes.made <= 8, "and a first look"
        assert "784 to 6,800 examples through the model" in str(plan)
        assert NoiseStability(jolts=15).select(model, pool, 6, seed=0).passes is None, "one product too few"

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"selector": "k-means++"}, "KMeansPP may pick any row"),
            ({"start": "labeled"}, "start='labeled'"),
            ({"project": 4}, "rows of all examples"),
            ({"parameters": "0.*"}, "are cheap"),
            ({"jolts": 1}, "nothing to save"),
        ],
    )
    def test_a_plan_says_why_nothing_races(self, settings: dict[str, Any], words: str) -> None:
        strategy = NoiseStability(**{"jolts": 4, "race": 0.01, **settings})
        labeled = TensorDataset(torch.randn(5, 6), torch.arange(5) % 4)
        (note,) = strategy.plan(trained(), torch.randn(200, 6), 5, labeled=labeled, seed=0).notes
        assert note.startswith("everything is jolted: ")
        assert words in note

    def test_large_noise_for_little_work_is_not_drawn_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(race, "SMALL", 0)
        model = nn.Sequential(nn.EmbeddingBag(5000, 20), nn.Linear(20, 4))
        pool = torch.randint(0, 5000, (600, 3))
        settings: dict[str, Any] = {"jolts": 4}
        assert NoiseStability(**settings).select(model, pool, 5, seed=0).passes is not None, "remembered"
        settings["buffer_bytes"] = 4 * 5000 * 20 * 4
        assert NoiseStability(**settings).select(model, pool, 5, seed=0).passes is None


def test_rows_that_race_go_to_a_file_where_those_of_all_would(monkeypatch: pytest.MonkeyPatch) -> None:
    model, pool = trained(), torch.randn(500, 6)
    plain = NoiseStability(jolts=16, race=None).select(model, pool, 8, seed=0)
    monkeypatch.setattr(Room, "spills", lambda room, size: size == 500 * 16 * 4 * 4)
    raced = NoiseStability(jolts=16, race=0.01).select(model, pool, 8, seed=0)
    assert raced.passes is not None
    assert raced.indices.tolist() == plain.indices.tolist()
    (note,) = raced.notes
    assert "movements take 128 kB" in note
    assert "temporary file" in note


def test_a_race_never_refuses_what_all_jolts_have_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model, pool = trained(), torch.randn(400, 6)
    tight = NoiseStability(jolts=8, race=0.01, memory_bytes=10**7)
    assert tight.select(model, pool, 5, seed=0).passes is not None
    monkeypatch.setattr(race, "BOOKS", 10**4)  # 32 MB
    assert tight.select(model, pool, 5, seed=0).passes is None
    assert "a race would hold 32" in tight.plan(model, pool, 5, seed=0).notes[0]


@given(values.permutations(range(9)), values.sampled_from([0, 18]))
def test_rows_change_places_in_place(order: list[int], few: int) -> None:
    rows = torch.randn(9, 2)
    expected = rows[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "FEW", few)
        race.permute(rows, torch.tensor(order))
    assert torch.equal(rows, expected)


def test_heats_run_as_one_where_nobody_joins_or_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[tuple[list[int], int, int]]()
    with NoiseStability(jolts=30).request(trained(), torch.randn(9, 6), seed=0) as request:
        one = race.Race(NoiseStability(jolts=30), request)
    monkeypatch.setattr(one, "run", lambda who, start, stop: runs.append((who.tolist(), start, stop)))
    one.made = torch.tensor([0, 0, 0, 1, 4, 4, 8, 16, 30])
    one.further(torch.tensor([1, 2, 4, 5, 7]), torch.tensor([True, False, True, False, True]))
    assert runs == [
        ([1, 2], 0, 1),  # all that have met none
        ([1], 1, 4),
        ([1, 4, 5], 4, 8),
        ([1, 4], 8, 16),
        ([1, 4, 7], 16, 30),
    ]


def test_the_work_of_a_network_is_counted_in_products() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 5, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(180, 7, bias=False)
    )
    with NoiseStability().request(model, torch.randn(4, 1, 8, 8)) as request:
        assert request.network.work == 9 * 5 * 36 + 180 * 7
    with NoiseStability().request(trained(), torch.randn(4, 6)) as request:
        assert request.network.work == WORK
    bag = nn.Sequential(nn.EmbeddingBag(500, 20), nn.Linear(20, 4))
    with NoiseStability().request(bag, torch.randint(0, 500, (4, 3))) as request:
        assert request.network.work == 84, "what is looked up is not multiplied"


def test_jolted_outputs_that_are_not_finite_are_named() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return (x + self.shift).sqrt()

    pool = torch.rand(300, 3) + 5
    pool[7] = -0.99
    with pytest.raises(ValueError, match=r"jolted outputs are NaN or infinite .*positions 7"):
        NoiseStability(jolts=8, race=0.01, space="logits", scale=0.1).select(Root(), pool, 5, seed=0)
