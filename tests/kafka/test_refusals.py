"""Topics that refuse records, or were deleted: their partition waits, the others continue, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.accidents import configure, delete, results, run_until_caught_up, stop_command, wait_for_results
from tests.support.workers import Installation, Worker
from topics.catalogue import RESULTS

pytestmark = pytest.mark.kafka


async def test_a_topic_that_refuses_records_stops_its_partition_alone_until_it_takes_them(
    kafka_bootstrap: str, namespace: str
) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=2)
    await installation.provision()
    orgs = {installation.place("", org_id): org_id for org_id in map("org-{}".format, range(20))}
    name = installation.settings.topic(RESULTS.name)
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await configure(installation, name, max_message_bytes="10000", message_timestamp_type="CreateTime")
        many = [stop_command(installation, number, orgs[0]) for number in range(200)]
        await installation.send(many, transactional_id=f"{namespace}-test")
        await asyncio.to_thread(worker.wait_for, "partition 0 can't be committed: topic " + name)
        assert "MessageSizeTooLargeError); raise its max.message.bytes" in worker.tail(200)
        await installation.send([stop_command(installation, 900, orgs[1])])
        await wait_for_results(installation, worker, {"c900"})
        assert "c0" not in await results(installation)
        await configure(installation, name, max_message_bytes="1048588", message_timestamp_type="CreateTime")
        await wait_for_results(installation, worker, {f"c{number}" for number in range(200)})
        await asyncio.to_thread(worker.wait_for, "partition 0 is committed again")
        # And it goes on, by the same producer.
        await installation.send([stop_command(installation, 901, orgs[0])])
        await wait_for_results(installation, worker, {"c901"})
        assert await asyncio.to_thread(worker.stop) == 0
    assert len(await installation.read(RESULTS.name)) == 202
    await run_until_caught_up(installation)


async def test_an_output_deleted_while_a_worker_runs_is_waited_for(kafka_bootstrap: str, namespace: str) -> None:
    installation = Installation(kafka_bootstrap, namespace, partitions=1)
    await installation.provision()
    with Worker(installation, "--without-web") as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await delete(installation, installation.settings.topic(RESULTS.name))
        await installation.send([stop_command(installation, 1)])
        await asyncio.to_thread(worker.wait_for, "waiting for the commit of partition 0, for 360 s at most")
        await installation.provision()
        await wait_for_results(installation, worker, {"c1"})
        assert await asyncio.to_thread(worker.stop) == 0
