"""Decodes the records of a fetch response as aiokafka does, but in bounded memory, and for any content.

aiokafka decompresses a batch at once, however large that makes it, and raises for a record that it can't read; after
that it reads nothing of the partition. Here a batch is decompressed piece by piece, a record that is too large or
can't be read is an `Unreadable` among the others, and a batch that is not as it was written is a `Damage`.

The format: https://kafka.apache.org/documentation/#recordbatch
"""

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, Literal

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch

from schemas.base import MAX_VALUE_BYTES
from streams.engine.decompress import CODECS, MAX_RECORD_BYTES, CutOffError, LargeRecord, Part, split, varint
from streams.engine.headers import Header, kept
from streams.engine.merge import Damage, Unreadable

MAX_TAKE_BYTES: Final = 1024 * 1024
"""Of records that are taken at a time; the last may exceed it."""

MAX_IDLE_PIECES: Final = 16
"""So many pieces without a record are decompressed at a time: the thread also sends the group's heartbeats."""

_RECORD_BYTES: Final = 100
"""What a record counts besides its key and value."""

_KEPT_BYTES: Final = MAX_VALUE_BYTES + 1
"""So much is kept of the key and the value of a large record: one byte more than a dead letter shows."""

_headers_of: Final = attrgetter("headers")
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_LENGTH_AT: Final = 8
_AFTER_LENGTH: Final = 12
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 21
_COUNT_AT: Final = 57
_HEADER_BYTES: Final = 61
_CODEC_BITS: Final = 0b111
_FORMAT: Final = 2


class _DamagedError(Exception):
    """The bytes are not those that were written, or are in a format that is not known."""


class FetchedRecords:
    """The records of one partition in a fetch response.

    `position`: the offset of the next record. `is_done`: nothing is left. `damage`: what is at `position`, where that
    can't be read. `starts_batch`: a batch begins at the first `position`. `contiguous`: the topic is not compacted, so
    no offset may be missing. `bare`: records without their topic and partition, which takes less time.
    """

    def __init__(
        self,
        partition: TopicPartition,
        content: bytes,
        aborted: Sequence[tuple[int, int]] | None,
        position: int,
        *,
        starts_batch: bool = False,
        contiguous: bool = False,
        bare: bool = False,
    ) -> None:
        self.position = position
        self.is_done = False
        self.damage: Damage | None = None
        self._partition = partition
        self._content = content
        self._aborted = deque(sorted(aborted or (), key=lambda transaction: transaction[1]))
        self._aborting: set[int] = set()
        self._contiguous = contiguous
        self._bare = bare
        self._end = position if starts_batch else 0
        self._chunk: list[Any] = []
        self._chunks = self._read()

    def take(self, max_records: int | None = None) -> list[Any]:
        """Return the next records; none does not mean that none is left.

        Each has the attributes of `merge.Record`. One that can't be read, or is too large, is an `Unreadable`.
        """
        taken: list[Any] = []
        size_bytes = idle_pieces = 0
        while len(taken) != max_records and size_bytes < MAX_TAKE_BYTES and idle_pieces < MAX_IDLE_PIECES:
            try:
                chunk = self._chunk or next(self._chunks)
            except StopIteration:
                self.is_done = True
                break
            idle_pieces += not chunk
            count, chunk_bytes = _fitting(chunk, MAX_TAKE_BYTES - size_bytes)
            if max_records is not None:
                count = min(count, max_records - len(taken))
            taken += chunk[:count]
            size_bytes += chunk_bytes
            self._chunk = chunk[count:]
            if count:
                self.position = taken[-1].offset + 1
        return taken

    def _read(self) -> Iterator[list[Any]]:
        """Yield records in lists, an empty one after a piece in which none ends."""
        try:
            for content in self._batches():
                yield from self._read_batch(content)
        except _DamagedError as error:
            self.damage = Damage(self.position, str(error))
        except Exception as error:  # noqa: BLE001 - this partition can't be read on; the others can
            self.damage = Damage(self.position, f"what is there can't be read: {error!r}")

    def _batches(self) -> Iterator[bytes]:
        """Split the response; its last batch may be cut off."""
        content, at = self._content, 0
        while at + _AFTER_LENGTH <= len(content):
            size = _AFTER_LENGTH + _INT32.unpack_from(content, at + _LENGTH_AT)[0]
            if at + size > len(content):
                break
            if size > _MAGIC_AT and content[at + _MAGIC_AT] != _FORMAT:
                raise _DamagedError(f"the batch there has format {content[at + _MAGIC_AT]}; only {_FORMAT} can be read")
            if size < _HEADER_BYTES:
                raise _DamagedError(f"the batch there claims to have {size} bytes")
            yield content[at : at + size]
            at += size
        if at == 0 and content:
            raise _DamagedError(f"the batch there claims to have more than the {len(content)} bytes that are stored")

    def _read_batch(self, content: bytes) -> Iterator[list[Any]]:
        batch = DefaultRecordBatch(content)
        if not batch.validate_crc():
            raise _DamagedError(f"the checksum of the batch with {_offsets(batch)} is wrong")
        is_out_of_place = batch.base_offset < self._end or batch.next_offset <= self.position
        if is_out_of_place or (self._contiguous and batch.base_offset > self.position):
            raise _DamagedError(f"the log has a batch with {_offsets(batch)} there")
        if not self._is_left_out(batch):
            if batch.compression_type == 0:
                yield _from(self._read_plain(content, batch, batch.base_offset), self.position)
            else:
                for records in self._read_compressed(content, batch):
                    yield _from(records, self.position)
        self.position = self._end = batch.next_offset

    def _is_left_out(self, batch: Any) -> bool:
        """Whether a batch is a marker, or of an aborted transaction."""
        while self._aborted and self._aborted[0][1] <= batch.base_offset:
            self._aborting.add(self._aborted.popleft()[0])
        if batch.is_control_batch:
            if ControlRecord.parse(next(iter(batch)).key) == ABORT_MARKER:
                self._aborting.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborting

    def _read_plain(self, content: bytes, batch: Any, due: int) -> list[Any]:
        """Read a batch that is not compressed. `due`: the expected offset of its first record."""
        try:
            records = list(batch)
        except Exception:  # noqa: BLE001 - the error does not name the record
            return list(self._read_each(content, batch, due))
        if self._bare and not any(map(_headers_of, records)):
            return records
        return [self._consumer_record(record) for record in records]

    def _consumer_record(self, record: Any) -> ConsumerRecord:
        key, value, headers = record.key, record.value, record.headers
        return ConsumerRecord(
            *(*self._partition, record.offset, record.timestamp, record.timestamp_type, key, value, None),
            *(-1 if key is None else len(key), -1 if value is None else len(value), kept(headers) if headers else ()),
        )

    def _read_compressed(self, content: bytes, batch: Any) -> Iterator[list[Any]]:
        codec, due = batch.compression_type, batch.base_offset
        if codec not in CODECS:
            raise _DamagedError(f"the batch there is compressed with codec {codec}, which is not known")
        for part in split(content[_HEADER_BYTES:], codec, _count(content)):
            if part is None:
                records = []
            elif isinstance(part, Part):
                plain = _plain(content, part)
                records = self._read_plain(plain, DefaultRecordBatch(plain), due)
            elif isinstance(part, LargeRecord):
                records = [self._read_one(part.start, part.size_bytes, batch, due)]
            else:
                records = [self._rest(part.error, batch, due)]
            if records:
                due = records[-1].offset + 1
            yield records

    def _read_each(self, content: bytes, batch: Any, due: int) -> Iterator[Any]:
        """Read the records of a batch each on its own, as far as that is possible."""
        at = _HEADER_BYTES
        for _ in range(_count(content)):
            try:
                size_bytes, start = varint(content, at)
                at = start + size_bytes
                if size_bytes < 0 or at > len(content):
                    raise CutOffError(f"a record claims to have {size_bytes} bytes")
            except ValueError as error:
                yield self._rest(str(error), batch, due)
                return
            record = self._read_one(content[start:at], size_bytes, batch, due)
            due = record.offset + 1
            yield record

    def _read_one(self, content: bytes, size_bytes: int, batch: Any, due: int) -> Any:
        """Read a record of `size_bytes`, of which `content` is all, or what a large one begins with."""
        is_whole = len(content) == size_bytes
        topic, partition = self._partition
        offset, timestamp = due, batch.max_timestamp
        key = value = None
        value_bytes = -1
        reason: Literal["too_large", "undecodable"] = "too_large"
        try:
            delta, at = varint(content, 1)
            if not batch.timestamp_type:
                timestamp = batch.first_timestamp + delta
            delta, at = varint(content, at)
            if not due <= batch.base_offset + delta < batch.next_offset:
                raise ValueError(f"it claims offset {batch.base_offset + delta}")  # noqa: TRY301 - as what is no number
            offset = batch.base_offset + delta
            key, key_bytes, at = _nullable(content, at, is_whole=is_whole)
            value, value_bytes, at = _nullable(content, at, is_whole=is_whole)
            if is_whole or (len(key or b"") == max(key_bytes, 0) and len(value or b"") == max(value_bytes, 0)):
                return ConsumerRecord(
                    *(topic, partition, offset, timestamp, batch.timestamp_type, key, value, None),
                    *(key_bytes, value_bytes, kept(_headers(content, at))),
                )
            error = f"the record has {size_bytes} bytes, over {MAX_RECORD_BYTES}"
            if value_bytes > MAX_VALUE_BYTES:
                error = f"the value has {value_bytes} bytes, over {MAX_VALUE_BYTES}"
        except CutOffError as cut_off:
            error = f"the record has {size_bytes} bytes, over {MAX_RECORD_BYTES}"
            if is_whole:
                reason, error = "undecodable", f"the record can't be read: {cut_off}"
        except ValueError as wrong:
            reason, error = "undecodable", f"the record can't be read: {wrong}"
        return Unreadable(topic, partition, offset, timestamp, key, value, reason, error, truncated=not is_whole)

    def _rest(self, error: str, batch: Any, due: int) -> Unreadable:
        words = f"the records with offsets {due} to {batch.next_offset - 1} can't be read: {error}"
        topic, partition = self._partition
        return Unreadable(topic, partition, due, batch.max_timestamp, None, None, "undecodable", words)


def _fitting(records: list[Any], room_bytes: int) -> tuple[int, int]:
    """Return how many of `records` to take for `room_bytes`, the last of which may exceed them, and their size."""
    sizes = [len(record.value or b"") + len(record.key or b"") + _RECORD_BYTES for record in records]
    size_bytes = sum(sizes)
    if size_bytes <= room_bytes:
        return len(records), size_bytes
    size_bytes = count = 0
    while size_bytes < room_bytes:
        size_bytes += sizes[count]
        count += 1
    return count, size_bytes


def _from(records: list[Any], position: int) -> list[Any]:
    """Return the records from `position` on, in the order of their offsets."""
    offsets = [record.offset for record in records]
    if not offsets or (offsets[0] >= position and offsets == [*range(offsets[0], offsets[0] + len(offsets))]):
        return records
    rising = []
    for record in records:
        if record.offset >= position:
            rising.append(record)
            position = record.offset + 1
    return rising


def _offsets(batch: Any) -> str:
    return f"offsets {batch.base_offset} to {batch.next_offset - 1}"


def _count(content: bytes) -> int:
    count: int = _INT32.unpack_from(content, _COUNT_AT)[0]
    return count


def _plain(content: bytes, part: Part) -> bytes:
    """Return a batch with a part of the records of the compressed batch `content`. Its checksum is not right."""
    header = bytearray(content[:_HEADER_BYTES])
    _INT32.pack_into(header, _LENGTH_AT, _HEADER_BYTES - _AFTER_LENGTH + len(part.content))
    attributes = _INT16.unpack_from(header, _ATTRIBUTES_AT)[0]
    _INT16.pack_into(header, _ATTRIBUTES_AT, attributes & ~_CODEC_BITS)
    _INT32.pack_into(header, _COUNT_AT, part.records)
    return bytes(header) + part.content


def _nullable(content: bytes, at: int, *, is_whole: bool) -> tuple[bytes | None, int, int]:
    """Read a key or a value: its bytes, of a large record no more than are kept; its size; where it ends."""
    size_bytes, at = varint(content, at)
    if size_bytes < 0:
        return None, -1, at
    end = at + size_bytes
    if is_whole and end > len(content):
        raise CutOffError(f"a field claims to have {size_bytes} bytes")
    return content[at : end if is_whole else min(end, at + _KEPT_BYTES)], size_bytes, end


def _headers(content: bytes, at: int) -> Iterator[Header]:
    """Read headers, up to where that can't be done; those whose name is not UTF-8 are left out."""
    try:
        count, at = varint(content, at)
        for _ in range(count):
            name, _, at = _nullable(content, at, is_whole=True)
            value, _, at = _nullable(content, at, is_whole=True)
            if name is not None and _is_utf8(name):
                yield name.decode(), value
    except ValueError:
        return


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
