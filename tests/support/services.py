"""The broker and the Redis of a test session: from the environment, else in a container, else a process.

Each session starts its own on free ports, with empty data, and stops them at its end.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from testcontainers.core.container import DockerContainer

from tools.compose import usable
from tools.console import ROOT, wait_until
from tools.leftovers import session_folder, sweep
from tools.server import LOOPBACK, free_ports
from tools.services import KAFKA, REDIS, Service

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTAINER_DEADLINE_S = 120
_CONTROLLER_PORT = 29093
_REDIS_PORT = 6379


def _kafka_container(port: int) -> DockerContainer:
    """Return a container that listens on the port at which it is published, so that its advertised address is valid."""
    config = ROOT / "tools" / "kafka" / "server.properties"
    environment = {
        "CLUSTER_ID": "b2JvbC10ZXN0cy1rYWZrYQ",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{_CONTROLLER_PORT}",
        "KAFKA_LISTENERS": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://localhost:{_CONTROLLER_PORT}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{LOOPBACK}:{port}",
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    }
    container = DockerContainer(KAFKA.container.image).with_volume_mapping(
        str(config), "/mnt/shared/config/server.properties", "ro"
    )
    for name, value in environment.items():
        container = container.with_env(name, value)
    return _published(container, port, port)


def _redis_container(port: int) -> DockerContainer:
    # Without protected mode, since Docker's bridge is not loopback; the port is published on loopback only.
    command = ["redis-server", "--bind", "*", "--protected-mode", "no", "--save", "", "--appendonly", "no"]
    container = DockerContainer(REDIS.container.image).with_command(command)
    return _published(container, _REDIS_PORT, port)


def _published(container: DockerContainer, inside: int, port: int) -> DockerContainer:
    # with_bind_ports takes no host address, and would publish on every interface.
    container.ports = {f"{inside}/tcp": (LOOPBACK, port)}
    return container


@contextmanager
def _in_container(service: Service, container: DockerContainer, port: int) -> Iterator[str]:
    with container:
        label = f"{service.server.title} in a container on port {port}"
        if not wait_until(lambda: service.server.answers(port), label, _CONTAINER_DEADLINE_S):
            message = f"{label} does not answer: {container.get_logs()}"
            raise TimeoutError(message)
        yield service.server.address(port)


@contextmanager
def session_service(service: Service) -> Iterator[str]:
    """Yield the address of a service that runs while the context is open. Raises `ToolError` if none can be started."""
    address = os.environ.get(service.setting)
    if address:
        yield address
        return
    sweep()
    port = free_ports(service.server.neighbouring_ports)
    if usable(service.container):
        container = _kafka_container(port) if service is KAFKA else _redis_container(port)
        with _in_container(service, container, port) as container_address:
            yield container_address
        return
    server = service.server(session_folder() / service.name, port)
    server.start()
    try:
        yield server.address(server.port)
    finally:
        server.remove()
