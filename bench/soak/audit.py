"""Compares usage events with what every window must have been billed: each of its milliseconds once, without gaps.

The replicas are those of `bench.fleet`, each with one window that is open from its start to the end of the run. It
takes eight bytes of memory per replica.
"""

from array import array
from dataclasses import dataclass
from typing import Final

from bench.sizes import REPLICAS_PER_DEPLOYMENT
from streams.limits import MINUTE_MS

_NOT_OPENED: Final = -1
_NUMBER_AT: Final = len("dep-")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an audit: counts of usage events.

    `wrong`: those of other replicas or of more than a clock minute, and replicas that did not start.
    """

    events: int
    expected: int
    lost: int
    doubled: int
    wrong: int

    @property
    def is_exact(self) -> bool:
        """Whether every usage event was sent exactly once, and no other."""
        return self.events == self.expected and not self.lost and not self.doubled and not self.wrong


def pieces(start_ms: int, end_ms: int) -> int:
    """Return the number of clock minutes that [start, end) touches, that is, of its usage events (B4)."""
    return -(-end_ms // MINUTE_MS) - start_ms // MINUTE_MS if start_ms < end_ms else 0


def replica_index(replica_id: str) -> int:
    """Return the position of a replica in the fleet, from an id like `dep-000012-r7`. Raises `ValueError`."""
    deployment, _, number = replica_id[_NUMBER_AT:].partition("-r")
    return int(deployment) * REPLICAS_PER_DEPLOYMENT + int(number) - 1


class Audit:
    """The audit of a fleet of `replicas` replicas. Each window's usage events must be passed in their order."""

    def __init__(self, replicas: int) -> None:
        self.events = 0
        self.lost = 0
        self.doubled = 0
        self.wrong = 0
        self._expected = 0
        self._next_ms = array("q", [_NOT_OPENED]) * replicas

    def opened(self, replica_id: str, at_ms: int) -> None:
        """Note when a replica's window opened."""
        self._next_ms[replica_index(replica_id)] = at_ms

    def event(self, replica_id: str, start_ms: int, end_ms: int) -> None:
        """Compare a usage event with the end of the window's last one."""
        self.events += 1
        index = replica_index(replica_id)
        expected_ms = self._next_ms[index] if index < len(self._next_ms) else _NOT_OPENED
        if expected_ms == _NOT_OPENED or end_ms <= start_ms or pieces(start_ms, end_ms) != 1:
            self.wrong += 1
        elif start_ms < expected_ms:
            self.doubled += 1
        else:
            self.lost += pieces(expected_ms, start_ms)
            self._expected += pieces(expected_ms, start_ms) + 1
            self._next_ms[index] = end_ms

    def finish(self, until_ms: int) -> Verdict:
        """Return the result, when every window must have been billed up to `until_ms`. Call it once.

        If some were billed beyond it, by a later tick, all must have been.
        """
        until_ms = max(until_ms, *self._next_ms)
        for next_ms in self._next_ms:
            if next_ms == _NOT_OPENED:
                self.wrong += 1
            else:
                self.lost += pieces(next_ms, until_ms)
                self._expected += pieces(next_ms, until_ms)
        return Verdict(self.events, self._expected, self.lost, self.doubled, self.wrong)
