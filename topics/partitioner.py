"""The partitioner: the org determines the partition (contract, "Conventions")."""

from functools import lru_cache
from typing import Final

from aiokafka.partitioner import murmur2

_SIGN_BIT_OFF: Final = 0x7FFFFFFF


@lru_cache(maxsize=131_072)
def partition_of(org_id: str, partitions: int) -> int:
    """Return the partition of `org_id`: murmur2 of its UTF-8 bytes, like Kafka's default partitioner for a key."""
    return (int(murmur2(org_id.encode())) & _SIGN_BIT_OFF) % partitions
