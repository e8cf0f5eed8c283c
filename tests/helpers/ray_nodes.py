"""A cluster of three simulated nodes on this machine, for tests that kill some of them and tests that do not."""

from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.cluster_utils import Cluster

import jostle
from jostle.engines import Ray

QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "worker_niceness": 0,
    "memory_monitor_refresh_ms": 0,  # or memory that others take on this machine ends workers of a test
}
SMALL = Ray(workers=2, portion=64, patience=120)


class Nodes:
    """Three nodes of one CPU each; one that was killed comes back before the next test."""

    def __init__(self) -> None:
        room = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
        self.room, self.cluster = (
            room,
            Cluster(initialize_head=True, head_node_args={**room, "_system_config": QUICK}),
        )
        self.others = [self.cluster.add_node(**room) for _ in range(2)]
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")

    def kill(self) -> None:
        """End a node without warning."""
        self.cluster.remove_node(self.others.pop(), allow_graceful=False)

    def mend(self) -> None:
        """As many nodes as there were."""
        while len(self.others) < 2:
            self.others.append(self.cluster.add_node(**self.room))


@contextmanager
def running() -> Iterator[Nodes]:
    """The cluster, for a while."""
    found = Nodes()
    try:
        yield found
    finally:
        ray.shutdown()
        found.cluster.shutdown()


def assert_same(found: jostle.Query, whole: jostle.Query) -> None:
    """Picks and scores are the same, bit for bit."""
    assert found.indices.tolist() == whole.indices.tolist()
    assert found.scores.tobytes() == whole.scores.tobytes()
