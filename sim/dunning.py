"""What a stand-in Croesus does about orgs whose money is gone: suspend them, and some time later see them pay."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.croesus import Croesus
from sim.records import Record


@dataclass(slots=True)
class Dunning:
    """A policy for `croesus`: an org at or below zero is suspended after one time, pays `top_up` after the other."""

    croesus: Croesus
    top_up: str
    top_up_after_ms: int
    suspend_after_ms: int
    _empty_since: dict[str, int] = field(default_factory=dict)
    _suspended: set[str] = field(default_factory=set)

    def judge(self, now_ms: int) -> Iterator[Record]:
        """Hand out what is due at `now_ms`, in order of org."""
        for org, account in sorted(self.croesus.accounts.items()):
            if account.balance > 0:
                self._empty_since.pop(org, None)
                continue
            empty_ms = now_ms - self._empty_since.setdefault(org, now_ms)
            if empty_ms >= self.top_up_after_ms:
                yield self.croesus.pay_in(now_ms, org, self.top_up)
                if org in self._suspended:
                    self._suspended.remove(org)
                    yield self.croesus.reinstate(now_ms, org)
            elif empty_ms >= self.suspend_after_ms and org not in self._suspended:
                self._suspended.add(org)
                yield self.croesus.suspend(now_ms, org)
