"""An event queue that merges the records of many actors by time."""

import heapq
import itertools
from collections.abc import Iterator
from typing import TypeAlias

from sim.records import Record

Actor: TypeAlias = Iterator[Record]
"""The records of one actor, in order of time. The next record is generated when the previous one has been yielded."""


class Agenda:
    """Actors by name. Adding an actor under an existing name replaces the previous one."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, str, Record]] = []
        self._actors: dict[str, tuple[int, Actor]] = {}
        self._tokens = itertools.count()
        self._sequence = itertools.count()

    def add(self, name: str, actor: Actor) -> None:
        """Add `actor` under `name`."""
        token = next(self._tokens)
        self._actors[name] = (token, actor)
        self._push_next(name, token, actor)

    def cancel(self, name: str) -> None:
        """Remove the actor `name`, if there is one. It yields no more records."""
        self._actors.pop(name, None)

    def until(self, end_ms: int) -> Iterator[Record]:
        """Yield every record before `end_ms`, in order of time; at equal times, in the order of generation."""
        while self._heap and self._heap[0][0] < end_ms:
            _, _, token, name, record = heapq.heappop(self._heap)
            current = self._actors.get(name)
            if current is None or current[0] != token:
                continue
            yield record
            # The caller may have removed or replaced this actor.
            if self._actors.get(name) is current:
                self._push_next(name, token, current[1])

    def _push_next(self, name: str, token: int, actor: Actor) -> None:
        record = next(actor, None)
        if record is None:
            self._actors.pop(name, None)
        else:
            heapq.heappush(self._heap, (record.timestamp_ms, next(self._sequence), token, name, record))
