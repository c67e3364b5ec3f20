"""One log, two installations: in one a worker is left in peace, in the other workers are killed, come and go.

Whatever happened in the second, its outbound topics must be the first one's, byte for byte (B11).
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
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sim.records import Record

Refuse: TypeAlias = "tuple[int, float]"
"""Seed and share of what no producer should send: see `with_refuse`."""

Tell: TypeAlias = "Callable[[str], None]"
Body = dict[str, Any]

Event = Literal["kill one", "kill all", "kill its heir", "two for one", "leave", "kill the third"]
"""`kill one`: in mid-transaction, and another is started · `kill all`: at once, as when the power fails · `kill its
heir`: one, and then who was started in its place, while it takes over · `two for one`: one is killed, and two come: a
third joins · `leave`: the third ends as one does · `kill the third`: and nobody takes its place."""

KILLS: dict[Event, int] = {
    "kill one": 1,
    "kill all": 2,
    "kill its heir": 2,
    "two for one": 1,
    "leave": 0,
    "kill the third": 1,
}
"""How many workers an event kills, where two are at work."""

MANY_KILLS = 10
"""In one test, at least."""

CALM_DEADLINE_S = 300.0

HELD_S = 0.5
"""Of each moment that workers are held back: far less than the group waits for a sign of life."""
SHARES_PER_EVENT = 8
"""An event comes when at most so small a part of its share of the work is done since the one before: whoever is left
works on while others start, and something must be left for the last event."""

MAX_STILL_S = 3.0
"""How long workers stand still at most: half of what a session lasts without a sign of life."""

MAX_AIM_S = 10.0
"""How long a kill waits for its victim to have a transaction open. One whose partitions are all done never has."""

MAX_DELAY_S = 0.03
"""From seeing an open transaction to the kill, at most: it then falls before, into or after the commit."""


class Message(NamedTuple):
    """A record as it was published; where it stands in its partition is told by its place in the list."""

    key: bytes | None
    timestamp: int
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


Published: TypeAlias = dict[str, dict[int, list[Message]]]
"""By topic and partition, in order."""


async def written_twice(
    calm: Installation, rough: Installation, records: Iterable[Record], refuse: Refuse, tell: Tell
) -> list[Sent]:
    """Provision both and write the same log to each, refuse among it; returns the log."""
    log = list(with_refuse(calm.placed(records), *refuse))
    for installation in (calm, rough):
        await installation.provision()
        await installation.send(log)
    tell(f"{len(log):,} records are written, twice; one worker, in peace")
    return log


def with_refuse(log: Iterable[Sent], seed: int, share: float) -> Iterator[Sent]:
    """Put what no producer should send behind so large a share of heartbeats, and behind more of the rarer records.

    It stands in the same place and has the same time.
    """
    rng = random.Random(f"{seed}/refuse")
    for number, record in enumerate(log):
        yield record
        wanted = share if record.topic == HEARTBEATS.name else _RARER * share
        if record.topic in _STRANGERS and record.key is not None and rng.random() < wanted:
            # The id that a topic doesn't know is an unknown field there, and ignored.
            ids = {"org_id": record.key.decode(), "event_id": f"odd-{number}", "command_id": f"odd-{number}"}
            stranger = json.dumps(_STRANGERS[record.topic] | ids).encode()
            yield record._replace(value=rng.choice((*_GARBAGE, stranger)))


_RARER = 40
_STRANGERS: Mapping[str, Body] = {
    COMMANDS.name: {"type": "paint_deployment"},
    REQUESTS.name: {"deployment_id": "nobodys"},
    PROGRESS.name: {"replica_id": "nobodys-r1", "status": "RUNNING"},
    REPORTS.name: {"instance_id": "nobodys", "report": "workload_up"},
    HEARTBEATS.name: {"replica_id": "nobodys-r1"},
}
_GARBAGE = (b"\xff\xfe", b"[1, 2]", b'{"org_id": null}', b'{"a":' * 40 + b"1" + b"}" * 40, b'{"a": NaN}', b" " * 65_537)


async def published(installation: Installation) -> Published:
    """Everything that is committed in the outbound topics."""
    found: Published = {}
    for spec in OUTBOUND:
        by_partition = found[spec.name] = {partition: [] for partition in range(installation.partitions)}
        for record in await installation.read(spec.name):
            by_partition[record.partition].append(Message(record.key, record.timestamp, record.value, record.headers))
    return found


async def published_in_peace(calm: Installation, tell: Tell) -> Published:
    """What the other installation is held against."""
    expected = await published(calm)
    tell(f"it published { {topic: sum(map(len, found.values())) for topic, found in expected.items()} }")
    return expected


async def check_same(expected: Published, rough: Installation, log: Iterable[Sent]) -> None:
    """`rough` published what was expected, to the byte; nothing of that came twice, and each job was ordered once."""
    difference = first_difference(expected, await published(rough))
    assert difference is None, difference
    check_none_twice(expected, log)
    check_jobs(expected)


def bodies(outcome: Published, topic: str) -> list[Body]:
    """The messages of a topic, read."""
    return [json.loads(message.value or b"") for messages in outcome[topic].values() for message in messages]


def first_difference(expected: Published, found: Published) -> str | None:
    """Where `found` first differs from `expected`, with both bytes; None: nowhere."""
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
    """Every id once, and one result for each time that a command came (C1 answers a repeated one again)."""
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
    """One `submit_job` for each replica that came to be, one `abort_job` for each that was stopped (P2, P4)."""
    replicas = [change for change in bodies(outcome, CHANGES.name) if change["kind"] == "replica"]
    expected = Counter((change["org_id"], change["id"], "submit_job") for change in replicas if "from" not in change)
    expected += Counter(
        (change["org_id"], change["id"], "abort_job") for change in replicas if change["to"] == "stopped"
    )
    orders = bodies(outcome, EXECLET_ORDERS.name)
    assert Counter((order["org_id"], order["replica_id"], order["order"]) for order in orders) == expected
    assert set(expected.values()) == {1}


async def undisturbed(installation: Installation, *flags: str, started: Callable[[Worker], None] | None = None) -> None:
    """Have one worker do all the work there is, from its start to its clean end."""
    with Worker(installation, *flags) as worker:
        if started is not None:
            started(worker)
        await installation.wait_until_caught_up([worker], CALM_DEADLINE_S)
        assert await asyncio.to_thread(worker.stop) == 0, worker.tail()


class OpenWork:
    """Sees which partitions of `croesus.usage` have a transaction open: written to, not yet committed."""

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
        """Those that have one. In this order, so that a commit in between makes none look open that is not."""
        written = await self._written.end_offsets(self._places)
        stable = await self._stable.end_offsets(self._places)
        return {place.partition for place in self._places if stable[place] < written[place]}


_SAID = re.compile(r"partitions \[([\d, ]*)\] are (active|assigned to this worker)")


def partitions_of(worker: Worker) -> set[int]:
    """Which partitions a worker said last that it works on: none while it restores."""
    said = _SAID.findall(worker.log.read_text(errors="replace"))
    numbers, what = said[-1] if said else ("", "")
    return {int(number) for number in numbers.split(",")} if numbers and what == "active" else set()


@dataclass
class Upheaval:
    """Two workers, or three, and what befalls them, seeded, while they work through what is in their inputs."""

    installation: Installation
    seed: int
    events: list[Event]
    tell: Tell
    flags: tuple[str, ...] = ()
    workers: list[Worker] = field(default_factory=list)
    kills: int = 0
    transactions_cut: int = 0
    to_come: int = 0

    async def run(self) -> None:
        """From the first worker's start until all is done and the last has ended; fails if too little was left."""
        rng = random.Random(self.seed)
        async with LagWatch(self.installation) as lag, OpenWork(self.installation) as work:
            left = total = sum((await lag.lag()).values())
            share = total // (SHARES_PER_EVENT * len(self.events))
            self.to_come = len(self.events)
            brake = asyncio.create_task(self._hold_back(lag, total))
            try:
                self.workers += [Worker(self.installation, *self.flags) for _ in range(2)]
                for number, event in enumerate(self.events):
                    left = await lag.wait_until(left - round(share * rng.uniform(0.3, 1.0)), self.workers)
                    assert left > 0, f"all was done before {event!r}, number {number + 1} of {len(self.events)}"
                    self.tell(f"{event}, {left:,} of {total:,} records left, {self.kills} kills so far")
                    await self._befall(event, rng, work)
                    self.to_come -= 1
                await self._finish(lag)
            finally:
                brake.cancel()
                for worker in self.workers:
                    worker.kill()
        self.tell(f"done: {self.kills} kills, which cut off {self.transactions_cut} transactions")
        assert self.kills == sum(KILLS[event] for event in self.events)
        assert self.transactions_cut > 0, "no kill came while a transaction was open"

    async def _hold_back(self, lag: LagWatch, total: int) -> None:
        """Have who is at work stand still for moments while more of the work than of the events is over.

        A quick machine would be through before the last event.
        """
        while self.to_come:
            fair = total * (2 * self.to_come - 1) // (2 * len(self.events))
            if sum((await lag.lag()).values()) < fair:
                held = [worker for worker in self.workers if worker.process.poll() is None and partitions_of(worker)]
                for worker in held:
                    worker.process.send_signal(signal.SIGSTOP)
                try:
                    await asyncio.sleep(HELD_S)
                finally:
                    for worker in held:
                        worker.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(POLL_S)

    async def _finish(self, lag: LagWatch) -> None:
        await lag.wait_until(0, self.workers)
        for worker in self.workers:
            assert await asyncio.to_thread(worker.stop) == 0, worker.tail()

    async def _replace(self, victim: int, count: int = 1) -> None:
        """Start another in the place of a killed one, or more than one.

        The others stand still until these have begun, or they would be through with all the work after a few such
        waits; but not for so long that the group would miss them.
        """
        others = [worker for worker in self.workers if worker.process.poll() is None]
        for other in others:
            other.process.send_signal(signal.SIGSTOP)
        try:
            self.workers[victim], *more = fresh = [Worker(self.installation, *self.flags) for _ in range(count)]
            self.workers += more
            end_s = time.monotonic() + MAX_STILL_S
            while others and not all(worker.log.stat().st_size for worker in fresh):
                await asyncio.sleep(POLL_S)
                if time.monotonic() > end_s:
                    break
        finally:
            for other in others:
                other.process.send_signal(signal.SIGCONT)

    async def _befall(self, event: Event, rng: random.Random, work: OpenWork) -> None:
        match event:
            case "leave":
                await self._said(self.workers[-1], "are active")
                assert await asyncio.to_thread(self.workers[-1].stop) == 0, self.workers[-1].tail()
                self.workers.pop()
            case "kill the third":
                await self._aim(self.workers[-1:], rng, work)
                await self._kill(self.workers[-1:], work)
                self.workers.pop()
            case "kill all":
                count = len(self.workers)
                await self._aim(self.workers, rng, work)
                await self._kill(self.workers, work)
                self.workers[:] = [Worker(self.installation, *self.flags) for _ in range(count)]
            case "kill one" | "kill its heir" | "two for one":
                aimed_at = await self._aim(rng.sample(self.workers, len(self.workers)), rng, work)
                victim = self.workers.index(aimed_at)
                await self._kill([aimed_at], work)
                await self._replace(victim, 2 if event == "two for one" else 1)
                if event == "kill its heir":
                    await self._said(self.workers[victim], "are this worker's")
                    self.workers[victim].kill()
                    self.kills += 1
                    await self._replace(victim)

    async def _said(self, worker: Worker, words: str) -> None:
        await asyncio.to_thread(worker.wait_for, words)

    async def _aim(self, candidates: list[Worker], rng: random.Random, work: OpenWork) -> Worker:
        """The first of `candidates` that is in mid-tick: what is open in `croesus.usage` is what ticks billed.

        One that has just started has nothing yet; waiting for it would let the others finish.
        """
        delay_s = rng.uniform(0, MAX_DELAY_S)
        end_s = time.monotonic() + MAX_AIM_S
        while time.monotonic() < end_s:
            open_partitions = await work.partitions()
            for worker in candidates:
                if partitions_of(worker) & open_partitions:
                    await asyncio.sleep(delay_s)
                    return worker
            await asyncio.sleep(POLL_S)
        return candidates[0]

    async def _kill(self, victims: list[Worker], work: OpenWork) -> None:
        mine: set[int] = set().union(*map(partitions_of, victims))
        for victim in victims:
            victim.check()
            victim.kill()
            self.kills += 1
        # Nobody else may write there before the victims are missed, which takes seconds.
        self.transactions_cut += len(mine & await work.partitions())


def calm_and_rough(
    bootstrap: str, namespace: str, partitions: int, environ: dict[str, str] | None = None
) -> tuple[Installation, Installation]:
    """Two installations that differ in nothing but their names."""
    calm, rough = (
        Installation(bootstrap, f"{namespace}.{name}", partitions, dict(environ or {})) for name in ("calm", "rough")
    )
    return calm, rough


async def unchanged_by(upheaval: Upheaval, calm: Installation, records: Iterable[Record], refuse: float) -> Published:
    """What `calm` published of `records`, and so did the other in `upheaval`: to the byte, and after many kills.

    `refuse` is the share of what no producer should send: see `with_refuse`.
    """
    log = await written_twice(calm, upheaval.installation, records, (upheaval.seed, refuse), upheaval.tell)
    await undisturbed(calm, *upheaval.flags)
    expected = await published_in_peace(calm, upheaval.tell)
    await upheaval.run()
    assert upheaval.kills >= MANY_KILLS
    await check_same(expected, upheaval.installation, log)
    return expected
