"""The stand-in Croesus's treatment of orgs with a balance of 0 or less: suspension, then a payment."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.croesus import Croesus
from sim.records import Record


@dataclass(slots=True)
class Dunning:
    """Suspends an org that has had no balance for `suspend_after_ms`; after `top_up_after_ms` it pays `top_up`."""

    croesus: Croesus
    top_up: str
    top_up_after_ms: int
    suspend_after_ms: int
    _empty_since: dict[str, int] = field(default_factory=dict)
    _suspended: set[str] = field(default_factory=set)

    def due(self, now_ms: int) -> Iterator[Record]:
        """Yield the records that are due at `now_ms`, ordered by org."""
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
