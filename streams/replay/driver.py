"""The in-process test driver: shards without a broker, as Kafka Streams' TopologyTestDriver.

The same merge, rules and commits as in a worker, over logs in memory. A crash loses everything that no transaction has
committed.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.base import Wire
from streams.billing.prices import PriceRecord, Prices
from streams.engine.check import ENABLED
from streams.engine.headers import Header
from streams.engine.position import Position
from streams.engine.rowcodec import RowReader
from streams.engine.shard import INPUTS, MAX_RUN_RECORDS, Commit, Outgoing, Shard
from streams.limits import HOUR_MS
from streams.rules.context import Switches
from streams.rules.decision import LogLine
from streams.rules.rows import Row
from streams.rules.store import RowStore
from topics.catalogue import CLOCK, OUTBOUND, PRICES
from topics.codec import Rejected, decode_prices, encode
from topics.partitioner import partition_of

__all__ = ["TICK", "Log", "LogRecord", "ShardDriver", "Switches"]

TICK = b'{"type":"tick"}'


class LogRecord(NamedTuple):
    """A record of a log in memory."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def json(self) -> Any:
        """The value, parsed."""
        return json.loads(self.value or b"null")


@dataclass
class Log:
    """The state of the broker: records by topic and partition, and the committed rows and offsets.

    `log_lines`: the log lines of the commits.
    """

    records: dict[tuple[str, int], list[LogRecord]] = field(default_factory=lambda: defaultdict(list))
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    changelogs: dict[tuple[str, int], list[tuple[bytes, bytes | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    log_lines: list[LogLine] = field(default_factory=list)

    def append(self, message: Outgoing) -> LogRecord:
        """Write one message at the end of its partition."""
        records = self.records[message.topic, message.partition]
        record = LogRecord(
            message.topic,
            message.partition,
            len(records),
            message.timestamp,
            message.key,
            message.value,
            message.headers,
        )
        records.append(record)
        return record

    def commit(self, commit: Commit) -> None:
        """Apply a transaction."""
        for table, rows in commit.rows.items():
            self.changelogs[table, commit.partition] += rows
        for message in commit.messages():
            self.append(message)
        for topic, offset in commit.offsets.items():
            self.offsets[topic, commit.partition] = offset
        self.log_lines += commit.log_lines

    def forget_outputs(self) -> None:
        """Drop outputs and changelogs, which bounds the memory of a long run. No crash may follow."""
        outbound = {spec.name for spec in OUTBOUND}
        for place in [place for place in self.records if place[0] in outbound]:
            del self.records[place]
        self.changelogs.clear()


class ShardDriver:
    """All partitions of an installation in one process.

    `send` and `tick` write records, `run` has the shards apply and commit them. For tests of crashes, `feed`, `step`
    and `commit` are the steps of `run`; `crash` may come between any two of them.
    """

    def __init__(
        self,
        *,
        partitions: int = 1,
        switches: Switches = Switches(billing_enabled=True),  # noqa: B008 - frozen
        currency: str = "JPY",
        retention_h: int = 168,
        max_run_records: int = MAX_RUN_RECORDS,
        check: bool = ENABLED,
    ) -> None:
        self.partitions = partitions
        self.switches = switches
        self.currency = currency
        self.retention_ms = retention_h * HOUR_MS
        self.max_run_records = max_run_records
        self.check = check
        self.log = Log()
        self.now_s = 0.0
        self.prices = Prices()
        self.prices_refused: list[Rejected] = []
        self.shards: dict[int, Shard] = {}
        self._prices_read = 0
        self._asked = 0
        self._start()

    # Records

    def send(
        self,
        topic: str,
        value: Wire | Mapping[str, Any] | bytes | None,
        at_ms: int,
        key: str | bytes | None = None,
        partition: int | None = None,
        headers: tuple[Header, ...] = (),
    ) -> LogRecord:
        """Write a record of an inbound topic, by default to the partition of the `org_id` in it."""
        content = value if isinstance(value, bytes) or value is None else _written(value)
        raw_key = key.encode() if isinstance(key, str) else key
        if partition is None:
            partition = 0 if topic == PRICES.name else partition_of(_org_id(content), self.partitions)
        return self.log.append(Outgoing(topic, partition, raw_key, content, at_ms, headers))

    def price(self, profile: str, price: str | None, at_ms: int, currency: str | None = None) -> LogRecord:
        """Write a price, or with None that there is none from then on."""
        value = None
        if price is not None:
            value = {"profile": profile, "price": price, "currency": currency or self.currency}
        return self.send(PRICES.name, value, at_ms, key=profile)

    def tick(self, at_ms: int, value: bytes = TICK) -> None:
        """Write a tick to every partition."""
        for partition in range(self.partitions):
            self.send(CLOCK.name, value, at_ms, partition=partition)

    # Processing

    def run(self) -> None:
        """Apply and commit all records, including those that this writes to other partitions."""
        busy = True
        while busy:
            busy = self.feed() > 0
            # A shard also stops when a commit must come first.
            while self.step():
                busy = True
            self.commit()

    def feed(self, max_records: int | None = None) -> int:
        """Pass each shard its unread records, at most `max_records` of each topic; returns how many in all."""
        self._read_prices()
        fed = 0
        for shard in self.shards.values():
            for topic in INPUTS:
                fed += self._feed(shard, topic, max_records)
        self._asked += 1
        for shard in self.shards.values():
            ends = {topic: len(self.log.records[topic, shard.partition]) for topic in INPUTS}
            shard.merge.set_ends(ends, self._asked)
        return fed

    def step(self, max_records: int = 1) -> int:
        """Have each shard apply about `max_records`; returns how many were applied."""
        return sum(shard.advance(self.now_s, max_records) for shard in self.shards.values())

    def commit(self, partitions: Iterable[int] | None = None) -> None:
        """Commit what the shards (or those of `partitions`) have applied."""
        for partition in list(self.shards) if partitions is None else partitions:
            commit = self.shards[partition].drain()
            if commit is not None:
                self.log.commit(commit)

    def crash(self) -> None:
        """Lose everything but what was committed, and start again from that."""
        self._start()

    def crash_in_commit(self) -> None:
        """Crash after everything was written but before the transactions are committed, so that none of it counts."""
        for shard in self.shards.values():
            commit = shard.drain()
            if commit is not None:
                list(commit.messages())
        self._start()

    # Results

    def records(self, topic: str) -> list[LogRecord]:
        """Return the records of a topic, partition after partition."""
        return [record for partition in range(self.partitions) for record in self.log.records[topic, partition]]

    def values(self, topic: str) -> list[Any]:
        """Return the values of a topic's records, parsed."""
        return [record.json for record in self.records(topic)]

    def rows(self, table: str) -> dict[str, Row]:
        """Return the committed rows of a table, by `<org_id>/<row_id>`, read back from its changelogs."""
        reader = RowReader()
        return {
            key.decode(): reader.read(table, key, value)
            for partition in range(self.partitions)
            for key, value in self._compacted(table, partition).items()
        }

    def store(self, partition: int = 0) -> RowStore:
        """Return a partition's rows in memory."""
        return self.shards[partition].store

    def position(self, partition: int = 0) -> Position:
        """Return a partition's position in memory; the rules' counts are in it once committed."""
        return self.shards[partition].position

    def counts(self) -> Counter[tuple[str, str]]:
        """Return all counts over all partitions, by kind and detail, as committed."""
        counts: Counter[tuple[str, str]] = Counter()
        for shard in self.shards.values():
            counts.update(shard.counters)
        return counts

    def count(self, kind: str, detail: str | None = None) -> int:
        """Return a count over all partitions."""
        return sum(shard.position.count(kind, detail) for shard in self.shards.values())

    def _start(self) -> None:
        self.shards = {}
        for partition in range(self.partitions):
            shard = self.shards[partition] = Shard(
                partition,
                partitions=self.partitions,
                prices=self.prices,
                switches=self.switches,
                retention_ms=self.retention_ms,
                stall_timeout_s=2.0,
                max_run_records=self.max_run_records,
                check=self.check,
            )
            for table in {table for table, of in self.log.changelogs if of == partition}:
                shard.restore(table, list(self._compacted(table, partition).items()))
            shard.start({})
            for topic in INPUTS:
                committed = self.log.offsets.get((topic, partition), 0)
                if shard.position.offsets.get(topic, 0) != committed:
                    msg = f"{topic} partition {partition}: rows and offsets were not committed together"
                    raise AssertionError(msg)

    def _compacted(self, table: str, partition: int) -> dict[bytes, bytes]:
        rows = dict(self.log.changelogs.get((table, partition), ()))
        return {key: value for key, value in rows.items() if value is not None}

    def _feed(self, shard: Shard, topic: str, max_records: int | None) -> int:
        log = self.log.records[topic, shard.partition]
        start = shard.merge.queues[topic].fetched
        end = len(log) if max_records is None else min(len(log), start + max_records)
        shard.merge.feed(topic, log[start:end], start, end, self._asked)
        return end - start

    def _read_prices(self) -> None:
        new = self.log.records[PRICES.name, 0][self._prices_read :]
        self._prices_read += len(new)
        for record, price in zip(
            new, decode_prices([(record.key, record.value) for record in new], self.currency), strict=True
        ):
            if isinstance(price, Rejected):
                self.prices_refused.append(price)
            else:
                amount = getattr(price, "price", None)
                self.prices.add(price.profile, PriceRecord(record.timestamp, record.offset, amount))


def _written(value: Wire | Mapping[str, Any]) -> bytes:
    return encode(value) if isinstance(value, Wire) else json.dumps(value).encode()


def _org_id(content: bytes | None) -> str:
    org_id = json.loads(content or b"{}").get("org_id")
    if not isinstance(org_id, str):
        msg = "name the partition of a record without an org_id"
        raise TypeError(msg)
    return org_id
