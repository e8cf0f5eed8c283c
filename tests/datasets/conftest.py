"""No test of the data sets may touch the network or the user's cache."""

from pathlib import Path

import pytest

from jostle.datasets import fetch


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(fetch, "cache", lambda: folder)
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("requests.get", refuse)


@pytest.fixture(autouse=True)
def no_variable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real_data" not in request.node.nodeid:
        monkeypatch.delenv(fetch.VARIABLE, raising=False)
