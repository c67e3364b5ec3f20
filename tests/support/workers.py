"""Worker processes on a real broker, and a client that writes inputs and reads outputs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from streams.engine.kafka import AioKafka
from streams.settings import Settings
from tools.console import ROOT
from tools.leftovers import session_folder
from tools.server import free_ports
from topics.catalogue import INBOUND, PRICES, TOPICS, without_namespace
from topics.partitioner import partition_of
from topics.provision import provision

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sim.records import Record

DEADLINE_S = 90.0
POLL_S = 0.02

APPLIED = tuple(spec.name for spec in INBOUND if spec is not PRICES)


class Sent(NamedTuple):
    """A record to be written to an input."""

    topic: str
    timestamp: int
    key: bytes | None
    value: bytes | None
    partition: int


class Read(NamedTuple):
    """A record that was read."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass
class Installation:
    """One namespace on a cluster, and the environment of its workers."""

    bootstrap: str
    namespace: str
    partitions: int = 4
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of its workers."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap,
            "CROESUS_HOST": self.bootstrap,
            "DEDICATED_BILLING_ENABLED": "1",
            "OBOL_NAMESPACE": self.namespace,
            "OBOL_PARTITIONS": str(self.partitions),
            "OBOL_TIMESTAMPS": "producer",
            "OBOL_CLOCK": "log",
            **self.environ,
        }

    @property
    def settings(self) -> Settings:
        """The settings of its workers."""
        return Settings.from_env(self.environment)

    async def provision(self) -> None:
        """Create its topics."""
        await provision(self.settings)

    def place(self, topic: str, org_id: str) -> int:
        """Return the partition of an org's records in a topic."""
        return 0 if topic == PRICES.name else partition_of(org_id, self.partitions)

    def placed(self, records: Iterable[Record]) -> Iterator[Sent]:
        """Yield records of the stand-ins, each with its org's partition."""
        for record in records:
            partition = self.place(record.topic, record.key or "") if record.partition is None else record.partition
            key = None if record.key is None else record.key.encode()
            yield Sent(record.topic, record.timestamp_ms, key, record.value, partition)

    async def send(self, records: Iterable[Sent], **producer_options: Any) -> None:
        """Write records, in their order within each partition, and wait until all are stored.

        With a `transactional_id`, they are written in one transaction.
        """
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True, max_batch_size=262_144, **producer_options
        )
        await producer.start()
        whole = producer.transaction() if "transactional_id" in producer_options else nullcontext()
        batches: dict[tuple[str, int], Any] = {}
        stored = []

        async def flush(topic: str, partition: int) -> None:
            batch = batches.pop((topic, partition))
            batch.close()
            stored.append(await producer.send_batch(batch, self.settings.topic(topic), partition=partition))

        try:
            async with whole:
                for topic, timestamp, key, value, partition in records:
                    for _ in range(2):
                        batch = batches.get((topic, partition))
                        if batch is None:
                            batch = batches[topic, partition] = producer.create_batch()
                        if batch.append(key=key, value=value, timestamp=timestamp) is not None:
                            break
                        await flush(topic, partition)
                for topic, partition in list(batches):
                    await flush(topic, partition)
                await asyncio.gather(*stored)
        finally:
            await producer.stop()

    def changelog(self, table: str) -> str:
        """Return the full name of a table's changelog."""
        return f"{self.settings.app_id}-{table}-changelog"

    async def read(self, topic: str) -> list[Read]:
        """Return all committed records of a topic, partition after partition."""
        return await self._read(self.settings.topic(topic), TOPICS[topic].partitions(self.partitions))

    async def read_changelog(self, table: str) -> list[Read]:
        """Return all committed records of a table's changelog, partition after partition."""
        return await self._read(self.changelog(table), self.partitions)

    async def _read(self, name: str, partitions: int) -> list[Read]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            tps = [TopicPartition(name, partition) for partition in range(partitions)]
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            ends = await self.ends(tps)
            found: dict[Any, list[Read]] = {tp: [] for tp in tps}
            while any([await consumer.position(tp) < ends[tp] for tp in tps]):
                for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[tp] += [
                        Read(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records
                    ]
            return [record for tp in tps for record in found[tp]]
        finally:
            await consumer.stop()

    async def ends(self, tps: list[Any]) -> dict[Any, int]:
        """Return the end offsets of partitions, open transactions included."""
        broker = AioKafka({"bootstrap_servers": self.bootstrap}).admin("test")
        await broker.start()
        try:
            found = await broker.end_offsets(tps)
        finally:
            await broker.stop()
        return {tp: found[tp] for tp in tps}

    async def lag(self) -> dict[str, int]:
        """Return the lag of the consumer group, by topic."""
        async with LagWatch(self) as watch:
            return await watch.lag()

    async def wait_until_caught_up(self, workers: Iterable[Worker], deadline_s: float = DEADLINE_S) -> None:
        """Wait until all inputs are applied and committed. A worker that ends meanwhile is a failure."""
        async with LagWatch(self) as watch:
            await watch.wait_until(0, workers, deadline_s)


class LagWatch:
    """Measures the lag of the workers repeatedly. The inputs must not change meanwhile."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._admin: Any = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap)
        self._ends: dict[Any, int] = {}

    async def __aenter__(self) -> Self:
        installation = self._installation
        await self._admin.start()
        self._ends = await installation.ends(
            [
                TopicPartition(installation.settings.topic(topic), partition)
                for topic in APPLIED
                for partition in range(installation.partitions)
            ]
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._admin.close()

    async def lag(self) -> dict[str, int]:
        """Return the lag of the consumer group, by topic."""
        settings = self._installation.settings
        try:
            committed = await self._admin.list_consumer_group_offsets(settings.app_id)
        except KafkaError as error:
            # A new broker creates its offsets topic at the first request; a broker may also be lost.
            if not error.retriable:
                raise
            committed = {}
        behind = dict.fromkeys(APPLIED, 0)
        for tp, end in self._ends.items():
            at = committed[tp].offset if tp in committed else 0
            behind[without_namespace(tp.topic, settings.namespace)] += end - max(at, 0)
        return behind

    async def wait_until(self, behind: int, workers: Iterable[Worker], deadline_s: float = DEADLINE_S) -> int:
        """Wait until the lag is at most `behind`; returns the lag. A worker that ends meanwhile is a failure."""
        end_s = time.monotonic() + deadline_s
        while (left := sum((lag := await self.lag()).values())) > behind:
            for worker in workers:
                worker.check()
            if time.monotonic() > end_s:
                message = f"still behind after {deadline_s:g} s: {lag}\n" + "".join(map(Worker.tail, workers))
                raise TimeoutError(message)
            await asyncio.sleep(POLL_S)
        return left


class Worker:
    """A worker process. `flags`: Faust's."""

    def __init__(self, installation: Installation, *flags: str, **environ: str) -> None:
        self.port = free_ports(1)
        session_folder().mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="worker-", dir=session_folder()))
        self.log = self.folder / "log"
        self._environ = {
            "PATH": os.environ["PATH"],
            **installation.environment,
            "OBOL_HTTP_PORT": str(self.port),
            "OBOL_DATA_DIR": str(self.folder / "data"),
            **environ,
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "faust", "-A", "streams.app", "worker", "-l", "info", *flags],
                cwd=ROOT,
                env=self._environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The address of its web views."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Send `kill -9`."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self, deadline_s: float = 30.0) -> int:
        """Stop it with SIGTERM, once it has started, and return its exit code."""
        self.wait_for("Starting...")
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(deadline_s)
        except subprocess.TimeoutExpired as error:
            message = f"the worker has not stopped after {deadline_s:g} s\n{self.tail()}"
            raise AssertionError(message) from error
        # It had committed, but was ended by its own deadline: a task did not end.
        assert "still running after" not in self.tail(), self.tail()
        return code

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """Wait until it ends by itself, and return its exit code."""
        return self.process.wait(deadline_s)

    def check(self) -> None:
        """Raise `AssertionError` if it has ended."""
        if self.process.poll() is not None:
            message = f"the worker has ended with code {self.process.returncode}\n{self.tail()}"
            raise AssertionError(message)

    def wait_for(self, words: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until its log contains `words`."""
        end_s = time.monotonic() + deadline_s
        while words not in self.log.read_text(errors="replace"):
            self.check()
            if time.monotonic() > end_s:
                message = f"the log has no {words!r} after {deadline_s:g} s\n{self.tail()}"
                raise TimeoutError(message)
            time.sleep(POLL_S)

    def tail(self, lines: int = 40) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) + "\n"
