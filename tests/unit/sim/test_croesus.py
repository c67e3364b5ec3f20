"""The stand-in Croesus: booking, duplicates, refusals and amounts."""

from decimal import Decimal
from typing import Any

from schemas.usage import Usage
from sim.croesus import Croesus
from sim.dunning import Dunning
from topics.catalogue import ACCOUNTS
from topics.codec import decode, encode

NOON = 1_764_417_600_000  # 2025-11-29T12:00:00Z
MINUTE = 60_000


def usage(**changes: Any) -> bytes:
    fields = {
        "id": "chat-r1:2025-11-29T12:00:00.000Z",
        "type": "dedicated_inference_running",
        "org_id": "aurora",
        "deployment_id": "chat",
        "replica_id": "chat-r1",
        "window_id": "chat-r1.w1",
        "profile": "dedicated.h100.1x",
        "quantity": 1,
        "interval_start": "2025-11-29T12:00:00.000Z",
        "interval_end": "2025-11-29T12:01:00.000Z",
        "duration_ms": 60_000,
        **changes,
    }
    return encode(Usage(**fields))


def croesus(price: str = "420") -> Croesus:
    books = Croesus()
    books.set_price(NOON - MINUTE, "dedicated.h100.1x", price)
    return books


def test_a_minute_costs_a_sixtieth_of_an_hour() -> None:
    books = croesus("420")
    assert books.receive(usage()) == "booked"
    assert books.accounts["aurora"].amount == Decimal("7.000000")
    assert books.accounts["aurora"].used_ms == 60_000
    assert books.accounts["aurora"].events == 1


def test_disk_is_priced_per_gb() -> None:
    books = Croesus()
    books.set_price(NOON, "disk", "0.02")
    books.receive(
        usage(type="instance_disk_stopped", profile="disk", quantity=150, interval_start="2025-11-29T12:00:00.000Z")
    )
    # 0.02 a GB and hour, 150 GB, a sixtieth of an hour
    assert books.accounts["aurora"].amount == Decimal("0.050000")


def test_repeating_decimals_add_up_exactly() -> None:
    books = croesus("1")
    for n in range(60):
        books.receive(usage(id=f"chat-r1:{n}"))
    # One sixtieth of 1 is a repeating decimal; sixty of them are 1.
    assert books.accounts["aurora"].amount == Decimal("1.000000")


def test_the_same_event_again_is_dropped() -> None:
    books = croesus()
    assert [books.receive(usage()), books.receive(usage())] == ["booked", "duplicate"]
    assert books.accounts["aurora"].amount == Decimal("7.000000")
    assert {name: count for name, count in books.verdicts.items() if count} == {"booked": 1, "duplicate": 1}
    assert books.refusals == []


def test_the_same_id_of_another_org_is_another_event() -> None:
    books = croesus()
    assert [books.receive(usage()), books.receive(usage(org_id="borealis"))] == ["booked", "booked"]


def test_the_same_id_with_another_content_is_refused() -> None:
    books = croesus()
    books.receive(usage())
    assert books.receive(usage(duration_ms=59_999)) == "conflict"
    assert books.accounts["aurora"].used_ms == 60_000
    [refusal] = books.refusals
    assert "aurora chat-r1:2025-11-29T12:00:00.000Z" in refusal
    assert "59999" in refusal


def test_usage_that_never_had_a_price_is_refused() -> None:
    books = Croesus()
    assert books.receive(usage()) == "unpriced"
    assert books.refusals == ["aurora chat-r1:2025-11-29T12:00:00.000Z: dedicated.h100.1x never had a price"]
    assert books.accounts["aurora"].events == 0


def test_the_price_is_that_of_the_start_of_the_interval() -> None:
    books = croesus("60")
    books.set_price(NOON + MINUTE, "dedicated.h100.1x", "600")
    books.receive(usage())
    assert books.accounts["aurora"].amount == Decimal("1.000000")
    books.receive(usage(id="chat-r1:b", interval_start="2025-11-29T12:01:00.000Z"))
    assert books.accounts["aurora"].amount == Decimal("11.000000")


def test_a_minute_without_a_price_costs_the_next_one() -> None:
    books = croesus("60")
    books.set_price(NOON - 1, "dedicated.h100.1x", None)
    books.set_price(NOON + 5 * MINUTE, "dedicated.h100.1x", "120")
    books.receive(usage())
    assert books.accounts["aurora"].amount == Decimal("2.000000")


def test_at_equal_timestamps_the_later_price_applies() -> None:
    books = croesus("60")
    books.set_price(NOON - MINUTE, "dedicated.h100.1x", "180")
    books.receive(usage())
    assert books.accounts["aurora"].amount == Decimal("3.000000")


def test_each_change_of_a_balance_is_published_once_with_a_higher_sequence() -> None:
    books = croesus()
    opening = books.pay_in(NOON, "aurora", "100")
    assert list(books.statements(NOON + 1)) == []
    books.receive(usage())
    [statement] = books.statements(NOON + MINUTE)
    assert list(books.statements(NOON + 2 * MINUTE)) == []
    first, second = decode(ACCOUNTS, opening.value), decode(ACCOUNTS, statement.value)
    assert (first.balance, second.balance) == ("100.000000", "93.000000")
    assert second.sequence > first.sequence
    assert statement.timestamp_ms == NOON + MINUTE


def test_a_balance_may_be_zero_or_negative() -> None:
    books = croesus()
    books.pay_in(NOON, "aurora", "7")
    books.receive(usage())
    assert decode(ACCOUNTS, next(books.statements(NOON + 1)).value).balance == "0.000000"
    books.receive(usage(id="chat-r1:b"))
    assert decode(ACCOUNTS, next(books.statements(NOON + 2)).value).balance == "-7.000000"


def test_an_org_without_balance_is_suspended_then_pays_and_is_reinstated() -> None:
    books = croesus()
    books.pay_in(NOON, "aurora", "7")
    dunning = Dunning(books, top_up="50", top_up_after_ms=20 * MINUTE, suspend_after_ms=10 * MINUTE)
    assert list(dunning.due(NOON)) == []
    books.receive(usage())

    def due(minutes: int) -> list[str]:
        return [decode(ACCOUNTS, record.value).type for record in dunning.due(NOON + minutes * MINUTE)]

    assert due(1) == []
    assert due(10) == []
    assert due(11) == ["org_suspended"]
    assert due(12) == []
    assert due(21) == ["balance_updated", "org_reinstated"]
    assert books.accounts["aurora"].balance == Decimal("50.000000")
    assert due(60) == []
