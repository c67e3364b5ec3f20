"""Transactions of other programs: while one is open in an input, nothing after its first record can be read."""

import logging
from collections.abc import Mapping
from typing import Final

from streams.engine.ports import Admin, TopicPartition

UNDECIDED_S: Final = 15.0
"""How long a worker waits at its start for the end of an open transaction in the prices. Most end within a second;
that of a killed producer is aborted at its timeout, and its prices are void."""

log = logging.getLogger(__name__)


class OpenTransactions:
    """Finds the inputs in which a transaction stays open from one check to the next.

    `lines`: a message for each of their partitions.
    """

    def __init__(self, admin: Admin) -> None:
        self.lines: list[str] = []
        self._admin = admin
        self._read: Mapping[TopicPartition, int] = {}

    async def check(self, read: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        """Find such partitions, and log changes. Raises `KafkaError`.

        `read`: the offset up to which each partition was read; `ends`: their end offsets, requested after that.
        """
        still = {
            partition: offset
            for partition, offset in read.items()
            if self._read.get(partition) == offset < ends[partition]
        }
        self._read = dict(read)
        stable = await self._admin.stable_offsets(still) if still else {}
        found = [
            open_transaction(partition, offset)
            for partition, offset in sorted(still.items())
            if stable[partition] == offset
        ]
        for line in found:
            if line not in self.lines:
                log.error("%s", line)
        if self.lines and not found:
            log.info("no open transaction blocks an input any more")
        self.lines = found


def open_transaction(partition: TopicPartition, offset: int) -> str:
    """Return the message about a transaction that is open since `offset` of a partition."""
    name, number = partition
    return (
        f"{name} partition {number}: a transaction of another program is open since offset {offset}, and nothing after "
        "that can be read until it ends; find its producer, or have the broker abort it (kafka-transactions.sh --abort "
        f"--topic {name} --partition {number} --start-offset {offset}), or wait for its transaction.timeout.ms"
    )
