"""One tick a day ahead, by a producer or a broker whose clock is wrong: no instance and no disk is lost by it."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import InvalidTimestampError

from tests.support.raw_batches import RawRecord
from tests.support.raw_logs import ANY_TIME, MINUTE_MS, RawLog, price, value
from topics.catalogue import ACCOUNTS, CLOCK, COMMANDS, HOST_ORDERS, NOTICES, PRICES, REPORTS

pytestmark = pytest.mark.kafka

DAY = 1_440
"""Minutes."""


def record(**fields: Any) -> RawRecord:
    return RawRecord(value(org_id="acme", **fields), b"acme")


async def in_debt(log: RawLog) -> None:
    """Write the records of a stopped instance whose org is in debt for a minute."""
    await log.send(PRICES.name, [price("instance.h100.1x"), price("disk")], -1)
    await log.send(ACCOUNTS.name, [record(event_id="e1", type="balance_updated", balance="100000")], 0)
    deploy = {"type": "deploy_instance", "instance_id": "i", "offer_id": "o", "gpu_type": "h100", "gpu_count": 1}
    template = {"mode": "ssh", "image": "ubuntu"}
    await log.send(COMMANDS.name, [record(command_id="c1", disk_gb=10, template=template, **deploy)], 1)
    await log.send(REPORTS.name, [record(event_id="r1", instance_id="i", report="workload_up")], 2)
    await log.send(COMMANDS.name, [record(command_id="c2", type="stop_instance", instance_id="i")], 3)
    await log.send(REPORTS.name, [record(event_id="r2", instance_id="i", report="stop_confirmed")], 4)
    await log.send(ACCOUNTS.name, [record(event_id="e2", type="balance_updated", balance="-1000")], 5)
    await log.tick(6)


async def orders(log: RawLog) -> list[str]:
    return [order["order"] for order in await log.values(HOST_ORDERS.name)]


async def test_a_broker_refuses_a_tick_that_is_a_day_ahead(kafka_bootstrap: str, namespace: str) -> None:
    log = RawLog(kafka_bootstrap, namespace, partitions=1)
    await log.provision()
    with pytest.raises(InvalidTimestampError):
        await log.tick(DAY)
    await log.tick(60 + 4)


@pytest.mark.parametrize("tells_its_clock", [True, False])
async def test_a_tick_a_day_ahead_destroys_nothing(
    kafka_bootstrap: str,
    namespace: str,
    tells_its_clock: bool,  # noqa: FBT001 - a case
) -> None:
    log = RawLog(kafka_bootstrap, namespace, partitions=1)
    # As before Kafka 3.6.
    await log.provision(ANY_TIME, outbound_too=True)
    await in_debt(log)
    await log.run_until_caught_up()
    before = await orders(log)
    assert before == ["create", "stop", "release_gpus"]
    at = {"at": log.start_ms + 7 * MINUTE_MS} if tells_its_clock else {}
    await log.send(CLOCK.name, [RawRecord(value(type="tick", **at))], DAY + 7)
    await log.run_until_caught_up()
    for minute in (8, 9):
        await log.tick(minute)
        await log.run_until_caught_up()
    assert await orders(log) == before
    # The debt is a day old by that tick, but what it would destroy is announced an hour before.
    kinds = [notice["kind"] for notice in await log.values(NOTICES.name)]
    assert ("auto_destroy_ahead" in kinds) is not tells_its_clock
