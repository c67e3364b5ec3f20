"""Transactions that stay open in an input: found at the second check, reported once, and nothing else is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.engine.transactions import OpenTransactions
from tests.unit.engine.fakes import FakeAdmin, FakeKafka

if TYPE_CHECKING:
    import pytest

COMMANDS, REPORTS = ("user.commands", 0), ("host.reports", 1)


def looking() -> tuple[OpenTransactions, FakeKafka]:
    kafka = FakeKafka()
    return OpenTransactions(FakeAdmin(kafka)), kafka


async def test_an_open_transaction_is_reported_once_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    transactions, kafka = looking()
    kafka.stable = {COMMANDS: 5, REPORTS: 9}
    read, ends = {COMMANDS: 5, REPORTS: 9}, {COMMANDS: 8, REPORTS: 9}
    await transactions.check(read, ends)
    assert transactions.lines == [], "most transactions end within a second"
    for _ in range(3):
        await transactions.check(read, ends)
    (line,) = transactions.lines
    assert line.startswith("user.commands partition 0: a transaction of another program is open since offset 5")
    assert caplog.messages == [line]
    kafka.stable[COMMANDS] = 8
    await transactions.check({COMMANDS: 8, REPORTS: 9}, ends)
    assert transactions.lines == []
    assert len(caplog.messages) == 2


async def test_records_that_wait_for_the_worker_are_no_open_transaction() -> None:
    transactions, kafka = looking()
    kafka.stable = {COMMANDS: 8}
    for _ in range(3):
        await transactions.check({COMMANDS: 5}, {COMMANDS: 8})
    assert transactions.lines == []


async def test_each_of_several_transactions_is_reported() -> None:
    transactions, kafka = looking()
    for offset in (5, 6):
        kafka.stable = {COMMANDS: offset}
        for _ in range(2):
            await transactions.check({COMMANDS: offset}, {COMMANDS: 8})
        assert [f"since offset {offset}," in line for line in transactions.lines] == [True]
