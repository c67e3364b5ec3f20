"""What is to happen next: many lives, told one record ahead, merged by time."""

import heapq
import itertools
from collections.abc import Iterator
from typing import TypeAlias

from sim.records import Record

Life: TypeAlias = Iterator[Record]
"""The records of one actor, in order of time. It is asked for the next only when the last has been handed out."""


class Agenda:
    """Lives under a name each; adding a life under a taken name ends the one before."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, str, Record]] = []
        self._lives: dict[str, tuple[int, Life]] = {}
        self._tokens = itertools.count()
        self._sequence = itertools.count()

    def add(self, name: str, life: Life) -> None:
        """Let `life` go on from here under `name`."""
        token = next(self._tokens)
        self._lives[name] = (token, life)
        self._ask(name, token, life)

    def cancel(self, name: str) -> None:
        """End the life under `name`; nothing of it that is not handed out yet will be."""
        self._lives.pop(name, None)

    def until(self, end_ms: int) -> Iterator[Record]:
        """Hand out every record before `end_ms`, in order of time; equal times in the order they were asked for."""
        while self._heap and self._heap[0][0] < end_ms:
            _, _, token, name, record = heapq.heappop(self._heap)
            current = self._lives.get(name)
            if current is None or current[0] != token:
                continue
            yield record
            # Whoever took the record may have ended this life or begun another under its name.
            if self._lives.get(name) is current:
                self._ask(name, token, current[1])

    def _ask(self, name: str, token: int, life: Life) -> None:
        record = next(life, None)
        if record is None:
            self._lives.pop(name, None)
        else:
            heapq.heappush(self._heap, (record.timestamp_ms, next(self._sequence), token, name, record))
