"""One cluster for all tests that need one: it takes longer to start than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ray_nodes import Nodes


@pytest.fixture(scope="session")
def cluster() -> Iterator[Nodes]:
    from ray_nodes import running

    with running() as found:
        yield found


@pytest.fixture
def nodes(cluster: Nodes) -> Nodes:
    cluster.mend()
    return cluster
