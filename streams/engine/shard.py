"""One partition at work: records in, in their order, through the rules; a commit out. No Kafka here."""

import logging
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from schemas.clock import Tick
from schemas.dead_letters import MAX_DEAD_LETTER_BYTES, DeadLetter
from schemas.heartbeats import Heartbeat
from schemas.times import is_time
from streams.billing.prices import Prices
from streams.billing.usage import encode_usage
from streams.billing.windows import Origin
from streams.engine import position as positions
from streams.engine.changelogs import ends_after
from streams.engine.check import ENABLED, RowCheck
from streams.engine.fatal import Accident, AccidentError
from streams.engine.headers import REROUTED, Header, kept
from streams.engine.merge import Batch, Merge, Record, Run, Unreadable
from streams.engine.position import Position, decode_position, encode_position
from streams.engine.rowcodec import TYPES, RowReader, encode_row
from streams.limits import DAY_MS
from streams.rules.accountant import Accountant
from streams.rules.context import Switches
from streams.rules.decision import Charge, Decision, LogLine
from streams.rules.rows import row_key
from streams.rules.store import NEVER, RowStore
from streams.rules.tick import is_void
from topics.catalogue import CLOCK, DEAD_LETTERS, HEARTBEATS, INBOUND, PRICES, TOPICS, USAGE
from topics.codec import Rejected, decode_batch, encode
from topics.partitioner import partition_of

__all__ = ["INPUTS", "Commit", "Outgoing", "Phase", "Shard", "ShardError"]

INPUTS: Final = tuple(spec.name for spec in INBOUND if spec is not PRICES)
"""The topics whose records a shard applies, in order of rank."""

MAX_RUN_RECORDS: Final = 1_000
"""A run is applied in one go, so this is also how closely a commit can follow."""

MAX_UNCOMMITTED: Final = 50_000
"""Changed rows, charges and messages that may wait for a commit; only a single record, as a tick, may make more."""

MAX_UNCOMMITTED_BYTES: Final = 32 * 1024 * 1024
"""Of dead letters and of records on their way to another partition: those may be large."""

MAX_REROUTED_KEY_BYTES: Final = 512 * 1024
"""A misplaced record whose key has more might be too large to be published again, so it is dead: `too_large`."""

ROWS_AT_A_STRETCH: Final = 1_000
"""So many restored rows are read before others get a turn: a few milliseconds."""

_PASSED_OVER: Final = frozenset({"ignored", "duplicate"})

log = logging.getLogger(__name__)


class ShardError(RuntimeError):
    """A record could not be applied for a fault of ours; the message names it. Nothing of it may be committed."""


class Phase(StrEnum):
    """What a shard is doing."""

    RESTORING = "restoring"
    WORKING = "working"
    SUSPENDED = "suspended"


class Outgoing(NamedTuple):
    """A message of a commit. `topic` is without namespace; `timestamp` in ms."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[Header, ...] = ()


@dataclass(slots=True)
class Commit:
    """What goes to Kafka as one transaction: rows, messages, and how far each input was read.

    `rows`: by table, in the order in which they are to be written; None removes the row. `offsets`: by topic, the next
    offset, of those topics that have moved. `changelogs`: by table, where its changelog ends after this transaction.
    """

    partition: int
    rows: dict[str, list[tuple[bytes, bytes | None]]] = field(default_factory=dict)
    outputs: list[Outgoing] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    log_lines: list[LogLine] = field(default_factory=list)
    changelogs: dict[str, int] = field(default_factory=dict)

    def messages(self) -> Iterator[Outgoing]:
        """Give every message, usage events last."""
        yield from self.outputs
        for key, value, timestamp in self.usage():
            yield Outgoing(USAGE.name, self.partition, key, value, timestamp)

    def usage(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Give key, value and timestamp of every usage event, written when asked for: there may be millions."""
        org_id, key = "", b""
        for window, start_ms, end_ms, timestamp in self.charges:
            if window.org_id is not org_id:
                org_id, key = window.org_id, window.org_id.encode()
            yield key, encode_usage(window, start_ms, end_ms), timestamp


class Shard:
    """One partition: its rows, its place in its inputs, and what waits to be committed.

    `partitions` is how many the installation has; `stall_timeout_s` as in `Merge`; the retentions as in `RowStore`.
    `stamp` adds to a position what its worker knows, before each commit. `refusal`: why its commits wait; None: they
    do not. `restored_rows` of `restore_total` (None: not yet known) changelog records were read back, and
    `unpacked_rows` rows made of them. `counters`: the position's counts as of the last commit, by kind and detail.
    """

    def __init__(  # noqa: PLR0913 - each decides one thing
        self,
        partition: int,
        *,
        partitions: int,
        prices: Prices,
        switches: Switches,
        retention_ms: int,
        id_retention_ms: int = 400 * DAY_MS,
        stall_timeout_s: float,
        max_run_records: int = MAX_RUN_RECORDS,
    ) -> None:
        self.partition = partition
        self.partitions = partitions
        self.store = RowStore(retention_ms, id_retention_ms)
        self.accountant = Accountant(self.store, prices, switches)
        self._check = RowCheck(self.store) if ENABLED else None
        self.merge = Merge(
            # A tick may be much work, so each is a run.
            [(spec.name, spec.rank or 0, 1 if spec is CLOCK else max_run_records) for spec in INBOUND],
            stall_timeout_s=stall_timeout_s,
        )
        self.position = Position()
        self.phase = Phase.RESTORING
        self.stamp: Callable[[Position], None] = lambda _: None
        self.refusal: str | None = None
        self.restored_rows = 0
        self.unpacked_rows = 0
        self.restore_total: int | None = None
        self.counters: dict[tuple[str, str], int] = {}
        self._reader = RowReader()
        self._packed = _nothing_packed()
        self._decision = Decision()
        self._outgoing: list[Outgoing] = []
        self._outgoing_bytes = 0

    # Rows

    def restore(self, table: str, key: bytes, value: bytes | None) -> None:
        """Take one record of a changelog; `unpack` or `start` must follow, for only the last of a row is read.

        Raises `msgspec.MsgspecError` for what is no position.
        """
        self.restored_rows += 1
        if self._check is not None and table != positions.TABLE:
            self._check.restored(table, key, value)
        if table == positions.TABLE:
            self.position = Position() if value is None else _in_range(decode_position(value))
        elif value is None:
            self._packed[table].pop(key, None)
            self.store.restore_removed(table, *self._reader.split(key))
        else:
            self._packed[table][key] = value

    def unpack(self) -> Iterator[None]:
        """Make rows of what was restored, giving way after every few.

        Raises `AccidentError` for what is no row, for a row of a newer format, and for one of another partition.
        """
        for table, packed in self._packed.items():
            for number, key in enumerate(list(packed), 1):
                value = packed.pop(key, None)
                if value is None:
                    continue  # removed since, or unpacked for an assignment that has overtaken this one
                try:
                    self._check_home(table, key)
                    self.store.restore(self._reader.read(table, key, value))
                except (UnicodeDecodeError, msgspec.MsgspecError) as error:
                    row = key.decode(errors="replace")
                    msg = f"the row {row!r} of {table}, partition {self.partition}, can't be restored: {error}"
                    raise AccidentError(Accident.UNREADABLE_ROW, msg) from error
                self.unpacked_rows += 1
                if number % ROWS_AT_A_STRETCH == 0:
                    yield

    def _check_home(self, table: str, key: bytes) -> None:
        org_id, _ = self._reader.split(key)
        if org_id in self.store.orgs or (home := partition_of(org_id, self.partitions)) == self.partition:
            return
        msg = (
            f"the row {key.decode()!r} of {table} is in partition {self.partition}, but belongs in partition {home} of "
            f"{self.partitions}: the rows were written under another number of partitions, or moved by other means"
        )
        raise AccidentError(Accident.MISPLACED_ROW, msg)

    def start(self, beginnings: Mapping[str, int]) -> None:
        """Work from the rows as they are restored. `beginnings`: where each input's log starts, if not at 0.

        Records that were deleted before they were read are logged as an error, and counted as `lost`. Raises
        `ShardError` and `AccidentError`, as `unpack` does for what it left.
        """
        if self.uncommitted:
            msg = f"partition {self.partition} starts with work that is not committed"
            raise ShardError(msg)
        for _ in self.unpack():
            pass
        # An emptied dict keeps the memory of what was in it.
        self._packed = _nothing_packed()
        offsets = dict(self.position.offsets)
        for topic, beginning in beginnings.items():
            applied_to = offsets.get(topic)
            if applied_to is not None and beginning > applied_to:
                log.error(
                    "%s partition %d: the records from offset %d to %d were deleted before they were read; "
                    "keep them longer than a worker may be down (retention.ms)",
                    *(topic, self.partition, applied_to, beginning - 1),
                )
                self.position.add("lost", topic, beginning - applied_to)
            offsets[topic] = max(beginning, applied_to or 0)
        self.merge.restart(offsets, self.position.times)
        self.store.latest_tick = self.position.latest_tick
        self._reader = RowReader()
        self.counters = self.position.flat_counts()
        self.phase = Phase.WORKING

    def suspend(self) -> None:
        """Apply nothing more, for now: the partition may be about to move. One that is restoring goes on with that."""
        if self.phase is Phase.WORKING:
            self.phase = Phase.SUSPENDED

    @property
    def as_of(self) -> int | None:
        """The greatest time read in order, in ms; None when nothing that has a time was read yet."""
        return self.position.as_of if self.position.as_of >= 0 else None

    @property
    def ready(self) -> bool:
        """Whether the rows are all there."""
        return self.phase is not Phase.RESTORING

    @property
    def blocked(self) -> str | None:
        """Why nothing more is applied or committed, although there is more; else None."""
        if self.refusal is not None or self.merge.blocked is None:
            return self.refusal
        topic, damage = self.merge.blocked
        where = f"{topic} partition {0 if topic == PRICES.name else self.partition}"
        return f"{where} can't be read at offset {damage.offset}: {damage.reason}"

    @property
    def lag_records(self) -> int | None:
        """How many offsets of its inputs are known and not yet applied; None while restoring."""
        return self.merge.lag_records if self.ready else None

    @property
    def lag_ms(self) -> int | None:
        """How far its time is behind the newest record that waits; None while restoring, or before any was read."""
        newest, as_of = self.merge.newest, self.as_of
        if not self.ready or as_of is None:
            return None
        return 0 if newest is None else max(0, newest - as_of)

    # Records in

    def advance(self, now_s: float, max_records: int) -> int:
        """Apply what is queued, as far as it may be applied, to at least `max_records`; returns how many records.

        `now_s`: seconds of any monotonic clock; it measures stall timeouts. Raises `ShardError`.
        """
        applied = 0
        while applied < max_records and not self.is_full and self.phase is Phase.WORKING:
            run = self.merge.next_run(now_s)
            if run is None:
                break
            self._apply(run)
            applied += run.end - run.start
        return applied

    @property
    def is_full(self) -> bool:
        """Whether a commit must come first."""
        return self.uncommitted >= MAX_UNCOMMITTED or self._outgoing_bytes >= MAX_UNCOMMITTED_BYTES

    @property
    def uncommitted(self) -> int:
        """How much waits for a commit."""
        decision, store = self._decision, self.store
        return (
            len(store.changed)
            + len(store.removed)
            + len(decision.charges)
            + len(decision.outputs)
            + len(self._outgoing)
        )

    def _apply(self, run: Run) -> None:
        batch, topic = run.batch, run.topic
        if batch.items is None:
            self._decode(topic, batch)
        passed_over, dead_and_rerouted = self._passed_over(), self._set_aside()
        if topic == HEARTBEATS.name and batch.plain:
            self._apply_heartbeats(batch, run.start, run.end)
        else:
            for at in range(run.start, run.end):
                self._apply_one(topic, batch, at)
        position = self.position
        if topic == CLOCK.name and _is_void_tick(batch, run.start):
            # It moves no time (contract, `obol.clock`).
            self.merge.queues[topic].time = position.times.get(topic, NEVER)
        if batch.has_time:
            position.times[topic] = self.merge.queues[topic].time
            position.as_of = self.merge.as_of
        position.latest_tick = self.store.latest_tick
        count = run.end - run.start
        not_applied = self._passed_over() - passed_over + self._set_aside() - dead_and_rerouted
        position.add("read", topic, count)
        position.add("applied", topic, count - not_applied)
        position.add("out_of_order", topic, run.late)

    def _passed_over(self) -> int:
        return sum(count for (kind, _), count in self._decision.counts.items() if kind in _PASSED_OVER)

    def _set_aside(self) -> int:
        return self.position.count("dead") + self.position.count("rerouted")

    def _decode(self, topic: str, batch: Batch) -> None:
        batch.items = decode_batch(TOPICS[topic], [record.value for record in batch.records])
        for at, record in enumerate(batch.records):
            if isinstance(record, Unreadable):
                batch.items[at] = Rejected(reason=record.reason, error=record.error)
        if topic == HEARTBEATS.name:
            orgs = self.store.orgs
            batch.plain = batch.has_time and all(
                type(item) is Heartbeat
                and (item.org_id in orgs or partition_of(item.org_id, self.partitions) == self.partition)
                for item in batch.items
            )

    def _apply_heartbeats(self, batch: Batch, start: int, end: int) -> None:
        topic = HEARTBEATS.name
        records = batch.records[start:end]
        origins = [Origin(topic, record.offset, record.timestamp) for record in records]
        beats: Sequence[Heartbeat] = (batch.items or [])[start:end]
        try:
            dead = self.accountant.heartbeats(beats, origins, self._decision)
        except Exception as error:
            msg = f"{topic} partition {self.partition}, offsets {records[0].offset} to {records[-1].offset}: {error!r}"
            raise ShardError(msg) from error
        for at, (reason, words) in dead:
            self._bury(topic, records[at], reason, words)
        if self._check is not None:
            self._check.after_record({event.org_id for event in beats})

    def _apply_one(self, topic: str, batch: Batch, at: int) -> None:
        record, item = batch.records[at], (batch.items or [])[at]
        org_id = None if topic == CLOCK.name else item.org_id
        if not batch.has_time and not (isinstance(item, Rejected) and item.reason != "invalid"):
            words = f"the record's timestamp, {record.timestamp} ms, is outside the years 1970 to 9999"
            self._bury(topic, record, "invalid", words)
            return
        if org_id is not None and (home := partition_of(org_id, self.partitions)) != self.partition:
            self._reroute(topic, record, home)
            return
        if isinstance(item, Rejected) and (item.reason != "invalid" or item.command_id is None):
            self._bury(topic, record, item.reason, item.error)
            return
        origin = Origin(topic, record.offset, record.timestamp)
        try:
            if isinstance(item, Rejected):
                dead = None
                self.accountant.refuse(
                    item.command_id or "", org_id or "", item.target, item.error, origin, self._decision
                )
            else:
                dead = self.accountant.apply(item, origin, self._decision)
        except Exception as error:
            msg = f"{topic} partition {self.partition} offset {record.offset}: {error!r}"
            raise ShardError(msg) from error
        if dead is not None:
            self._bury(topic, record, dead.reason, dead.error)
        if self._check is not None:
            self._check.after_record(None if org_id is None else [org_id])

    def _reroute(self, topic: str, record: Record, home: int) -> None:
        """Publish a misplaced record again, in its org's partition (contract, "Conventions")."""
        if len(record.key or b"") > MAX_REROUTED_KEY_BYTES:
            words = f"it belongs in partition {home}, but its key has {len(record.key or b'')} bytes"
            self._bury(topic, record, "too_large", f"{words}, over {MAX_REROUTED_KEY_BYTES}")
            return
        headers = tuple(header for header in kept(record.headers) if header[0] != REROUTED)
        headers += ((REROUTED, f"{self.partition}:{record.offset}".encode()),)
        self._send_out(Outgoing(topic, home, record.key, record.value, record.timestamp, headers))
        self.position.add("rerouted", topic)

    def _bury(self, topic: str, record: Record, reason: Any, words: str) -> None:
        key, key_cut = _base64(record.key)
        value, value_cut = _base64(record.value)
        letter = DeadLetter(
            reason=reason,
            error=words,
            topic=topic,
            partition=self.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            key_base64=key,
            value_base64=value,
            truncated=key_cut or value_cut or (isinstance(record, Unreadable) and record.truncated),
        )
        timestamp = record.timestamp if is_time(record.timestamp) else max(0, self.position.as_of)
        self._send_out(Outgoing(DEAD_LETTERS.name, self.partition, None, encode(letter), timestamp))
        self.position.add("dead", reason)

    def _send_out(self, message: Outgoing) -> None:
        self._outgoing.append(message)
        self._outgoing_bytes += len(message.key or b"") + len(message.value or b"")

    # Commits out

    def _moves(self) -> dict[str, int]:
        """By topic: up to where it was read and applied, if that is further than at the last commit."""
        offsets = self.position.offsets
        return {
            topic: self.merge.queues[topic].next_offset
            for topic in INPUTS
            if self.merge.queues[topic].next_offset > offsets.get(topic, 0)
        }

    def drain(self, ends: Mapping[str, int] | None = None) -> Commit | None:
        """Hand out all that was done since the last time, rows written as they are now; None when that is nothing.

        `ends`: by table, where its changelog ends before this commit.
        """
        moves = self._moves()
        if not moves:
            return None
        self.position.offsets.update(moves)
        decision, outgoing = self._decision, self._outgoing
        self._decision, self._outgoing, self._outgoing_bytes = Decision(), [], 0
        for (kind, detail), count in decision.counts.items():
            self.position.add(kind, detail, count)
        for meter, count in Counter(charge.window.meter for charge in decision.charges).items():
            self.position.add("usage", meter, count)
        self.counters = self.position.flat_counts()
        partition = self.partition
        outputs = [
            Outgoing(
                output.topic,
                partition,
                output.org_id.encode(),
                output.message if isinstance(output.message, bytes) else encode(output.message),
                output.timestamp,
            )
            for output in decision.outputs
        ]
        rows = self._take_rows()
        self.stamp(self.position)
        rows[positions.TABLE] = [(positions.KEY, b"")]
        self.position.changelogs = ends_after(ends or {}, rows)
        rows[positions.TABLE] = [(positions.KEY, encode_position(self.position))]
        return Commit(
            partition,
            rows=rows,
            outputs=outputs + outgoing,
            charges=decision.charges,
            offsets=moves,
            log_lines=decision.log_lines,
            changelogs=self.position.changelogs,
        )

    def _take_rows(self) -> dict[str, list[tuple[bytes, bytes | None]]]:
        """Encode the rows that were changed or removed since the last commit, by table."""
        rows: dict[str, list[tuple[bytes, bytes | None]]] = {table: [] for table in TYPES}
        removed, changed = self.store.take_changes()
        for row in removed:
            rows[row.TABLE].append((row_key(row), None))
        for row in changed:
            rows[row.TABLE].append((row_key(row), encode_row(row)))
        return {table: records for table, records in rows.items() if records}


def _is_void_tick(batch: Batch, at: int) -> bool:
    item = (batch.items or [])[at]
    return isinstance(item, Tick) and is_void(item, batch.times[at])


def _in_range(position: Position) -> Position:
    """Leave out times that an earlier version took from records whose timestamps were out of range."""
    if not is_time(position.as_of):
        position.times = {topic: time for topic, time in position.times.items() if is_time(time)}
        position.as_of = max(position.times.values(), default=NEVER)
    return position


def _nothing_packed() -> dict[str, dict[bytes, bytes]]:
    return {table: {} for table in TYPES}


def _base64(content: bytes | None) -> tuple[str | None, bool]:
    """Write at most 64 KiB of a key or value, and say whether that cut it."""
    if content is None:
        return None, False
    return b64encode(content[:MAX_DEAD_LETTER_BYTES]).decode(), len(content) > MAX_DEAD_LETTER_BYTES
