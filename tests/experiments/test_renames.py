"""Stored protocols, manifests and run folders of jostle 0.2 open under the names of this version."""

import json
from pathlib import Path

import pytest
from synthetic_runs import write_runs
from tiny import numbers, tiny, tiny_file

from jostle import strategies
from jostle.experiments import protocol
from jostle.experiments.experiment import run_experiment
from jostle.experiments.results import load
from jostle.experiments.setup import build_strategy
from jostle.experiments.store import PACKED, parse_manifest, read_experiment

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def old_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `margin` had been `old-margin`, and the setting `select` of vaal `old_steps`."""
    monkeypatch.setattr(protocol, "OLD_STRATEGIES", {"old-margin": "margin"})
    monkeypatch.setattr(protocol, "OLD_SETTINGS", {"old_steps": "steps"})


def test_every_new_name_exists_and_no_old_one() -> None:
    known = set(strategies.names())
    settings = {setting for name in known for setting in strategies.describe(name).settings}
    assert set(protocol.OLD_STRATEGIES.values()) <= known
    assert set(protocol.OLD_SETTINGS.values()) <= settings
    assert not protocol.OLD_STRATEGIES.keys() & known
    assert not protocol.OLD_SETTINGS.keys() & settings


def test_strategies_of_a_protocol_of_version_0_2_are_those_of_today() -> None:
    parts = {"use": "compose", "selector": "lcmd"}
    today = {"num_perturbations": 3, "noise_scale": 0.1, "initial_centers": "labeled"}
    assert protocol.rename_strategies(
        {
            "jolt-herding": {"keep": 5},
            "ns": {"use": "noise-stability", "jolts": 3, "scale": 0.1, "start": "labeled"},
            "mine": {**parts, "embedding": "deviations(jolts=2, space=logits)"},
        }
    ) == {
        "noise-herding": {"candidates_per_pick": 5},
        "ns": {"use": "noise-stability", **today},
        "mine": {**parts, "embedding": "deviations(num_perturbations=2, space=logits)"},
    }


@pytest.mark.usefixtures("old_margin")
def test_a_protocol_of_old_names_opens(tmp_path: Path) -> None:
    path = tmp_path / "old.toml"
    more = (
        '[strategies.mine]\nuse = "old-margin"\n[strategies.old-margin]\n[strategies.vaal]\nold_steps = 3\n'
    )
    path.write_text(tiny_file(tmp_path).read_text().replace("[strategies.margin]\n", more))
    found = protocol.load(str(path)).strategies
    uses = {label: named.use for label, named in found.items()}
    assert (uses["mine"], uses["margin"], uses["vaal"]) == ("margin", "margin", "vaal")
    assert found["vaal"].settings == {"steps": 3}


@pytest.mark.usefixtures("old_margin")
def test_settings_of_a_users_own_strategy_keep_their_names() -> None:
    entry = {"use": "mine.py:Own", "old_steps": 3}
    assert protocol.rename_strategies({"mine": entry}) == {"mine": entry}


@pytest.mark.usefixtures("old_margin")
def test_results_show_the_current_label(tmp_path: Path) -> None:
    folder = write_runs(tmp_path / "runs", {"random": [[0.5, 0.6]], "old-margin": [[0.5, 0.7]]})
    results = load(folder)
    assert results.labels == ("random", "margin")
    assert list(results.protocol["strategies"]) == ["random", "margin"]


def test_a_folder_of_old_names_is_resumed_and_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs"
    run_experiment(tiny(tmp_path, "rounds=1"), out, [0])
    whole = numbers(out)
    (out / "margin").rename(out / "old-margin")
    stored = json.loads((out / "manifest.json").read_text())
    stored["protocol"]["strategies"]["old-margin"] = {"use": "old-margin"}
    del stored["protocol"]["strategies"]["margin"]
    (out / "manifest.json").write_text(json.dumps(stored))
    monkeypatch.setattr(protocol, "OLD_STRATEGIES", {"old-margin": "margin"})
    monkeypatch.setattr("jostle.experiments.experiment.smoke_test", lambda *_: pytest.fail("computes again"))
    assert run_experiment(tiny(tmp_path, "rounds=1"), out, [0]).missing == []
    assert numbers(out) == whole


@pytest.mark.skipif(
    not RESULTS.is_dir(), reason="results/ is in the repository, not in the source distribution"
)
def test_protocols_in_manifests_of_earlier_versions_are_valid() -> None:
    for path in sorted(RESULTS.glob(f"*{PACKED}")):
        stored = parse_manifest(read_experiment(path)["manifest.json"], path)
        for named in protocol.validated(stored["protocol"], path.name).strategies.values():
            if ".py:" not in named.use:
                build_strategy(named)
