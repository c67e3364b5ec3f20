"""The org determines the partition, as Kafka's default partitioner does."""

import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from topics.partitioner import partition_of

# Signed 32-bit values from the tests of Kafka's Java client.
JAVA = [
    ("21", -973_932_308),
    ("foobar", -790_332_482),
    ("a-little-bit-long-string", -985_981_536),
    ("a-little-bit-longer-string", -1_486_304_829),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
    ("abc", 479_470_107),
]


@pytest.mark.parametrize(("text", "signed"), JAVA)
def test_murmur2_equals_that_of_the_java_client(text: str, signed: int) -> None:
    assert murmur2(text.encode()) & 0xFFFFFFFF == signed & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("org_id", "partitions", "partition"),
    # (h & 0x7fffffff) % n: -973932308 & 0x7fffffff = 1173551340; -790332482 → 1357151166; 479470107 stays.
    [("21", 8, 1_173_551_340 % 8), ("foobar", 1_000, 166), ("abc", 10, 7), ("abc", 1, 0)],
)
def test_partitions(org_id: str, partitions: int, partition: int) -> None:
    assert partition_of(org_id, partitions) == partition


@given(st.text(), st.integers(1, 1_000))
def test_the_partition_is_in_range(org_id: str, partitions: int) -> None:
    assert 0 <= partition_of(org_id, partitions) < partitions
