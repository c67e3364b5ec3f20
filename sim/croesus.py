"""A stand-in for Croesus: it publishes prices, balances and suspensions, and books usage and credits once, exactly.

An amount is `price per hour * quantity * duration`. The ledger adds up `price * quantity * ms`, which is exact, and
divides by an hour only where a figure is shown or sent.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from hashlib import blake2b
from sys import intern
from typing import Final, Literal, TypeAlias, get_args

from schemas.credits import Credit
from schemas.times import parse_rfc3339
from schemas.usage import Usage, UsageType
from sim.records import HOUR_MS, Record, balance, price, reinstated, suspended

Verdict: TypeAlias = Literal["booked", "duplicate", "conflict", "unpriced", "credited", "refused"]
"""The result of a usage event or a credit.

New · same id and content · same id, different content · no price was ever published · a credit booked · a credit that
takes back more than was charged.
"""

_EXACT: Final = Context(prec=60)
_PLACES: Final = Decimal("0.000001")


def amount_of(price_ms: Decimal) -> Decimal:
    """Return a sum of `price per hour * quantity * ms` as an amount, to six places."""
    with localcontext(_EXACT):
        return (price_ms / HOUR_MS).quantize(_PLACES, ROUND_HALF_EVEN)


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
    credited_price_ms: Decimal = Decimal(0)
    credited_ms: int = 0
    events: int = 0
    credits: int = 0
    by_type_ms: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    stated: str | None = None
    """The last balance that was published."""

    @property
    def amount(self) -> Decimal:
        """The amount billed, to six places."""
        return amount_of(self.used_price_ms)

    @property
    def credited(self) -> Decimal:
        """The amount credited, to six places."""
        return amount_of(self.credited_price_ms)

    @property
    def balance(self) -> Decimal:
        """The balance, to six places."""
        with localcontext(_EXACT):
            return (self.paid_in - (self.used_price_ms - self.credited_price_ms) / HOUR_MS).quantize(
                _PLACES, ROUND_HALF_EVEN
            )


@dataclass(slots=True)
class Charge:
    """A line of the ledger: a usage event, the price at which it was booked, and the stretches that were taken back."""

    org_id: str
    window_id: str
    type: UsageType
    profile: str
    quantity: int
    rate: Decimal
    start_ms: int
    end_ms: int
    taken_back: list[tuple[int, int]] = field(default_factory=list)

    @property
    def billed_ms(self) -> int:
        """How much was charged, in ms."""
        return self.end_ms - self.start_ms

    @property
    def credited_ms(self) -> int:
        """How much was taken back, in ms."""
        return sum(end - start for start, end in self.taken_back)


@dataclass(slots=True)
class Sums:
    """Lines of the ledger added up: ms, ms times quantity (unit-ms), and these times the price, exact."""

    billed_ms: int = 0
    credited_ms: int = 0
    billed_unit_ms: int = 0
    credited_unit_ms: int = 0
    used_price_ms: Decimal = Decimal(0)
    credited_price_ms: Decimal = Decimal(0)

    def add(self, charge: Charge) -> None:
        """Add a line."""
        self.billed_ms += charge.billed_ms
        self.credited_ms += charge.credited_ms
        billed, credited = charge.billed_ms * charge.quantity, charge.credited_ms * charge.quantity
        self.billed_unit_ms += billed
        self.credited_unit_ms += credited
        with localcontext(_EXACT):
            self.used_price_ms += charge.rate * billed
            self.credited_price_ms += charge.rate * credited

    @property
    def cost(self) -> Decimal:
        """The amount billed, to six places."""
        return amount_of(self.used_price_ms)

    @property
    def credited_cost(self) -> Decimal:
        """The amount credited, to six places."""
        return amount_of(self.credited_price_ms)


class Croesus:
    """The ledger of all orgs. It returns the records to publish, and receives usage events."""

    def __init__(self) -> None:
        self.prices = PriceHistory()
        self.accounts: dict[str, Account] = defaultdict(Account)
        self.verdicts: dict[Verdict, int] = dict.fromkeys(get_args(Verdict), 0)
        self.refusals: list[str] = []
        """One line for each refused event."""
        self._seen: dict[tuple[str, str], bytes] = {}
        """A digest of the bytes of each booked event and credit."""
        self.charges: dict[tuple[str, str], Charge] = {}
        """The ledger, by org and usage id."""
        self._early: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        """Credits that arrived before their usage events: across topics Kafka has no order."""
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
        if (repeated := self._repeated(key, value)) is not None:
            return repeated
        rate = self.prices.at(usage.profile, parse_rfc3339(usage.interval_start))
        if rate is None:
            self.refusals.append(f"{usage.org_id} {usage.id}: {usage.profile} never had a price")
            return self._count("unpriced")
        self._seen[key] = _digest(value)
        start_ms = parse_rfc3339(usage.interval_start)
        self.charges[key] = Charge(
            org_id=intern(usage.org_id),
            window_id=intern(usage.window_id),
            type=usage.type,
            profile=intern(usage.profile),
            quantity=usage.quantity,
            rate=rate,
            start_ms=start_ms,
            end_ms=start_ms + usage.duration_ms,
        )
        account = self.accounts[usage.org_id]
        with localcontext(_EXACT):
            account.used_price_ms += rate * usage.quantity * usage.duration_ms
        account.used_ms += usage.duration_ms
        account.by_type_ms[usage.type] += usage.duration_ms
        account.events += 1
        self._changed.add(usage.org_id)
        for credit in self._early.pop(key, ()):
            self.receive_credit(credit)
        return self._count("booked")

    def receive_credit(self, value: bytes) -> Verdict | None:
        """Book a credit at the price of its usage event; one that takes back more than was charged is refused.

        Returns None for a credit whose usage event has not arrived yet: it is booked with that.
        """
        credit = Credit.model_validate_json(value)
        key = (credit.org_id, credit.id)
        if (repeated := self._repeated(key, value)) is not None:
            return repeated
        charge = self.charges.get((credit.org_id, credit.usage_id))
        if charge is None:
            self._early[credit.org_id, credit.usage_id].append(value)
            return None
        start_ms = parse_rfc3339(credit.interval_start)
        end_ms = start_ms + credit.duration_ms
        within = charge.start_ms <= start_ms and end_ms <= charge.end_ms and credit.quantity == charge.quantity
        if not within or any(start_ms < end and start < end_ms for start, end in charge.taken_back):
            self.refusals.append(f"{credit.org_id} {credit.id} takes back more than was charged")
            return self._count("refused")
        self._seen[key] = _digest(value)
        charge.taken_back.append((start_ms, end_ms))
        account = self.accounts[credit.org_id]
        with localcontext(_EXACT):
            account.credited_price_ms += charge.rate * credit.quantity * credit.duration_ms
        account.credited_ms += credit.duration_ms
        account.credits += 1
        self._changed.add(credit.org_id)
        return self._count("credited")

    def _repeated(self, key: tuple[str, str], value: bytes) -> Verdict | None:
        """Return the result of an id that was booked before, or None."""
        seen = self._seen.get(key)
        if seen is None:
            return None
        if seen == _digest(value):
            return self._count("duplicate")
        self.refusals.append(f"{key[0]} {key[1]} was booked with different content than {value.decode()}")
        return self._count("conflict")

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


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=16).digest()
