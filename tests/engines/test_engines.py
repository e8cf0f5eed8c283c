"""What goes wrong before a cluster begins is said at once, and needs no cluster to be seen."""

import sys

import pytest
import torch
from torch import nn

import jostle
from jostle.engines import EngineError, Ray, engine
from jostle.engines.ray_shards import as_completed, check_address, start_workers

MODEL = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_an_engine_is_a_name_with_settings_or_a_value() -> None:
    assert engine(None) is None
    assert engine("ray") == Ray()
    assert engine("ray(workers=3, address=auto)") == Ray(workers=3, address="auto")
    with pytest.raises(ValueError, match="unknown engine 'spark'"):
        engine("spark")
    with pytest.raises(TypeError, match=r"engine must be .ray. or a jostle.engines.Ray; got 3"):
        engine(3)
    with pytest.raises(ValueError, match="worker"):
        engine("ray(worker=3)")
    with pytest.raises(ValueError, match="workers must be at least 1"):
        Ray(workers=0)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'jostle\[ray\]'"):
        jostle.select("entropy", MODEL, torch.randn(9, 3), 2, engine="ray")


def test_an_address_where_nobody_answers_is_an_error() -> None:
    with pytest.raises(EngineError, match=r"no Ray cluster answers at 127.0.0.1:9"):
        check_address("127.0.0.1:9")
    with pytest.raises(EngineError, match="host:port"):
        check_address("nowhere")


def test_a_wait_ends_and_says_what_it_waited_for() -> None:
    class Silent:
        @staticmethod
        def wait(refs, num_returns, timeout):
            return [], refs

    with pytest.raises(
        EngineError, match=r"waited 5 seconds for godot, and nothing came from any of 2 workers"
    ):
        next(as_completed(Silent(), {"a": 1, "b": 2}, 5, "godot"))


def test_counts_and_exclusions_are_checked_before_a_cluster_starts() -> None:
    with pytest.raises(ValueError, match=r"asked for 8 examples from a pool of 9 less 2 excluded"):
        jostle.select("entropy", MODEL, torch.randn(9, 3), 8, engine="ray", exclude=[0, 1])
    with pytest.raises(ValueError, match=r"positions are 0 to 8"):
        jostle.select("entropy", MODEL, torch.randn(9, 3), 2, engine="ray", exclude=[9])


class DiedError(Exception):
    pass


class FakeRay:
    """References are results, or the error that getting them raises."""

    class exceptions:  # noqa: N801
        RayError, RayTaskError, GetTimeoutError = DiedError, KeyError, TimeoutError

    @staticmethod
    def wait(refs, num_returns, timeout):
        return refs[:1], refs[1:]

    @staticmethod
    def get(ref, timeout):
        if isinstance(ref, Exception):
            raise ref
        return ref


def start_some(deaths: list[bool], count: int) -> list[int]:
    """Start workers that are numbered from 0, of which some die while starting."""
    fates = iter(enumerate(deaths))
    return [
        number
        for number, _ in start_workers(
            FakeRay(),
            lambda: next(fates),
            lambda worker: DiedError("killed: out of memory") if worker[1] else f"ready {worker[0]}",
            count,
            5,
        )
    ]


def test_a_worker_that_dies_while_starting_leaves_the_work_to_the_others() -> None:
    assert start_some([True, False, False], 3) == [1, 2]
    assert start_some([True, True, True, False, False], 2) == [
        3
    ]  # all died at first, so they are started again
    with pytest.raises(EngineError, match="no worker could start: killed: out of memory"):
        start_some([True] * 6, 2)
