"""Encodes record batches, also invalid ones that no client would write, and sends them."""

from __future__ import annotations

import asyncio
import gzip
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import cramjam
import lz4.frame
from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c, encode_varint
from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterable

_RETRY_S = 0.1

CODECS: dict[str, tuple[int, Any]] = {
    "none": (0, bytes),
    "gzip": (1, gzip.compress),
    "snappy": (2, lambda content: bytes(cramjam.snappy.compress_raw(content))),
    "lz4": (3, lambda content: lz4.frame.compress(content, block_linked=False)),  # as Kafka's own
    "zstd": (4, zstd.compress),
}


class RawRecord(NamedTuple):
    """A record; header names are bytes, and `tail`, if given, replaces the headers."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[bytes | None, bytes | None], ...] = ()
    timestamp_delta: int = 0
    tail: bytes | None = None


def varint(number: int) -> bytes:
    """Return a number as a varint."""
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def nullable(content: bytes | None) -> bytes:
    """Return a key, a value or a part of a header, preceded by its length."""
    return varint(-1) if content is None else varint(len(content)) + content


def encode_record(record: RawRecord, delta: int) -> bytes:
    """Return the bytes of one record."""
    headers = varint(len(record.headers)) + b"".join(nullable(name) + nullable(value) for name, value in record.headers)
    body = b"\0" + varint(record.timestamp_delta) + varint(delta) + nullable(record.key) + nullable(record.value)
    body += headers if record.tail is None else record.tail
    return varint(len(body)) + body


def batch(
    records: Iterable[RawRecord],
    *,
    codec: str = "none",
    base_offset: int = 0,
    timestamp_ms: int = 0,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    payload: bytes | None = None,
    count: int | None = None,
    offsets: int | None = None,
) -> bytes:
    """Return a batch with a correct checksum. `payload`, if given, replaces the compressed records.

    `offsets`: how many it takes, if not one for each of `count`.
    """
    encoded = [encode_record(record, delta) for delta, record in enumerate(records)]
    number, compress = CODECS[codec]
    content = compress(b"".join(encoded)) if payload is None else payload
    count = len(encoded) if count is None else count
    last = (count if offsets is None else offsets) - 1
    body = struct.pack(">hiqqqhii", attributes | number, last, timestamp_ms, timestamp_ms, *producer, count)
    body += content
    return struct.pack(">qiibI", base_offset, len(body) + 9, -1, 2, calc_crc32c(body)) + body


async def send_batch(bootstrap: str, topic: str, partition: int, content: bytes) -> int:
    """Send a batch unchanged; returns the offset of its first record. Raises the broker's error."""
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    request = ProduceRequest(
        transactional_id=None, required_acks=-1, timeout=10_000, topics=[(topic, [(partition, content)])]
    )
    try:
        while True:
            await client.set_topics([topic])
            await client.force_metadata_update()
            node = client.cluster.leader_for_partition(TopicPartition(topic, partition))
            if node is not None and node >= 0:
                response = await client.send(node, request)
                ((_, ((_, code, offset, *_),)),) = response.topics
                if not code:
                    return int(offset)
                if not for_code(code).retriable:
                    raise for_code(code)
            await asyncio.sleep(_RETRY_S)
    finally:
        await client.close()
