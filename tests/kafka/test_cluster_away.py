"""An unreachable cluster or group: a worker waits if that may help, else it ends with one line."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from streams.engine.fatal import EXIT_RETRY
from tests.support.accidents import refused, stop_command, wait_for_results
from tests.support.workers import Installation, Worker
from tools.kafka_server import KafkaServer
from tools.leftovers import session_folder
from tools.server import free_ports
from topics.catalogue import RESULTS

pytestmark = pytest.mark.kafka

AWAY_S = 45.0
"""Longer than the session timeout, the clients' request timeout, and the interval of comparing settings."""


class Elsewhere(KafkaServer):
    """A broker that advertises an address which does not exist."""

    def settings(self) -> dict[str, str]:
        return super().settings() | {"advertised.listeners": f"PLAINTEXT://no-such-host.invalid:{self.port}"}


async def test_a_cluster_that_is_unreachable_at_start_is_waited_for_and_named(namespace: str) -> None:
    server = Elsewhere(session_folder() / "elsewhere", free_ports(KafkaServer.neighbouring_ports))
    await asyncio.to_thread(server.start)
    line = "cluster unreachable: the cluster can't be reached after 60 s"
    try:
        # Both at once, as each takes a minute.
        await asyncio.gather(
            refused(Installation(f"127.0.0.1:{free_ports(1)}", namespace, 1), EXIT_RETRY, line, "start it"),
            refused(
                Installation(KafkaServer.address(server.port), namespace, 1),
                EXIT_RETRY,
                line,
                f"its brokers advertise no-such-host.invalid:{server.port}",
            ),
        )
    finally:
        await asyncio.to_thread(server.remove)


async def test_a_cluster_that_is_away_while_a_worker_runs_is_waited_for(namespace: str) -> None:
    server = KafkaServer(session_folder() / "away", free_ports(KafkaServer.neighbouring_ports))
    await asyncio.to_thread(server.start)
    try:
        installation = Installation(KafkaServer.address(server.port), namespace, 2, environ={"OBOL_CLOCK": "wall"})
        await installation.provision()
        with Worker(installation, "--without-web") as worker:
            await asyncio.to_thread(worker.wait_for, "are active")
            await installation.send([stop_command(installation, 1)])
            await wait_for_results(installation, worker, {"c1"})
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(worker.wait_for, "the cluster has not answered")
            # Longer than any request or session timeout of the clients.
            await asyncio.sleep(AWAY_S)
            worker.check()
            await asyncio.to_thread(server.start)
            await asyncio.to_thread(worker.wait_for, "the cluster answers again")
            await installation.send([stop_command(installation, 2)])
            await wait_for_results(installation, worker, {"c1", "c2"})
            assert await asyncio.to_thread(worker.stop) == 0
    finally:
        await asyncio.to_thread(server.remove)


async def test_a_group_that_can_not_be_joined_ends_the_worker(kafka_bootstrap: str, namespace: str) -> None:
    """Another program uses the group's name, with an assignor that is not Obol's."""
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    other = AIOKafkaConsumer(
        installation.settings.topic(RESULTS.name),
        bootstrap_servers=kafka_bootstrap,
        group_id=installation.settings.app_id,
    )
    await other.start()
    try:
        line = await refused(installation, EXIT_RETRY)
        assert "InconsistentGroupProtocolError" in line
    finally:
        await other.stop()
