"""Helpers of tests of accidents: they change a cluster, and check how workers react."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from streams.engine.position import decode_position
from tests.support.workers import DEADLINE_S, Installation, Sent, Worker
from tools.console import ROOT
from topics.catalogue import COMMANDS, RESULTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def stop_command(installation: Installation, number: int, org_id: str = "acme") -> Sent:
    """Return a command that is always rejected: there is no such instance."""
    value = {"command_id": f"c{number}", "org_id": org_id, "type": "stop_instance", "instance_id": "none"}
    at_ms = int(time.time() * 1_000) - 60_000 + number
    return Sent(COMMANDS.name, at_ms, org_id.encode(), json.dumps(value).encode(), installation.place("", org_id))


@asynccontextmanager
async def admin_of(installation: Installation) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield an admin client."""
    admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def delete(installation: Installation, name: str) -> None:
    """Delete a topic, and wait until it does not exist."""
    async with admin_of(installation) as admin:
        await admin.delete_topics([name])
        async with asyncio.timeout(DEADLINE_S):
            while name in await admin.list_topics():  # noqa: ASYNC110 - it is on a broker
                await asyncio.sleep(0.05)


async def create(installation: Installation, name: str, partitions: int, **config: str) -> None:
    """Create a topic with this configuration."""
    async with admin_of(installation) as admin:
        response = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
        (created,) = response.to_object()["topic_errors"]
        assert created["error_code"] == 0, for_code(created["error_code"])


async def recreate(installation: Installation, topic: str) -> None:
    """Delete an input, and create it again as a worker would."""
    await delete(installation, installation.settings.topic(topic))
    await installation.provision()


async def configure(installation: Installation, name: str, **config: str) -> None:
    """Set a topic's configuration; all other entries get their defaults."""
    entries = {key.replace("_", "."): value for key, value in config.items()}
    async with admin_of(installation) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, entries)])


async def add_partitions(installation: Installation, partitions: int, *names: str) -> None:
    """Add partitions to topics."""
    async with admin_of(installation) as admin:
        response = await admin.create_partitions({name: NewPartitions(partitions) for name in names})
        assert [error for _, error, _ in response.topic_errors] == [0] * len(names)


async def delete_records(installation: Installation, name: str, before: int, partition: int = 0) -> None:
    """Delete the records of a partition that are before an offset, as `kafka-delete-records` does."""
    async with admin_of(installation) as admin:
        await admin.delete_records({TopicPartition(name, partition): RecordsToDelete(before_offset=before)})


async def results(installation: Installation) -> set[str]:
    """Return the ids of the commands that have a result."""
    return {json.loads(record.value or b"")["command_id"] for record in await installation.read(RESULTS.name)}


async def wait_for_results(installation: Installation, worker: Worker, commands: set[str]) -> None:
    """Wait until these commands have a result."""
    async with asyncio.timeout(DEADLINE_S):
        while not commands <= await results(installation):
            worker.check()
            await asyncio.sleep(0.1)


async def apply_commands(installation: Installation, commands: int = 3) -> None:
    """Run a worker until it has applied some commands, and stop it."""
    await installation.provision()
    await installation.send(stop_command(installation, number) for number in range(commands))
    with Worker(installation, "--without-web") as worker:
        await wait_for_results(installation, worker, {f"c{number}" for number in range(commands)})
        assert await asyncio.to_thread(worker.stop) == 0


async def run_until_caught_up(installation: Installation) -> None:
    """Run a worker that starts without an error and has no lag."""
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await installation.wait_until_caught_up([worker])
        assert await asyncio.to_thread(worker.stop) == 0


async def refused(installation: Installation, code: int, *words: str, **environ: str) -> str:
    """Start a worker that ends by itself; return its last line."""
    with Worker(installation, "--without-web", **environ) as worker:
        assert await asyncio.to_thread(worker.wait) == code, worker.tail()
        return last_line(worker, code, *words)


def last_line(worker: Worker, code: int, *words: str) -> str:
    """Return the one line with which a worker ended; it must contain `words`."""
    (line,) = [line for line in worker.tail(400).splitlines() if f"exit code {code}" in line]
    for word in words:
        assert word in line
    assert "Traceback" not in worker.tail(400)
    return line


def obol(installation: Installation, *arguments: str) -> str:
    """Run a command of `obol`, and return its output."""
    ended = subprocess.run(
        [sys.executable, "-m", "streams.cli", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **installation.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


async def count(installation: Installation, kind: str, topic: str) -> int:
    """Return the sum of a count over the positions of all partitions."""
    latest = {record.partition: record.value or b"" for record in await installation.read_changelog("positions")}
    return sum(decode_position(value).count(kind, topic) for value in latest.values())
