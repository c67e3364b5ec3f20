"""A stand-in for Croesus: it publishes prices, balances and suspensions, and books each usage event once, exactly.

An amount is `price per hour * quantity * duration`. The ledger adds up `price * quantity * ms`, which is exact, and
divides by an hour only where a figure is shown or sent.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from schemas.times import parse_rfc3339
from schemas.usage import Usage
from sim.records import HOUR_MS, Record, balance, price, reinstated, suspended

Verdict: TypeAlias = Literal["booked", "duplicate", "conflict", "unpriced"]
"""The result of a usage event: new · same id and content · same id, different content · no price was ever published."""

_EXACT: Final = Context(prec=60)
_PLACES: Final = Decimal("0.000001")


class PriceHistory:
    """All published prices. The price at a time is the last one not after it (contract, `croesus.prices`)."""

    def __init__(self) -> None:
        self._times: dict[str, list[int]] = defaultdict(list)
        self._prices: dict[str, list[Decimal | None]] = defaultdict(list)

    def add(self, at_ms: int, profile: str, amount: str | None) -> None:
        """Add a price from `at_ms` on; None removes it."""
        times = self._times[profile]
        place = bisect_right(times, at_ms)
        times.insert(place, at_ms)
        self._prices[profile].insert(place, None if amount is None else Decimal(amount))

    def at(self, profile: str, at_ms: int) -> Decimal | None:
        """Return the price at a time, or the next later one if there was none.

        A minute without a price is held until there is one (B9), and is then billed at that price.
        """
        prices = self._prices[profile]
        place = bisect_right(self._times[profile], at_ms)
        if place and prices[place - 1] is not None:
            return prices[place - 1]
        return next((later for later in prices[place:] if later is not None), None)


@dataclass(slots=True)
class Account:
    """An org's account: payments, usage as the sum of `price * quantity * ms`, and totals of ms and events."""

    paid_in: Decimal = Decimal(0)
    used_price_ms: Decimal = Decimal(0)
    used_ms: int = 0
    events: int = 0
    by_type_ms: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    stated: str | None = None
    """The last balance that was published."""

    @property
    def amount(self) -> Decimal:
        """The amount billed, to six places."""
        with localcontext(_EXACT):
            return (self.used_price_ms / HOUR_MS).quantize(_PLACES, ROUND_HALF_EVEN)

    @property
    def balance(self) -> Decimal:
        """The balance, to six places."""
        with localcontext(_EXACT):
            return (self.paid_in - self.used_price_ms / HOUR_MS).quantize(_PLACES, ROUND_HALF_EVEN)


class Croesus:
    """The ledger of all orgs. It returns the records to publish, and receives usage events."""

    def __init__(self) -> None:
        self.prices = PriceHistory()
        self.accounts: dict[str, Account] = defaultdict(Account)
        self.verdicts: dict[Verdict, int] = dict.fromkeys(("booked", "duplicate", "conflict", "unpriced"), 0)
        self.refusals: list[str] = []
        """One line for each refused event."""
        self._seen: dict[tuple[str, str], bytes] = {}
        """A digest of the bytes of each booked event."""
        self._changed: set[str] = set()
        self._sequence = 0

    def set_price(self, at_ms: int, profile: str, amount: str | None) -> Record:
        """Set a price from `at_ms` on; None removes it."""
        self.prices.add(at_ms, profile, amount)
        return price(at_ms, profile, amount)

    def pay_in(self, at_ms: int, org: str, amount: str) -> Record:
        """Book a payment; returns the new balance."""
        self.accounts[org].paid_in += Decimal(amount)
        return self._state(at_ms, org)

    def suspend(self, at_ms: int, org: str) -> Record:
        """Suspend an org."""
        return suspended(at_ms, org)

    def reinstate(self, at_ms: int, org: str) -> Record:
        """End an org's suspension."""
        return reinstated(at_ms, org)

    def receive(self, value: bytes) -> Verdict:
        """Book a usage event. A second one with the same (org, id) is dropped, or refused if its content differs."""
        usage = Usage.model_validate_json(value)
        key = (usage.org_id, usage.id)
        digest = blake2b(value, digest_size=16).digest()
        seen = self._seen.get(key)
        if seen is not None:
            if seen == digest:
                return self._count("duplicate")
            self.refusals.append(f"{usage.org_id} {usage.id} was booked with different content than {value.decode()}")
            return self._count("conflict")
        rate = self.prices.at(usage.profile, parse_rfc3339(usage.interval_start))
        if rate is None:
            self.refusals.append(f"{usage.org_id} {usage.id}: {usage.profile} never had a price")
            return self._count("unpriced")
        self._seen[key] = digest
        account = self.accounts[usage.org_id]
        with localcontext(_EXACT):
            account.used_price_ms += rate * usage.quantity * usage.duration_ms
        account.used_ms += usage.duration_ms
        account.by_type_ms[usage.type] += usage.duration_ms
        account.events += 1
        self._changed.add(usage.org_id)
        return self._count("booked")

    def statements(self, at_ms: int) -> Iterator[Record]:
        """Return the balance of each org whose usage changed since the last call, ordered by org."""
        changed, self._changed = sorted(self._changed), set()
        for org in changed:
            if f"{self.accounts[org].balance:f}" != self.accounts[org].stated:
                yield self._state(at_ms, org)

    def _state(self, at_ms: int, org: str) -> Record:
        self._sequence = max(self._sequence + 1, at_ms)
        account = self.accounts[org]
        account.stated = f"{account.balance:f}"
        return balance(at_ms, org, account.stated, self._sequence)

    def _count(self, verdict: Verdict) -> Verdict:
        self.verdicts[verdict] += 1
        return verdict
