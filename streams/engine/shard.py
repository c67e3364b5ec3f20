"""The state machine of one partition: applies records in order, and collects what to commit. It does no I/O."""

import logging
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, cast

import msgspec

from schemas.clock import Tick
from schemas.dead_letters import MAX_DEAD_LETTER_BYTES, DeadLetter
from schemas.heartbeats import Heartbeat
from schemas.times import is_time
from streams.billing.prices import Prices
from streams.billing.usage import Charge, encode_usage
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
from streams.rules.decision import Decision, LogLine
from streams.rules.rows import EventMemory, row_key
from streams.rules.store import NEVER, RowStore
from streams.rules.tick import is_void
from topics.catalogue import CLOCK, DEAD_LETTERS, HEARTBEATS, INBOUND, PRICES, TOPICS, USAGE
from topics.codec import Rejected, decode, decode_batch, encode
from topics.glance import glance
from topics.partitioner import partition_of

__all__ = ["INPUTS", "Commit", "Outgoing", "Phase", "Shard", "ShardError"]

INPUTS: Final = tuple(spec.name for spec in INBOUND if spec is not PRICES)
"""The topics whose records a shard applies, in order of rank."""

MAX_RUN_RECORDS: Final = 1_000
"""A run is applied as a whole, so a commit can come at the earliest after this many records."""

MAX_UNCOMMITTED: Final = 50_000
"""The most changed rows, charges and messages before a commit; only a single record, such as a tick, may add more."""

MAX_UNCOMMITTED_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of dead letters and rerouted records before a commit: those may be large."""

MAX_REROUTED_KEY_BYTES: Final = 512 * 1024
"""A misplaced record with a larger key might be too large to be published again: it becomes a dead letter."""

ROWS_PER_STEP: Final = 1_000
"""So many restored rows are decoded before other tasks run: this takes a few milliseconds."""

_NOT_APPLIED_KINDS: Final = frozenset({"ignored", "duplicate"})

log = logging.getLogger(__name__)


class ShardError(RuntimeError):
    """A record could not be applied because of an error in Obol. Nothing of it may be committed."""


class Phase(StrEnum):
    """The phase of a shard."""

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
    """The content of one transaction: rows, messages and input offsets.

    `rows`: by table, in the order in which they are written; None removes the row. `offsets`: by topic, the next offset
    of the topics that were read further. `changelogs`: by table, the changelog's end offset after this transaction.
    """

    partition: int
    rows: dict[str, list[tuple[bytes, bytes | None]]] = field(default_factory=dict)
    outputs: list[Outgoing] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    log_lines: list[LogLine] = field(default_factory=list)
    changelogs: dict[str, int] = field(default_factory=dict)

    def messages(self) -> Iterator[Outgoing]:
        """Yield every message, usage events last."""
        yield from self.outputs
        for key, value, timestamp in self.usage():
            yield Outgoing(USAGE.name, self.partition, key, value, timestamp)

    def usage(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield key, value and timestamp of every usage event. Each is encoded when needed: there may be millions."""
        org_id, key = "", b""
        for (window, _, _, timestamp), value in zip(self.charges, encode_usage(self.charges), strict=True):
            if window.org_id is not org_id:
                org_id, key = window.org_id, window.org_id.encode()
            yield key, value, timestamp


class Shard:
    """One partition: its rows, its position in its inputs, and its uncommitted changes.

    `partitions`: the number of the installation's partitions; `stall_timeout_s` as in `Merge`; the retentions as in
    `RowStore`. `stamp` adds the worker's values to a position before each commit. `refusal`: why a topic refuses its
    commits, else None. `restored_rows` of `restore_total` (None: not yet known) changelog records were read, and
    `decoded_rows` of them decoded. `counters`: the position's counts as of the last commit, by kind and detail.
    `check`: whether the debug check runs.
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
        check: bool = ENABLED,
    ) -> None:
        self.partition = partition
        self.partitions = partitions
        self.store = RowStore(retention_ms, id_retention_ms)
        self.accountant = Accountant(self.store, prices, switches)
        self._check = RowCheck(self.store) if check else None
        self.merge = Merge(
            # A tick may take long, so each is a run.
            [(spec.name, spec.rank or 0, 1 if spec is CLOCK else max_run_records) for spec in INBOUND],
            stall_timeout_s=stall_timeout_s,
        )
        self.position = Position()
        self.phase = Phase.RESTORING
        self.stamp: Callable[[Position], None] = lambda _: None
        self.refusal: str | None = None
        self.restored_rows = 0
        self.decoded_rows = 0
        self.restore_total: int | None = None
        self.counters: dict[tuple[str, str], int] = {}
        self._reader = RowReader()
        self._encoded = _no_rows()
        self._decision = Decision()
        self._outgoing: list[Outgoing] = []
        self._outgoing_bytes = 0

    # Rows

    def restore(self, table: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Keep records of a changelog, encoded; `decode_rows` or `start` decodes the last record of each row.

        Raises `msgspec.MsgspecError` for an invalid position.
        """
        self.restored_rows += len(records)
        if table == positions.TABLE:
            if records:
                value = records[-1][1]
                self.position = Position() if value is None else _in_range(decode_position(value))
            return
        if self._check is not None:
            for key, value in records:
                self._check.restored(table, key, value)
        encoded = self._encoded[table]
        if all(value is not None for _, value in records):
            encoded.update(cast("Sequence[tuple[bytes, bytes]]", records))
            return
        for key, value in records:
            if value is None:
                encoded.pop(key, None)
                self.store.restore_removed(table, *self._reader.split(key))
            else:
                encoded[key] = value

    def decode_rows(self) -> Iterator[None]:
        """Decode the restored rows; yields from time to time, so that other tasks can run.

        Raises `AccidentError` for an invalid row, a row of a newer format, and a row of another partition.
        """
        for table, encoded in self._encoded.items():
            for number, key in enumerate(list(encoded), 1):
                value = encoded.pop(key, None)
                if value is None:
                    continue  # removed since, or decoded for a later assignment
                try:
                    self._restore_row(table, key, value)
                except (UnicodeDecodeError, msgspec.MsgspecError) as error:
                    name = key.decode(errors="replace")
                    msg = f"the row {name!r} of {table}, partition {self.partition}, can't be restored: {error}"
                    raise AccidentError(Accident.UNREADABLE_ROW, msg) from error
                self.decoded_rows += 1
                if number % ROWS_PER_STEP == 0:
                    yield

    def _restore_row(self, table: str, key: bytes, value: bytes) -> None:
        if table == EventMemory.TABLE:
            event = self._reader.read_event(key, value)
            self._check_home(event[0], table, key)
            self.store.restore_event(*event)
            return
        row = self._reader.read(table, key, value)
        self._check_home(row.org_id, table, key)
        self.store.restore(row)

    def _check_home(self, org_id: str, table: str, key: bytes) -> None:
        if org_id in self.store.orgs or (home := partition_of(org_id, self.partitions)) == self.partition:
            return
        msg = (
            f"the row {key.decode()!r} of {table} is in partition {self.partition}, but belongs in partition {home} of "
            f"{self.partitions}: the rows were written under another number of partitions, or moved by other means"
        )
        raise AccidentError(Accident.MISPLACED_ROW, msg)

    def start(self, beginnings: Mapping[str, int]) -> None:
        """Start applying records to the restored rows. `beginnings`: the beginning offset of each input, if not 0.

        Records that were deleted before they were read are logged as an error, and counted as `lost`. Decodes the rows
        that are left. Raises `ShardError`, and `AccidentError` as `decode_rows` does.
        """
        if self.uncommitted:
            msg = f"partition {self.partition} starts with work that is not committed"
            raise ShardError(msg)
        for _ in self.decode_rows():
            pass
        # An emptied dict keeps its memory.
        self._encoded = _no_rows()
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
        """Apply nothing more: the partition may be about to be revoked. A restore continues."""
        if self.phase is Phase.WORKING:
            self.phase = Phase.SUSPENDED

    @property
    def as_of(self) -> int | None:
        """The greatest timestamp applied, in ms; None before any."""
        return self.position.as_of if self.position.as_of >= 0 else None

    @property
    def ready(self) -> bool:
        """Whether all rows are restored."""
        return self.phase is not Phase.RESTORING

    @property
    def blocked(self) -> str | None:
        """Why nothing more is applied or committed, although there are more records; else None."""
        if self.refusal is not None or self.merge.blocked is None:
            return self.refusal
        topic, damage = self.merge.blocked
        where = f"{topic} partition {0 if topic == PRICES.name else self.partition}"
        return f"{where} can't be read at offset {damage.offset}: {damage.reason}"

    @property
    def lag_records(self) -> int | None:
        """The number of offsets of its inputs that are not applied yet; None while restoring."""
        return self.merge.lag_records if self.ready else None

    @property
    def lag_ms(self) -> int | None:
        """How far `as_of` is behind the newest queued record; None while restoring, or before any record was read."""
        newest, as_of = self.merge.newest, self.as_of
        if not self.ready or as_of is None:
            return None
        return 0 if newest is None else max(0, newest - as_of)

    # Records

    def advance(self, now_s: float, max_records: int) -> int:
        """Apply queued records in runs, until `max_records` or more are applied; returns how many were applied.

        `now_s`: seconds of any monotonic clock, for the stall timeouts. Raises `ShardError`.
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
        """Whether nothing more may be applied before a commit."""
        return self.uncommitted >= MAX_UNCOMMITTED or self._outgoing_bytes >= MAX_UNCOMMITTED_BYTES

    @property
    def uncommitted(self) -> int:
        """The number of changed rows, charges and messages that are not committed."""
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
        not_applied_before, dead_or_rerouted_before = self._not_applied(), self._dead_or_rerouted()
        if topic == HEARTBEATS.name and batch.plain:
            self._apply_heartbeats(batch, run.start, run.end)
        else:
            for at in range(run.start, run.end):
                self._apply_one(topic, batch, at)
        position = self.position
        if topic == CLOCK.name and _is_void_tick(batch, run.start):
            # A void tick does not change the topic's time (contract, `obol.clock`).
            self.merge.queues[topic].time = position.times.get(topic, NEVER)
        if batch.has_time:
            position.times[topic] = self.merge.queues[topic].time
            position.as_of = self.merge.as_of
        position.latest_tick = self.store.latest_tick
        count = run.end - run.start
        not_applied = self._not_applied() - not_applied_before + self._dead_or_rerouted() - dead_or_rerouted_before
        position.add("read", topic, count)
        position.add("applied", topic, count - not_applied)
        position.add("out_of_order", topic, run.late)

    def _not_applied(self) -> int:
        return sum(count for (kind, _), count in self._decision.counts.items() if kind in _NOT_APPLIED_KINDS)

    def _dead_or_rerouted(self) -> int:
        return self.position.count("dead") + self.position.count("rerouted")

    def _decode(self, topic: str, batch: Batch) -> None:
        values = [record.value for record in batch.records]
        orgs = self.store.orgs
        if topic == HEARTBEATS.name and batch.has_time and Unreadable not in set(map(type, batch.records)):
            found = glance(values)
            if found is not None and {item.org_id for item in found} <= orgs.keys():
                batch.items, batch.plain = found, True
                return
        batch.items = decode_batch(TOPICS[topic], values)
        for at, record in enumerate(batch.records):
            if isinstance(record, Unreadable):
                batch.items[at] = Rejected(reason=record.reason, error=record.error)
        if topic == HEARTBEATS.name:
            batch.plain = batch.has_time and all(
                type(item) is Heartbeat
                and (item.org_id in orgs or partition_of(item.org_id, self.partitions) == self.partition)
                for item in batch.items
            )

    def _apply_heartbeats(self, batch: Batch, start: int, end: int) -> None:
        topic, items = HEARTBEATS.name, batch.items or []
        heartbeats = items[start:end]
        try:
            unknown = self.accountant.heartbeats(heartbeats, batch.times[start:end], self._decision)
        except Exception as error:
            first, last = batch.records[start].offset, batch.records[end - 1].offset
            msg = f"{topic} partition {self.partition}, offsets {first} to {last}: {error!r}"
            raise ShardError(msg) from error
        for at in unknown:
            # The model validates the ids.
            items[start + at] = decode(HEARTBEATS, batch.records[start + at].value)
            self._apply_one(topic, batch, start + at)
        if self._check is not None:
            self._check.after_record({heartbeat.org_id for heartbeat in heartbeats})

    def _apply_one(self, topic: str, batch: Batch, at: int) -> None:
        record, item = batch.records[at], (batch.items or [])[at]
        org_id = None if topic == CLOCK.name else item.org_id
        if not batch.has_time and not (isinstance(item, Rejected) and item.reason != "invalid"):
            error_text = f"the record's timestamp, {record.timestamp} ms, is outside the years 1970 to 9999"
            self._send_dead_letter(topic, record, "invalid", error_text)
            return
        if org_id is not None and (home := partition_of(org_id, self.partitions)) != self.partition:
            self._reroute(topic, record, home)
            return
        if isinstance(item, Rejected) and (item.reason != "invalid" or item.command_id is None):
            self._send_dead_letter(topic, record, item.reason, item.error)
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
            self._send_dead_letter(topic, record, dead.reason, dead.error)
        if self._check is not None:
            self._check.after_record(None if org_id is None else [org_id])

    def _reroute(self, topic: str, record: Record, home: int) -> None:
        """Publish a misplaced record again, in its org's partition (contract, "Conventions")."""
        if len(record.key or b"") > MAX_REROUTED_KEY_BYTES:
            error_text = f"it belongs in partition {home}, but its key has {len(record.key or b'')} bytes"
            self._send_dead_letter(topic, record, "too_large", f"{error_text}, over {MAX_REROUTED_KEY_BYTES}")
            return
        headers = tuple(header for header in kept(record.headers) if header[0] != REROUTED)
        headers += ((REROUTED, f"{self.partition}:{record.offset}".encode()),)
        self._send_out(Outgoing(topic, home, record.key, record.value, record.timestamp, headers))
        self.position.add("rerouted", topic)

    def _send_dead_letter(self, topic: str, record: Record, reason: Any, error_text: str) -> None:
        key, key_cut = _base64(record.key)
        value, value_cut = _base64(record.value)
        letter = DeadLetter(
            reason=reason,
            error=error_text,
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

    # Commits

    def _new_offsets(self) -> dict[str, int]:
        """Return the next offset of each topic that was read or applied further since the last commit."""
        offsets = self.position.offsets
        return {
            topic: self.merge.queues[topic].next_offset
            for topic in INPUTS
            if self.merge.queues[topic].next_offset > offsets.get(topic, 0)
        }

    @property
    def has_moved(self) -> bool:
        """Whether an input was read and applied further than at the last commit."""
        return bool(self._new_offsets())

    def drain(self, ends: Mapping[str, int] | None = None) -> Commit | None:
        """Return everything to be committed since the last call; None when there is nothing.

        `ends`: by table, the changelog's end offset before this commit.
        """
        offsets = self._new_offsets()
        if not offsets:
            return None
        self.position.offsets.update(offsets)
        decision, outgoing = self._decision, self._outgoing
        self._decision, self._outgoing, self._outgoing_bytes = Decision(), [], 0
        for (kind, detail), count in decision.counts.items():
            self.position.add(kind, detail, count)
        for meter, count in Counter(charge[0].meter for charge in decision.charges).items():
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
            offsets=offsets,
            log_lines=decision.log_lines,
            changelogs=self.position.changelogs,
        )

    def _take_rows(self) -> dict[str, list[tuple[bytes, bytes | None]]]:
        """Return the encoded rows that were changed or removed since the last commit, by table."""
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
    """Remove times that an earlier version took from timestamps out of range."""
    if not is_time(position.as_of):
        position.times = {topic: time for topic, time in position.times.items() if is_time(time)}
        position.as_of = max(position.times.values(), default=NEVER)
    return position


def _no_rows() -> dict[str, dict[bytes, bytes]]:
    return {table: {} for table in TYPES}


def _base64(content: bytes | None) -> tuple[str | None, bool]:
    """Return at most 64 KiB of a key or value in base64, and whether it was truncated."""
    if content is None:
        return None, False
    return b64encode(content[:MAX_DEAD_LETTER_BYTES]).decode(), len(content) > MAX_DEAD_LETTER_BYTES
