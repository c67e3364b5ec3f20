"""The comparison of what two programs did finds every difference."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from bench.work import Work, difference, work

MINUTE_1, MINUTE_2 = "2026-11-30T12:01:00.000Z", "2026-11-30T12:02:00.000Z"
DONE = Work(2, 4, {MINUTE_1: 2, MINUTE_2: 2})


class Topics:
    """A cluster with a changelog and a topic of usage events, in one partition."""

    def __init__(self, changelog: Sequence[tuple[bytes, bytes | None]], usage: Sequence[tuple[str, str]]) -> None:
        events = [
            json.dumps({"id": "x", "replica_id": replica, "interval_end": end}).encode() for replica, end in usage
        ]
        self._topics: dict[str, list[Any]] = {"rows": list(changelog), "usage": [(b"o", event) for event in events]}

    async def read(self, topic: str, _partitions: int, starts: Sequence[int] | None = None) -> AsyncIterator[Any]:
        for record in self._topics[topic][starts[0] if starts else 0 :]:
            yield record


async def test_live_rows_and_billed_replicas_are_counted() -> None:
    # Two rows are live: a was written twice, and c deleted. Replica a was billed twice up to the second minute.
    topics = Topics(
        [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"c", None)],
        [("a", MINUTE_1), ("b", MINUTE_1), ("a", MINUTE_2), ("a", MINUTE_2)],
    )
    assert await work(topics, "rows", "usage") == Work(2, 4, {MINUTE_1: 2, MINUTE_2: 1})  # type: ignore[arg-type]
    assert await work(topics, "rows", "usage", [2]) == Work(2, 2, {MINUTE_2: 1})  # type: ignore[arg-type]


def test_equal_work_has_no_difference() -> None:
    assert difference(DONE, Work(2, 4, {MINUTE_2: 2, MINUTE_1: 2})) is None


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (Work(3, 4, DONE.billed), "2 rows and 3 rows"),
        (Work(2, 5, DONE.billed), "4 usage events and 5 usage events"),
        (Work(2, 4, {MINUTE_1: 2, MINUTE_2: 1}), f"2 replicas and 1 replicas billed up to {MINUTE_2}"),
        (Work(2, 4, {MINUTE_2: 2}), f"2 replicas and 0 replicas billed up to {MINUTE_1}"),
    ],
)
def test_every_difference_is_found(other: Work, found: str) -> None:
    assert difference(DONE, other) == found
