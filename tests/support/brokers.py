"""A cluster of three brokers for one test; one of them may be killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tools.kafka_server import KafkaServer, new_cluster_id
from tools.leftovers import session_folder
from tools.server import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

BROKERS = 3


class Broker(KafkaServer):
    """One of several brokers; each is also a voter of the controllers' quorum."""

    def __init__(self, folder: Path, port: int, node_id: int, cluster_id: str, voters: Sequence[str]) -> None:
        super().__init__(folder, port)
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._voters = voters

    def settings(self) -> dict[str, str]:
        """Return settings with which one of three replicas may be lost, of Kafka's own topics, too."""
        copies = str(BROKERS)
        return super().settings() | {
            "node.id": str(self._node_id),
            "controller.quorum.voters": ",".join(self._voters),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": str(BROKERS - 1),
            "broker.session.timeout.ms": "3000",
        }

    def cluster_id(self) -> str:
        """Return the id that all brokers of the cluster have."""
        return self._cluster_id

    def kill(self) -> None:
        """Send `kill -9`, as if its machine were lost."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextmanager
def cluster() -> Iterator[list[Broker]]:
    """Run three brokers while the context is open."""
    first = free_ports(BROKERS * Broker.neighbouring_ports)
    ports = [first + number * Broker.neighbouring_ports for number in range(BROKERS)]
    voters = [f"{number}@{LOOPBACK}:{port + 1}" for number, port in enumerate(ports, 1)]
    cluster_id = new_cluster_id()
    brokers = [
        Broker(session_folder() / f"broker-{number}", port, number, cluster_id, voters)
        for number, port in enumerate(ports, 1)
    ]
    try:
        # A broker responds only once a majority has started.
        with ThreadPoolExecutor(BROKERS) as threads:
            list(threads.map(Broker.start, brokers))
        yield brokers
    finally:
        with ThreadPoolExecutor(BROKERS) as threads:
            list(threads.map(Broker.remove, brokers))
