"""Shared fixtures: seeds, small models of every kind, and the real data's folder where there is one."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from unchanged import remembered


@pytest.fixture(autouse=True, scope="session")
def _own_list_of_projects() -> Iterator[None]:
    """Keep projects of tests out of the user's list."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOSTLE_STATE", folder)
        yield


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def real_data() -> Callable[..., Path]:
    """`real_data("mnist")`: a folder or file of the real data sets, where JOSTLE_DATA says they are."""

    def find(*parts: str) -> Path:
        root = os.environ.get("JOSTLE_DATA")
        if not root:
            pytest.skip("JOSTLE_DATA is not set: it names the folder of real data")
        if not (path := Path(root, *parts)).exists():
            pytest.skip(f"{'/'.join(parts)} is not in JOSTLE_DATA")
        return path

    return find


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
    items.sort(
        key=lambda item: item.path.name != "test_site.py"
    )  # the longest first: no core waits in the end


@pytest.fixture
def unchanged() -> Callable[[nn.Module], Any]:
    """`check = unchanged(model)`, then `check()` after the call: all is bit-for-bit as before."""
    return remembered
