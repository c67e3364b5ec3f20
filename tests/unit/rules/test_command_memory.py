"""The memory of commands that can't be read (C1): bounded, and not at the cost of other orgs."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import pytest

from streams.billing.prices import Prices
from streams.billing.windows import Origin
from streams.engine.rowcodec import RowReader, encode_row
from streams.limits import DAY_MS, HOUR_MS
from streams.rules import results
from streams.rules.accountant import Accountant
from streams.rules.context import Switches
from streams.rules.decision import Decision
from streams.rules.rows import row_key
from streams.rules.store import RowStore
from topics.catalogue import COMMANDS, OPERATOR_COMMANDS, RESULTS
from topics.codec import Rejected, decode

T0 = 1_764_417_600_000
LONGEST_ID = "{:0128d}"
LIMIT = 3
BYTES_EACH = 1_500
"""The most memory of a remembered result without a reason, with an id of 128 characters."""


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_RESULTS_WITH_REASON", LIMIT)


class Memory:
    """One partition's rows, to which commands are sent."""

    def __init__(self) -> None:
        self.store = RowStore(168 * HOUR_MS, 400 * DAY_MS)
        self.log_lines: list[Any] = []
        self.offset = 0

    def send(self, command_id: str, org_id: str = "acme", topic: Any = COMMANDS, **fields: Any) -> dict[str, Any]:
        """Send a command, by default one that can't be read; return its result."""
        value = {"command_id": command_id, "org_id": org_id, **(fields or {"type": "deploy_instance"})}
        accountant = Accountant(self.store, Prices(), Switches(billing_enabled=True))
        self.offset += 1
        item = decode(topic, json.dumps(value).encode())
        origin, decision = Origin(topic.name, self.offset, T0 + self.offset), Decision()
        if isinstance(item, Rejected):
            assert item.command_id is not None
            assert item.org_id is not None
            accountant.refuse(item.command_id, item.org_id, item.target, item.error, origin, decision)
        else:
            accountant.apply(item, origin, decision)
        self.log_lines += decision.log_lines
        (result,) = [output for output in decision.outputs if output.topic == RESULTS.name]
        assert (result.org_id, result.timestamp) == (org_id, T0 + self.offset)
        assert isinstance(result.message, bytes)
        found: dict[str, Any] = json.loads(result.message)
        return found

    def restart(self) -> None:
        """Drop all rows, and restore them from what was committed."""
        _, changed = self.store.take_changes()
        self.store = RowStore(168 * HOUR_MS, 400 * DAY_MS)
        for row in changed:
            self.store.restore(RowReader().read(row.TABLE, row_key(row), encode_row(row)))


def test_each_invalid_command_has_one_result_word_for_word_however_many_there_are() -> None:
    memory = Memory()
    first = {f"c{number}": memory.send(f"c{number}") for number in range(2 * LIMIT)}
    assert {result["code"] for result in first.values()} == {"INVALID"}
    with_reason = ["field required" in result["message"] for result in first.values()]
    assert with_reason == [True] * LIMIT + [False] * LIMIT
    assert first["c5"]["message"] == "command c5 can't be read; the org has too many results in 24 h for the reason"
    for _ in range(2):
        for command_id, result in first.items():
            assert memory.send(command_id) == result
            # Whatever its content: this one could be read.
            assert memory.send(command_id, type="stop_instance", instance_id="i1") == result
        memory.restart()


def test_a_flood_of_one_org_costs_others_and_operators_nothing() -> None:
    memory = Memory()
    before = memory.send("b1", "other")
    for number in range(10 * LIMIT):
        memory.send(f"c{number}")
    assert memory.send("b1", "other") == before
    assert "field required" in memory.send("b2", "other")["message"]
    assert "field required" in memory.send("o1", topic=OPERATOR_COMMANDS, type="credit_window")["message"]
    # What is not `INVALID` has its reason and is remembered as ever.
    stopped = memory.send("c-good", type="stop_instance", instance_id="i1")
    assert stopped["code"] == "NOT_FOUND"
    assert memory.send("c-good") == stopped
    assert [line.fields["org_id"] for line in memory.log_lines] == ["acme"]


def test_results_without_words_cost_little_memory() -> None:
    memory = Memory()
    for number in range(LIMIT):
        memory.send(f"c{number}")
    long: dict[str, Any] = {"type": "create_deployment", "deployment_id": "d" * 112, "labels": {"é" * 400: "é" * 400}}
    flood = 2_000
    gc.collect()  # garbage of other tests is not counted
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(flood):
            memory.send(LONGEST_ID.format(number), **long)
        memory.store.take_changes()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / flood < BYTES_EACH
    assert sum(not row.value for row in memory.store.orgs["acme"].answers.values()) == flood
