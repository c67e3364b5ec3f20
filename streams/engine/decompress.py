"""The payload of a compressed record batch, decompressed piece by piece and split into records."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import cramjam
from aiokafka.record.util import decode_varint
from backports import zstd
from lz4.frame import LZ4FrameDecompressor

PIECE_BYTES: Final = 256 * 1024
"""So much is decompressed at a time. Of snappy, it is a block, which a producer may make as large as the batch."""

MAX_RECORD_BYTES: Final = 1024 * 1024
"""A record of more bytes than this is not kept as a whole."""

SMALL_BATCH_BYTES: Final = MAX_RECORD_BYTES
"""A batch of up to this is decompressed at once: it can't have a larger record."""

WIDE_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""A zstd decoder keeps its frame's window in memory; a batch with a larger window must be smaller than this."""

_WINDOW_LOG: Final = int(zstd.DecompressionParameter.window_log_max)
_SMALL_WINDOWS: Final = {_WINDOW_LOG: WIDE_WINDOW_BYTES.bit_length() - 1}
_ALL_WINDOWS: Final = {_WINDOW_LOG: 27}
"""What the broker's zstd reads, too."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_SIZE_BYTES: Final = 4
_MAX_SNAPPY_RATIO: Final = 64

_MAX_VARINT_BYTES: Final = 10

_ERRORS: Final = (
    ValueError,
    OSError,
    EOFError,
    RuntimeError,
    MemoryError,
    zlib.error,
    zstd.ZstdError,
    cramjam.DecompressionError,
)
"""What decompressing may raise; lz4 raises a `RuntimeError`."""


class Part(NamedTuple):
    """The bytes of so many whole `records`."""

    content: bytes
    records: int


class LargeRecord(NamedTuple):
    """A record of `size_bytes`, over `MAX_RECORD_BYTES`; `start`: its first bytes."""

    start: bytes
    size_bytes: int


class Rest(NamedTuple):
    """The remaining records can't be read because of `error`."""

    error: str


class CutOffError(ValueError):
    """There are fewer bytes than there should be."""


def split(payload: bytes, codec: int, count: int) -> Iterator[Part | LargeRecord | Rest | None]:
    """Decompress the `count` records of a batch; None for a piece in which no record ends.

    `codec` is one of `CODECS`.
    """
    pieces = CODECS[codec](payload)
    buffer, failure = _beginning(pieces)
    if failure is None and len(buffer) <= SMALL_BATCH_BYTES:
        # Nearly every batch: it need not be searched for where records end.
        yield Part(bytes(buffer), count)
        return
    try:
        yield from _split(buffer, _rest(pieces, failure), count)
    except _ERRORS as error:
        yield Rest(str(error) or repr(error))


def _split(buffer: bytearray, rest: Iterator[bytes], count: int) -> Iterator[Part | LargeRecord | None]:
    """Split the `count` records that `buffer` and then `rest` have, as `split` does. Raises what `rest` does."""
    skip = 0
    while True:
        end, found = _whole_records(buffer, count)
        if found:
            yield Part(bytes(buffer[:end]), found)
            del buffer[:end]
            count -= found
        large = _large_record(buffer) if count else None
        if large is not None:
            at, size_bytes = large
            yield LargeRecord(bytes(buffer[at : at + PIECE_BYTES]), size_bytes)
            count -= 1
            skip = max(0, at + size_bytes - len(buffer))
            del buffer[: at + size_bytes]
        elif not found:
            yield None
        if not count:
            return
        if large is None or not buffer:
            piece = next(rest)
            skipped = min(skip, len(piece))
            skip -= skipped
            buffer += memoryview(piece)[skipped:]


def _rest(pieces: Iterator[bytes], failure: Exception | None) -> Iterator[bytes]:
    """Yield the pieces that are left; raises `failure`, or `CutOffError` after the last one."""
    if failure is not None:
        raise failure
    yield from pieces
    raise CutOffError("the batch ends early")


def _beginning(pieces: Iterator[bytes]) -> tuple[bytearray, Exception | None]:
    """Decompress up to the end, or until there are more than `SMALL_BATCH_BYTES`; returns what failed, too."""
    buffer = bytearray()
    try:
        for piece in pieces:
            buffer += piece
            if len(buffer) > SMALL_BATCH_BYTES:
                break
    except _ERRORS as error:
        return buffer, error
    return buffer, None


def varint(content: Any, at: int) -> tuple[int, int]:
    """Decode a varint; returns it, and its end. Raises `CutOffError`, or `ValueError` for an invalid one."""
    raw = 0
    for place in range(_MAX_VARINT_BYTES):
        if at + place >= len(content):
            raise CutOffError("a number is cut off")
        byte = content[at + place]
        raw |= (byte & 0x7F) << (7 * place)
        if byte <= 0x7F:  # noqa: PLR2004 - a set bit says that more follow
            return (raw >> 1) ^ -(raw & 1), at + place + 1
    raise ValueError("a number has too many bytes")


def _whole_records(buffer: bytearray, most: int) -> tuple[int, int]:
    """Return where the last whole record of `buffer` ends, and how many there are: `most` at most.

    Raises `ValueError`.
    """
    at = found = 0
    size = len(buffer)
    while found < most and at < size:
        try:
            # aiokafka's is faster, but reads beyond the end.
            length, start = (decode_varint if size - at >= _MAX_VARINT_BYTES else varint)(buffer, at)
        except CutOffError:
            break
        if length < 0 and not found:
            raise ValueError(f"a record claims to have {length} bytes")
        if length < 0 or length > MAX_RECORD_BYTES or start + length > size:
            break
        at = start + length
        found += 1
    return at, found


def _large_record(buffer: bytearray) -> tuple[int, int] | None:
    """Return where the large record begins with which `buffer` starts, and its size; None where it is no large one."""
    if len(buffer) < PIECE_BYTES:
        return None
    size_bytes, at = varint(buffer, 0)
    return (at, size_bytes) if size_bytes > MAX_RECORD_BYTES else None


def _gzip(payload: bytes) -> Iterator[bytes]:
    while payload:
        decoder = zlib.decompressobj(wbits=31)
        while not decoder.eof:
            piece = decoder.decompress(payload, PIECE_BYTES)
            payload = decoder.unconsumed_tail
            if piece:
                yield piece
            elif not payload and not decoder.eof:
                raise CutOffError("the gzip stream ends early")
        payload = decoder.unused_data


def _frames(new_decoder: Callable[[], Any], payload: bytes) -> Iterator[bytes]:
    while payload:
        decoder = new_decoder()
        piece = decoder.decompress(payload, PIECE_BYTES)
        yield piece
        while not decoder.eof:
            if decoder.needs_input:
                raise CutOffError("the last frame ends early")
            yield decoder.decompress(b"", PIECE_BYTES)
        payload = decoder.unused_data


def _lz4(payload: bytes) -> Iterator[bytes]:
    return _frames(LZ4FrameDecompressor, payload)


def _zstd(payload: bytes) -> Iterator[bytes]:
    started = False
    try:
        for piece in _frames(lambda: zstd.ZstdDecompressor(options=_SMALL_WINDOWS), payload):
            started = True
            yield piece
    except zstd.ZstdError:
        if started:
            raise
    else:
        return
    size_bytes = 0
    for piece in _frames(lambda: zstd.ZstdDecompressor(options=_ALL_WINDOWS), payload):
        size_bytes += len(piece)
        if size_bytes > WIDE_WINDOW_BYTES:
            raise ValueError(
                f"its zstd window is over {WIDE_WINDOW_BYTES} bytes, and so is the batch; "
                "produce with a compression level of at most 19"
            )
        yield piece


def _snappy(payload: bytes) -> Iterator[bytes]:
    if not payload.startswith(_XERIAL_MAGIC):
        yield _snappy_block(payload)
        return
    at = _XERIAL_HEADER_BYTES
    while at < len(payload):
        start = at + _BLOCK_SIZE_BYTES
        at = start + int.from_bytes(payload[at:start], "big", signed=True)
        if at <= start or at > len(payload):
            raise CutOffError("a snappy block ends early")
        yield _snappy_block(payload[start:at])


def _snappy_block(block: bytes) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > len(block) * _MAX_SNAPPY_RATIO:
        raise ValueError("a snappy block claims to be larger than it can be")
    return bytes(cramjam.snappy.decompress_raw(block))


CODECS: Final[dict[int, Callable[[bytes], Iterator[bytes]]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
"""By codec, the number in a batch's attributes."""
