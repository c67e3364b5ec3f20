"""Where a record belongs: the org decides (contract, "Conventions")."""

from functools import lru_cache
from typing import Final

from aiokafka.partitioner import murmur2

_SIGN_BIT_OFF: Final = 0x7FFFFFFF


@lru_cache(maxsize=131_072)
def partition_of(org_id: str, partitions: int) -> int:
    """Place `org_id`'s records: murmur2 of its UTF-8 bytes, as Kafka's own clients place a keyed record."""
    return (int(murmur2(org_id.encode())) & _SIGN_BIT_OFF) % partitions
