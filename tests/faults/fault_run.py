"""One log, two installations: in one a worker runs undisturbed, in the other workers are killed, added and stopped.

The outbound topics of both must be the same, byte for byte (B11).
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.support.workers import POLL_S, Installation, LagWatch, Sent, Worker
from topics.catalogue import (
    CHANGES,
    COMMANDS,
    DEAD_LETTERS,
    EXECLET_ORDERS,
    HEARTBEATS,
    OUTBOUND,
    PROGRESS,
    REPORTS,
    REQUESTS,
    RESULTS,
    USAGE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sim.records import Record

InvalidShare: TypeAlias = "tuple[int, float]"
"""Seed and share of invalid records: see `with_invalid_records`."""

LogProgress: TypeAlias = "Callable[[str], None]"
Body = dict[str, Any]

Event = Literal["kill one", "kill all", "kill its replacement", "two for one", "leave", "kill the third"]
"""`kill one`: during a transaction; another worker is started · `kill all`: at the same time · `kill its replacement`:
kill one, and then its replacement during the takeover · `two for one`: kill one and start two, so a third joins ·
`leave`: stop the third · `kill the third`: without a replacement."""

KILLS: dict[Event, int] = {
    "kill one": 1,
    "kill all": 2,
    "kill its replacement": 2,
    "two for one": 1,
    "leave": 0,
    "kill the third": 1,
}
"""How many workers an event kills, if two are running."""

MANY_KILLS = 10
"""The least number of kills in a test."""

CALM_DEADLINE_S = 300.0

PAUSE_S = 0.5
"""How long workers are suspended at a time to slow them down: much less than the session timeout."""
SHARES_PER_EVENT = 8
"""An event comes after at most this fraction of its share of the records: running workers go on while others start, and
records must be left for the last event."""

MAX_SUSPENDED_S = 3.0
"""How long workers are suspended at most: half the session timeout."""

MAX_TRANSACTION_WAIT_S = 10.0
"""How long a kill waits for an open transaction of its victim. One without any lag never has one."""

MAX_DELAY_S = 0.03
"""The longest delay from an open transaction to the kill, which then comes before, during or after the commit."""


class Message(NamedTuple):
    """A published record; its index in the list is its place in the partition."""

    key: bytes | None
    timestamp: int
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


Published: TypeAlias = dict[str, dict[int, list[Message]]]
"""Messages by topic and partition, in order."""


async def write_to_both(
    reference: Installation,
    disturbed: Installation,
    records: Iterable[Record],
    invalid: InvalidShare,
    log_progress: LogProgress,
) -> list[Sent]:
    """Provision both installations and write the same log, with invalid records, to each; returns the log."""
    log = list(with_invalid_records(reference.placed(records), *invalid))
    await write_log_to_both(reference, disturbed, log, log_progress)
    return log


async def write_log_to_both(
    reference: Installation, disturbed: Installation, log: Sequence[Sent], log_progress: LogProgress
) -> None:
    """Provision both installations and write a log to each."""
    for installation in (reference, disturbed):
        await installation.provision()
        await installation.send(log)
    log_progress(f"{len(log):,} records are written to both; running one worker")


def with_invalid_records(log: Iterable[Sent], seed: int, share: float) -> Iterator[Sent]:
    """Yield the log with invalid records added after a share of the heartbeats, and after more of the rarer records.

    Each has the partition and the timestamp of the record before it.
    """
    rng = random.Random(f"{seed}/invalid")
    # In turn, so that every topic gets a record of an unknown entity, whatever the seed.
    values = {topic: cycle((None, *_GARBAGE)) for topic in _UNKNOWN}
    for number, record in enumerate(log):
        yield record
        wanted = share if record.topic == HEARTBEATS.name else _RARER * share
        if record.topic in _UNKNOWN and record.key is not None and rng.random() < wanted:
            # An id that a topic does not have is an unknown field, and ignored.
            ids = {"org_id": record.key.decode(), "event_id": f"odd-{number}", "command_id": f"odd-{number}"}
            unknown = json.dumps(_UNKNOWN[record.topic] | ids).encode()
            yield record._replace(value=next(values[record.topic]) or unknown)


_RARER = 40
_UNKNOWN: Mapping[str, Body] = {
    COMMANDS.name: {"type": "paint_deployment"},
    REQUESTS.name: {"deployment_id": "unknown"},
    PROGRESS.name: {"replica_id": "unknown-r1", "status": "RUNNING"},
    REPORTS.name: {"instance_id": "unknown", "report": "workload_up"},
    HEARTBEATS.name: {"replica_id": "unknown-r1"},
}
_GARBAGE = (b"\xff\xfe", b"[1, 2]", b'{"org_id": null}', b'{"a":' * 40 + b"1" + b"}" * 40, b'{"a": NaN}', b" " * 65_537)


async def published(installation: Installation) -> Published:
    """Return all committed records of the outbound topics."""
    found: Published = {}
    for spec in OUTBOUND:
        by_partition = found[spec.name] = {partition: [] for partition in range(installation.partitions)}
        for record in await installation.read(spec.name):
            by_partition[record.partition].append(Message(record.key, record.timestamp, record.value, record.headers))
    return found


async def reference_output(reference: Installation, log_progress: LogProgress) -> Published:
    """Return the output with which the other installation's is compared."""
    expected = await published(reference)
    log_progress(f"published: { {topic: sum(map(len, found.values())) for topic, found in expected.items()} }")
    return expected


async def check_same(expected: Published, disturbed: Installation, log: Iterable[Sent]) -> None:
    """Check that `disturbed` published the expected bytes, no id twice, and one order for each job."""
    difference = first_difference(expected, await published(disturbed))
    assert difference is None, difference
    check_none_twice(expected, log)
    check_jobs(expected)


def bodies(outcome: Published, topic: str) -> list[Body]:
    """Return the messages of a topic, parsed."""
    return [json.loads(message.value or b"") for messages in outcome[topic].values() for message in messages]


def first_difference(expected: Published, found: Published) -> str | None:
    """Describe the first difference between `found` and `expected`; None if there is none."""
    for topic, partitions in expected.items():
        for partition, wanted in partitions.items():
            got = found[topic][partition]
            if got == wanted:
                continue
            at = next((n for n, pair in enumerate(zip(wanted, got, strict=False)) if pair[0] != pair[1]), None)
            at = min(len(wanted), len(got)) if at is None else at
            lost = Counter(wanted) - Counter(got)
            added = Counter(got) - Counter(wanted)
            return (
                f"{topic} partition {partition}: {len(wanted)} messages undisturbed, {len(got)} disturbed; "
                f"{lost.total()} of the former are missing, {added.total()} of the latter are new. "
                f"The first difference is at place {at}:\n"
                f"undisturbed: {wanted[at] if at < len(wanted) else 'nothing more'}\n"
                f"disturbed:   {got[at] if at < len(got) else 'nothing more'}"
            )
    return None


_IDS: Mapping[str, Callable[[Body], tuple[Any, ...]]] = {
    USAGE.name: lambda body: (body["org_id"], body["id"]),
    CHANGES.name: lambda body: (body["org_id"], body["event_id"]),
    DEAD_LETTERS.name: lambda body: (body["topic"], body["partition"], body["offset"]),
    EXECLET_ORDERS.name: lambda body: (body["org_id"], body["order_id"]),
    "host.orders": lambda body: (body["org_id"], body["order_id"]),
}


def check_none_twice(outcome: Published, log: Iterable[Sent]) -> None:
    """Check that no id occurs twice, and that each command, also a repeated one, has one result (C1)."""
    for topic, id_of in _IDS.items():
        twice = [found for found, times in Counter(map(id_of, bodies(outcome, topic))).items() if times > 1]
        assert not twice, f"{topic}: {len(twice)} ids came twice, the first is {twice[0]}"
    asked = Counter(
        (body["org_id"], body["command_id"])
        for record in log
        if record.topic == COMMANDS.name and isinstance(body := _body(record.value), dict) and "command_id" in body
    )
    answered = Counter((body["org_id"], body["command_id"]) for body in bodies(outcome, RESULTS.name))
    assert answered == asked, f"asked and not answered {asked - answered}; answered and not asked {answered - asked}"


def _body(value: bytes | None) -> Any:
    try:
        return json.loads(value or b"")
    except ValueError:
        return None


def check_jobs(outcome: Published) -> None:
    """Check for one `submit_job` for each new replica, and one `abort_job` for each stopped one (P2, P4)."""
    replicas = [change for change in bodies(outcome, CHANGES.name) if change["kind"] == "replica"]
    expected = Counter((change["org_id"], change["id"], "submit_job") for change in replicas if "from" not in change)
    expected += Counter(
        (change["org_id"], change["id"], "abort_job") for change in replicas if change["to"] == "stopped"
    )
    orders = bodies(outcome, EXECLET_ORDERS.name)
    assert Counter((order["org_id"], order["replica_id"], order["order"]) for order in orders) == expected
    assert set(expected.values()) == {1}


async def run_undisturbed(
    installation: Installation, *flags: str, started: Callable[[Worker], None] | None = None
) -> None:
    """Run one worker until it has applied everything, and stop it."""
    with Worker(installation, *flags) as worker:
        if started is not None:
            started(worker)
        await installation.wait_until_caught_up([worker], CALM_DEADLINE_S)
        assert await asyncio.to_thread(worker.stop) == 0, worker.tail()


class OpenTransactions:
    """Finds the partitions of `croesus.usage` with an open transaction."""

    def __init__(self, installation: Installation) -> None:
        topic = installation.settings.topic(USAGE.name)
        self._places = [TopicPartition(topic, partition) for partition in range(installation.partitions)]
        options: dict[str, Any] = {"bootstrap_servers": installation.bootstrap, "enable_auto_commit": False}
        self._written = AIOKafkaConsumer(**options, isolation_level="read_uncommitted")
        self._stable = AIOKafkaConsumer(**options, isolation_level="read_committed")

    async def __aenter__(self) -> Self:
        await self._written.start()
        await self._stable.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._written.stop()
        await self._stable.stop()

    async def partitions(self) -> set[int]:
        """Return those partitions. The order of the requests ensures that a commit in between reports none as open."""
        written = await self._written.end_offsets(self._places)
        stable = await self._stable.end_offsets(self._places)
        return {place.partition for place in self._places if stable[place] < written[place]}


_LOGGED = re.compile(r"partitions \[([\d, ]*)\] are (active|assigned to this worker)")


def partitions_of(worker: Worker) -> set[int]:
    """Return the active partitions according to a worker's log; none while it restores."""
    said = _LOGGED.findall(worker.log.read_text(errors="replace"))
    numbers, what = said[-1] if said else ("", "")
    return {int(number) for number in numbers.split(",")} if numbers and what == "active" else set()


@dataclass
class FaultRun:
    """Runs two or three workers, and applies events to them, from a seed, until they have applied all records."""

    installation: Installation
    seed: int
    events: list[Event]
    log_progress: LogProgress
    flags: tuple[str, ...] = ()
    workers: list[Worker] = field(default_factory=list)
    kills: int = 0
    transactions_cut: int = 0
    events_left: int = 0

    async def execute(self) -> None:
        """Run until all records are applied and all workers have stopped. Fails if no records are left for an event."""
        rng = random.Random(self.seed)
        async with LagWatch(self.installation) as lag, OpenTransactions(self.installation) as work:
            left = total = sum((await lag.lag()).values())
            share = total // (SHARES_PER_EVENT * len(self.events))
            self.events_left = len(self.events)
            slowing = asyncio.create_task(self._slow_down(lag, total))
            try:
                self.workers += [Worker(self.installation, *self.flags) for _ in range(2)]
                for number, event in enumerate(self.events):
                    left = await lag.wait_until(left - round(share * rng.uniform(0.3, 1.0)), self.workers)
                    assert left > 0, f"no records are left for {event!r}, number {number + 1} of {len(self.events)}"
                    self.log_progress(f"{event}, {left:,} of {total:,} records left, {self.kills} kills so far")
                    await self._apply_event(event, rng, work)
                    self.events_left -= 1
                await self._finish(lag)
            finally:
                slowing.cancel()
                for worker in self.workers:
                    worker.kill()
        self.log_progress(f"done: {self.kills} kills, which cut off {self.transactions_cut} transactions")
        assert self.kills == sum(KILLS[event] for event in self.events)
        assert self.transactions_cut > 0, "no kill came while a transaction was open"

    async def _slow_down(self, lag: LagWatch, total: int) -> None:
        """Suspend active workers for moments while they have applied a larger share of the records than of the events.

        A fast machine would apply all records before the last event.
        """
        while self.events_left:
            expected_lag = total * (2 * self.events_left - 1) // (2 * len(self.events))
            if sum((await lag.lag()).values()) < expected_lag:
                active = [worker for worker in self.workers if worker.process.poll() is None and partitions_of(worker)]
                for worker in active:
                    worker.process.send_signal(signal.SIGSTOP)
                try:
                    await asyncio.sleep(PAUSE_S)
                finally:
                    for worker in active:
                        worker.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(POLL_S)

    async def _finish(self, lag: LagWatch) -> None:
        await lag.wait_until(0, self.workers)
        for worker in self.workers:
            assert await asyncio.to_thread(worker.stop) == 0, worker.tail()

    async def _replace(self, victim: int, count: int = 1) -> None:
        """Start one or more workers in place of a killed one.

        The others are suspended until these have started, as otherwise they would apply all records meanwhile; but for
        less than the session timeout.
        """
        others = [worker for worker in self.workers if worker.process.poll() is None]
        for other in others:
            other.process.send_signal(signal.SIGSTOP)
        try:
            self.workers[victim], *more = fresh = [Worker(self.installation, *self.flags) for _ in range(count)]
            self.workers += more
            end_s = time.monotonic() + MAX_SUSPENDED_S
            while others and not all(worker.log.stat().st_size for worker in fresh):
                await asyncio.sleep(POLL_S)
                if time.monotonic() > end_s:
                    break
        finally:
            for other in others:
                other.process.send_signal(signal.SIGCONT)

    async def _apply_event(self, event: Event, rng: random.Random, work: OpenTransactions) -> None:
        match event:
            case "leave":
                await self._wait_for_log(self.workers[-1], "are active")
                assert await asyncio.to_thread(self.workers[-1].stop) == 0, self.workers[-1].tail()
                self.workers.pop()
            case "kill the third":
                await self._wait_for_transaction(self.workers[-1:], rng, work)
                await self._kill(self.workers[-1:], work)
                self.workers.pop()
            case "kill all":
                count = len(self.workers)
                await self._wait_for_transaction(self.workers, rng, work)
                await self._kill(self.workers, work)
                self.workers[:] = [Worker(self.installation, *self.flags) for _ in range(count)]
            case "kill one" | "kill its replacement" | "two for one":
                aimed_at = await self._wait_for_transaction(rng.sample(self.workers, len(self.workers)), rng, work)
                victim = self.workers.index(aimed_at)
                await self._kill([aimed_at], work)
                await self._replace(victim, 2 if event == "two for one" else 1)
                if event == "kill its replacement":
                    await self._wait_for_log(self.workers[victim], "are assigned to this worker")
                    self.workers[victim].kill()
                    self.kills += 1
                    await self._replace(victim)

    async def _wait_for_log(self, worker: Worker, words: str) -> None:
        await asyncio.to_thread(worker.wait_for, words)

    async def _wait_for_transaction(
        self, candidates: list[Worker], rng: random.Random, work: OpenTransactions
    ) -> Worker:
        """Wait for an open transaction in `croesus.usage`, and return the worker of `candidates` that has it.

        After a timeout, return the first: a worker that has just started may have none.
        """
        delay_s = rng.uniform(0, MAX_DELAY_S)
        end_s = time.monotonic() + MAX_TRANSACTION_WAIT_S
        while time.monotonic() < end_s:
            open_partitions = await work.partitions()
            for worker in candidates:
                if partitions_of(worker) & open_partitions:
                    await asyncio.sleep(delay_s)
                    return worker
            await asyncio.sleep(POLL_S)
        return candidates[0]

    async def _kill(self, victims: list[Worker], work: OpenTransactions) -> None:
        partitions: set[int] = set().union(*map(partitions_of, victims))
        for victim in victims:
            victim.check()
            victim.kill()
            self.kills += 1
        # No other worker writes there before the group detects the kills, which takes seconds.
        self.transactions_cut += len(partitions & await work.partitions())


def two_installations(
    bootstrap: str, namespace: str, partitions: int, environ: dict[str, str] | None = None
) -> tuple[Installation, Installation]:
    """Return two installations that differ only in their names."""
    reference, disturbed = (
        Installation(bootstrap, f"{namespace}.{name}", partitions, dict(environ or {}))
        for name in ("reference", "disturbed")
    )
    return reference, disturbed


async def check_unchanged(
    run: FaultRun, reference: Installation, records: Iterable[Record], invalid: float
) -> Published:
    """Check that the installation of `run` publishes the same bytes as `reference`, after many kills; return them.

    `invalid`: the share of invalid records: see `with_invalid_records`.
    """
    log = await write_to_both(reference, run.installation, records, (run.seed, invalid), run.log_progress)
    await run_undisturbed(reference, *run.flags)
    expected = await reference_output(reference, run.log_progress)
    await run.execute()
    assert run.kills >= MANY_KILLS
    await check_same(expected, run.installation, log)
    return expected
