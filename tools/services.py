"""The source of a service, in this order: the address in the environment, Docker, a process started here."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.compose import ComposeService, engine_answers, usable
from tools.console import STATE, ToolError, say
from tools.kafka_server import KafkaServer
from tools.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.server import Server


@dataclass(frozen=True)
class Endpoint:
    """A running service: its address, what runs it, and whether this call started it."""

    address: str
    runs_as: str
    started: bool


@dataclass(frozen=True)
class Service:
    """A kind of service: its process, its container, its default port."""

    name: str
    server: type[Server]
    container: ComposeService
    default_port: int

    @property
    def setting(self) -> str:
        """The environment variable of the address."""
        return self.server.address_setting

    def local(self) -> Server:
        """Return the process that `start` uses without an address and without Docker."""
        setting = self.server.port_setting
        text = os.environ.get(setting) or str(self.default_port)
        if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 65_000:  # noqa: PLR2004 - a port
            message = f"{setting}={text} is not a port: set it to a whole number from 1 to 65000"
            raise ToolError(message)
        return self.server(STATE / self.name, int(text))

    def fetch(self) -> None:
        """Install what a start needs, without starting. Raises `ToolError`."""
        if not os.environ.get(self.setting) and not usable(self.container):
            self.server.fetch()

    def start(self) -> Endpoint:
        """Start the service unless it is running. Raises `ToolError`."""
        address = os.environ.get(self.setting)
        if address:
            return Endpoint(address, self.setting, started=False)
        local = self.local()
        if local.running() is None and usable(self.container):
            started = self.container.start(local.port, self.server.answers)
            return Endpoint(self.server.address(local.port), "Docker", started)
        started = local.start()
        return Endpoint(self.server.address(local.port), "a process", started)

    def status(self) -> Endpoint | None:
        """Return the running service, if there is one."""
        address = os.environ.get(self.setting)
        if address:
            return Endpoint(address, self.setting, started=False)
        local = self.local()
        running = local.running()
        if running is not None:
            return Endpoint(self.server.address(running.port), f"a process (pid {running.pid})", started=False)
        if engine_answers() and self.container.container():
            return Endpoint(self.server.address(local.port), "Docker", started=False)
        return None

    def stop(self) -> bool:
        """Stop the service if `start` started it. Returns whether it was running."""
        stopped = self.local().stop()
        if engine_answers():
            stopped = self.container.stop() or stopped
        return stopped


KAFKA = Service(
    name="kafka",
    server=KafkaServer,
    container=ComposeService("kafka", "OBOL_KAFKA_IMAGE", "apache/kafka:4.1.1"),
    default_port=9092,
)
REDIS = Service(
    name="redis",
    server=RedisServer,
    container=ComposeService("redis", "OBOL_REDIS_IMAGE", "redis:7"),
    default_port=6379,
)


def command_line(service: Service, arguments: Sequence[str]) -> int:
    """Carry out one action. Returns the exit code. `start` and `status` print a line for a shell to evaluate."""
    title = service.server.title
    parser = argparse.ArgumentParser(description=f"{title} for development.")
    parser.add_argument("action", choices=("fetch", "start", "stop", "status"))
    action = parser.parse_args(arguments).action
    try:
        if action == "fetch":
            service.fetch()
            return 0
        if action == "stop":
            say(f"{title}: {'stopped' if service.stop() else 'not running, or not started here'}")
            return 0
        endpoint = service.start() if action == "start" else service.status()
    except ToolError as error:
        say(f"error: {error}")
        return 1
    if endpoint is None:
        say(f"{title}: not running; start it with: make broker")
        return 1
    verb = "started" if endpoint.started else "found"
    say(f"{title}: {verb} at {endpoint.address}, from {endpoint.runs_as}")
    sys.stdout.write(f"export {service.setting}={endpoint.address}\n")
    return 0
