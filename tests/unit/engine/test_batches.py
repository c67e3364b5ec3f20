"""Records out of the bytes of a fetch response."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import lz4.frame
import pytest
from aiokafka import TopicPartition
from aiokafka.record.control_record import ABORT_MARKER
from backports import zstd

from streams.engine.batches import MAX_IDLE_PIECES, MAX_TAKE_BYTES, FetchedRecords
from streams.engine.decompress import MAX_RECORD_BYTES, PIECE_BYTES
from streams.engine.headers import MAX_HEADERS_BYTES
from streams.engine.merge import Unreadable
from tests.support.raw_batches import CODECS, RawRecord, batch, encode_record, varint

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPRESSED = [codec for codec in CODECS if codec != "none"]
NOT_UTF8 = b"\xff\xfe"
MIB = 1024 * 1024
PLACE = TopicPartition("t", 3)
TRANSACTIONAL, CONTROL, APPEND_TIME = 0x10, 0x20, 0x08
KEPT = 65_537


def fetched(content: bytes, position: int = 0, *, aborted: Any = (), **options: bool) -> FetchedRecords:
    return FetchedRecords(PLACE, content, aborted, position, **{"contiguous": True, **options})


def all_of(records: FetchedRecords, max_records: int | None = None) -> list[Any]:
    """Return all records, with as many calls of `take` as needed."""
    found = []
    while not records.is_done:
        found += records.take(max_records)
    return found


def values(content: bytes, position: int = 0, **options: Any) -> list[bytes | None]:
    return [record.value for record in all_of(fetched(content, position, **options))]


def flipped(content: bytes, at: int, bit: int = 1) -> bytes:
    return content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_read_as_they_were_written(codec: str) -> None:
    records = [
        RawRecord(b"one", b"key", ((b"name", b"value"), (b"null", None)), timestamp_delta=7),
        RawRecord(None),
        RawRecord(b""),
    ]
    content = batch(records, codec=codec, base_offset=40, timestamp_ms=1_000)
    first, second, third = all_of(reader := fetched(content, 40))
    assert (first.topic, first.partition, first.offset, first.timestamp) == ("t", 3, 40, 1_007)
    assert (first.key, first.value, first.headers) == (b"key", b"one", (("name", b"value"), ("null", None)))
    assert (second.offset, second.key, second.value, second.headers) == (41, None, None, ())
    assert (third.offset, third.value) == (42, b"")
    assert (reader.position, reader.damage) == (43, None)


@pytest.mark.parametrize("codec", CODECS)
def test_reading_continues_in_the_middle_of_a_batch(codec: str) -> None:
    content = batch([RawRecord(b"%d" % number) for number in range(5)], codec=codec, base_offset=10)
    assert values(content, 13) == [b"3", b"4"]


def test_batches_follow_each_other_and_the_last_one_may_be_cut_off() -> None:
    content = b"".join(batch([RawRecord(b"%d" % at)], base_offset=at) for at in range(3))
    reader = fetched(content[:-1])
    assert [record.value for record in all_of(reader)] == [b"0", b"1"]
    assert (reader.position, reader.damage) == (2, None)


def test_records_of_a_log_append_time_batch_have_its_timestamp() -> None:
    content = batch([RawRecord(b"x", timestamp_delta=5)], timestamp_ms=900, attributes=APPEND_TIME)
    assert [record.timestamp for record in all_of(fetched(content))] == [900]


def marker(offset: int, producer_id: int, *, abort: bool) -> bytes:
    key = struct.pack(">HH", ABORT_MARKER.version, ABORT_MARKER.type_ if abort else 1)
    return batch(
        [RawRecord(b"\0" * 6, key)],
        base_offset=offset,
        attributes=TRANSACTIONAL | CONTROL,
        producer=(producer_id, 0, -1),
    )


def test_markers_and_aborted_transactions_are_left_out() -> None:
    def of(producer_id: int, offset: int) -> bytes:
        return batch(
            [RawRecord(b"%d" % offset)],
            base_offset=offset,
            attributes=TRANSACTIONAL,
            producer=(producer_id, 0, 0),
        )

    content = of(7, 0) + of(8, 1) + marker(2, 7, abort=True) + marker(3, 8, abort=False) + of(7, 4)
    content += marker(5, 7, abort=False)
    reader = fetched(content, aborted=[(7, 0)])
    assert [record.value for record in all_of(reader)] == [b"1", b"4"]
    assert reader.position == 6


# What can't be read


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("bad", "headers"),
    [
        (RawRecord(b"v", b"k", ((NOT_UTF8, b"1"), (b"good", b"2"))), (("good", b"2"),)),
        (RawRecord(b"v", b"k", ((None, b"1"), (b"good", b"2"))), (("good", b"2"),)),
        (RawRecord(b"v", b"k", tail=b""), ()),
        (RawRecord(b"v", b"k", tail=varint(-5)), ()),
        (RawRecord(b"v", b"k", tail=varint(2) + varint(1) + b"n"), ()),
        (RawRecord(b"v", b"k", tail=varint(1) + varint(1_000_000) + b"n"), ()),
        (RawRecord(b"v", b"k", tail=b"\xff" * 11), ()),
        (RawRecord(b"v", b"k", tail=varint(0) + b"more"), ()),
    ],
    ids=["not UTF-8", "null name", "no headers", "negative count", "no value", "too long a name", "no number", "more"],
)
def test_a_record_with_invalid_headers_is_read_without_them(codec: str, bad: RawRecord, headers: Any) -> None:
    content = batch([RawRecord(b"before"), bad, RawRecord(b"after")], codec=codec)
    before, record, after = all_of(reader := fetched(content))
    assert (before.value, after.value) == (b"before", b"after")
    assert (record.offset, record.key, record.value, record.headers) == (1, b"k", b"v", headers)
    assert reader.damage is None


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"\0" + varint(0) + varint(1) + varint(-1) + varint(99), "a field claims to have 99 bytes"),
        (b"\0" + varint(0) + varint(1) + varint(50), "a field claims to have 50 bytes"),
        (b"\0" + varint(0) + varint(77) + varint(-1) + varint(-1), "it claims offset 77"),
        (b"\0" + b"\xff" * 10 + b"\1", "a number has too many bytes"),
        (b"", "a number is cut off"),
    ],
    ids=["value", "key", "offset", "number", "empty"],
)
def test_a_record_that_can_t_be_read_does_not_affect_others(codec: str, body: bytes, error: str) -> None:
    records = (encode_record(RawRecord(b"before"), 0), varint(len(body)) + body, encode_record(RawRecord(b"after"), 2))
    payload = CODECS[codec][1](b"".join(records))
    before, bad, after = all_of(reader := fetched(batch([], codec=codec, payload=payload, count=3)))
    assert (before.value, after.value, after.offset) == (b"before", b"after", 2)
    assert isinstance(bad, Unreadable)
    assert (bad.topic, bad.partition, bad.offset, bad.reason) == ("t", 3, 1, "undecodable")
    assert bad.error == f"the record can't be read: {error}"
    assert (reader.position, reader.damage) == (3, None)


@pytest.mark.parametrize("codec", CODECS)
def test_a_truncated_batch_is_read_up_to_its_end(codec: str) -> None:
    good = encode_record(RawRecord(b"good"), 0)
    for rest in (b"", varint(-7), varint(500) + b"\0"):
        content = batch([], codec=codec, payload=CODECS[codec][1](good + rest), count=4, base_offset=20)
        first, bad = all_of(reader := fetched(content + batch([RawRecord(b"next")], base_offset=24), 20))[:2]
        assert first.value == b"good"
        assert (bad.offset, bad.reason, bad.key, bad.value) == (21, "undecodable", None, None)
        assert bad.error.startswith("the records with offsets 21 to 23 can't be read: ")
        assert (reader.position, reader.damage) == (25, None)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_payload_that_can_t_be_decompressed_is_an_unreadable_record(codec: str) -> None:
    whole = CODECS[codec][1](encode_record(RawRecord(b"a" * 500), 0) * 3)
    for payload in (b"", b"no such format", whole[: len(whole) // 2]):
        content = batch([], codec=codec, payload=payload, count=3) + batch([RawRecord(b"next")], base_offset=3)
        *bad, after = all_of(reader := fetched(content))
        assert [(record.offset, record.reason) for record in bad] == [(0, "undecodable")]
        assert "offsets 0 to 2" in bad[0].error
        assert (after.value, reader.damage) == (b"next", None)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_without_records_is_read_past(codec: str) -> None:
    content = batch([], codec=codec, offsets=3) + batch([RawRecord(b"next")], base_offset=3)
    (after,) = all_of(reader := fetched(content))
    assert (after.value, reader.position, reader.damage) == (b"next", 4, None)


def test_streams_of_several_members_are_read() -> None:
    one, two = encode_record(RawRecord(b"one"), 0), encode_record(RawRecord(b"two"), 1)
    cut = (one + two)[:5], (one + two)[5:]
    for codec, compress in (("gzip", gzip.compress), ("zstd", zstd.compress), ("lz4", lz4.frame.compress)):
        payload = b"".join(map(compress, cut))
        assert values(batch([], codec=codec, payload=payload, count=2)) == [b"one", b"two"], codec


# Bounds


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_large_record_is_unreadable_and_its_neighbours_are_read(codec: str) -> None:
    size = 3 * MIB
    content = batch([RawRecord(b"before"), RawRecord(bytes(size), b"k"), RawRecord(b"after")], codec=codec)
    before, large, after = all_of(fetched(content))
    assert (before.value, after.value) == (b"before", b"after")
    error = f"the value has {size} bytes, over 65536"
    assert isinstance(large, Unreadable)
    assert (large.offset, large.reason, large.error, large.truncated) == (1, "too_large", error, True)
    assert (large.key, large.value) == (b"k", bytes(KEPT))


def test_a_large_record_is_read_where_only_its_headers_are_large() -> None:
    record = RawRecord(b"value", b"key", ((b"n", bytes(2 * MIB)), (b"m", b"")))
    (found,) = all_of(fetched(batch([record], codec="gzip")))
    assert (found.key, found.value, found.headers) == (b"key", b"value", ())


@pytest.mark.parametrize(("key", "value"), [(70_000, 5), (2 * MIB, 5), (2 * MIB, 2 * MIB)])
def test_a_large_key_makes_a_large_record(key: int, value: int) -> None:
    record = RawRecord(bytes(value), bytes(key), ((b"n", bytes(MIB)),))
    (found,) = all_of(fetched(batch([record], codec="gzip")))
    assert isinstance(found, Unreadable)
    assert (found.reason, found.key) == ("too_large", bytes(KEPT))
    assert found.error.startswith("the record has ")


def test_a_record_at_the_limit_is_read_in_full() -> None:
    # attributes, two deltas, no key, no headers: a byte each; three for the length of the value
    value_bytes = MAX_RECORD_BYTES - 8
    for more, is_large in ((0, False), (1, True)):
        (found,) = all_of(fetched(batch([RawRecord(bytes(value_bytes + more))], codec="gzip")))
        assert isinstance(found, Unreadable) is is_large


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_memory_does_not_grow_with_what_is_decompressed(codec: str) -> None:
    # 100 MB of one record, and then 100 MB of small ones.
    large = batch([RawRecord(bytes(100_000_000)), RawRecord(b"after")], codec=codec)
    small = batch((RawRecord(bytes(50_000)) for _ in range(2_000)), codec=codec, base_offset=2)
    reader = fetched(large + small)
    del large, small
    tracemalloc.start()
    try:
        count = 0
        while not reader.is_done:
            count += len(reader.take())
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (count, reader.position) == (2_002, 2_002)
    assert peak_bytes < 8 * MIB


def test_a_wide_zstd_window_is_read_as_far_as_its_decoder_may_grow() -> None:
    compressor = zstd.ZstdCompressor(level=22)  # of unknown size, so with a window of 128 MiB
    records = [RawRecord(b"%06d" % number + bytes(99_994)) for number in range(200)]
    encoded = [encode_record(record, delta) for delta, record in enumerate(records)]
    payload = b"".join(map(compressor.compress, encoded)) + compressor.flush()
    found = all_of(fetched(batch([], codec="zstd", payload=payload, count=200)))
    assert len(found) < 100
    assert [int(record.value[:6]) for record in found[:-1]] == list(range(len(found) - 1))
    assert found[-1].error.endswith("produce with a compression level of at most 19")
    assert values(batch([], codec="zstd", payload=payload, count=50)) == [record.value for record in records[:50]]


def test_records_are_taken_up_to_a_size_and_up_to_a_number() -> None:
    reader = fetched(batch([RawRecord(bytes(MAX_TAKE_BYTES // 2))] * 5))
    assert [len(reader.take()) for _ in range(3)] == [2, 2, 1]
    reader = fetched(batch([RawRecord(b"x")] * 5))
    assert [len(reader.take(2)) for _ in range(3)] == [2, 2, 1]
    assert reader.position == 5


def test_take_returns_after_a_few_pieces_without_a_record() -> None:
    records = [RawRecord(bytes(3 * MAX_IDLE_PIECES * PIECE_BYTES)), RawRecord(b"after")]
    reader = fetched(batch(records, codec="gzip"))
    assert len(reader.take()) == 1
    assert reader.take() == []
    assert (reader.is_done, reader.position) == (False, 1)
    assert [record.value for record in all_of(reader)] == [b"after"]


def test_many_headers_are_not_kept() -> None:
    at_bound = ((b"n" * 4, bytes(MAX_HEADERS_BYTES - 4)),)
    cases = [
        (at_bound, 1),
        ((*at_bound, (b"m", None)), 0),
        (((b"", None),) * 1_000, 1_000),
        (((b"", None),) * 1_001, 0),
        (((("é" * 8_193).encode(), b""),), 0),
        (((b"n", bytes(MAX_HEADERS_BYTES)), (b"obol-producer", b"p")), 1),
    ]
    for headers, kept in cases:
        (found,) = all_of(fetched(batch([RawRecord(b"v", headers=headers)])))
        assert len(found.headers) == kept


# Damage


def damaged(content: bytes, position: int = 0, **options: Any) -> Iterator[Any]:
    reader = fetched(content, position, **options)
    yield [record.value for record in all_of(reader)]
    assert reader.damage is not None
    assert reader.damage.offset == reader.position
    yield reader.damage.offset, reader.damage.reason


def test_a_flipped_bit_is_damage_wherever_it_is() -> None:
    first, second = batch([RawRecord(b"1")]), batch([RawRecord(b"2"), RawRecord(b"3")], base_offset=1)
    third = batch([RawRecord(b"4")], base_offset=3)
    for at in range(len(second)):
        if 12 <= at < 16:
            continue  # the epoch of the partition's leader, which is not read
        for bit in (1, 0x80):
            reader = fetched(first + flipped(second, at, bit) + third)
            found = [record.value for record in all_of(reader)]
            # A batch whose length was increased looks truncated; it is then fetched alone.
            if reader.damage is None:
                reader = fetched(flipped(second, at, bit), 1, starts_batch=True)
                assert all_of(reader) == []
            assert found == [b"1"], at
            assert reader.damage is not None
            assert reader.damage.offset == 1, at


def test_damage_is_named() -> None:
    good, bad = batch([RawRecord(b"1")]), batch([RawRecord(b"2")], base_offset=1)
    cases = [
        (flipped(bad, 63), "the checksum of the batch with offsets 1 to 1 is wrong"),
        (flipped(bad, 16), "the batch there has format 3; only 2 can be read"),
        (batch([RawRecord(b"2")], base_offset=9), "the log has a batch with offsets 9 to 9 there"),
        (batch([RawRecord(b"2")], base_offset=0), "the log has a batch with offsets 0 to 0 there"),
        (
            batch([RawRecord(b"2")], base_offset=1, attributes=5),
            "the batch there is compressed with codec 5, which is not known",
        ),
        (b"\0" * 30, "the batch there claims to have 12 bytes"),
        (b"\0" * 8 + struct.pack(">i", 40) + bytes(40), "the batch there has format 0; only 2 can be read"),
        (b"\0" * 8 + struct.pack(">ib", -3, 0), "the batch there claims to have 9 bytes"),
    ]
    for content, reason in cases:
        assert list(damaged(good + content)) == [[b"1"], (1, reason)]
    assert list(damaged(good[:-1]))[1] == (
        0,
        f"the batch there claims to have more than the {len(good) - 1} bytes that are stored",
    )


def test_a_compacted_topic_may_miss_offsets() -> None:
    content = batch([RawRecord(b"1")], base_offset=5) + batch([RawRecord(b"2")], base_offset=9)
    assert values(content, 0, contiguous=False) == [b"1", b"2"]
    assert (
        list(
            damaged(batch([RawRecord(b"1")], base_offset=5) + batch([RawRecord(b"2")], base_offset=3), contiguous=False)
        )[1][0]
        == 6
    )
