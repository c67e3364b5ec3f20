"""Topics are created, checked and refused with the fix, on a real broker."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams.settings import Settings
from topics.catalogue import TOPICS
from topics.provision import NewTopicSpec, ProvisionError, ensure_topics, new_topic, provision

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(kafka_bootstrap: str, namespace: str) -> Settings:
    return Settings.from_env(
        {"KAFKA_BOOTSTRAP_SERVERS": kafka_bootstrap, "OBOL_NAMESPACE": namespace, "OBOL_PARTITIONS": "2"}
    )


@pytest.fixture
async def admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**settings.kafka_client_options())
    await admin.start()
    yield admin
    created = [name for name in await admin.list_topics() if name.startswith(settings.topic(""))]
    if created:
        await admin.delete_topics(created)
    await admin.close()


async def partitions(admin: AIOKafkaAdminClient, settings: Settings) -> dict[str, int]:
    prefix = settings.topic("")
    return {
        topic["topic"].removeprefix(prefix): len(topic["partitions"])
        for topic in await admin.describe_topics()
        if topic["topic"].startswith(prefix)
    }


async def config(admin: AIOKafkaAdminClient, topic: str) -> dict[str, Any]:
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    (resource,) = response.to_object()["resources"]
    return {entry["config_names"]: entry["config_value"] for entry in resource["config_entries"]}


EXPECTED = dict.fromkeys(TOPICS, 2) | {"croesus.prices": 1}


async def test_several_workers_create_all_topics_at_once(admin: AIOKafkaAdminClient, settings: Settings) -> None:
    await asyncio.gather(*(provision(settings) for _ in range(4)))
    assert await partitions(admin, settings) == EXPECTED
    prices = await config(admin, settings.topic("croesus.prices"))
    assert (prices["retention.ms"], prices["cleanup.policy"]) == ("-1", "delete")
    assert prices["message.timestamp.type"] == "LogAppendTime"
    assert (await config(admin, settings.topic("croesus.usage")))["message.timestamp.type"] == "CreateTime"
    await provision(settings)
    assert await partitions(admin, settings) == EXPECTED


async def test_only_missing_topics_are_created(admin: AIOKafkaAdminClient, settings: Settings) -> None:
    usage = new_topic(TOPICS["croesus.usage"], settings)
    await ensure_topics(admin, [replace(usage, config={**usage.config, "retention.ms": "123456789"})])
    await provision(settings)
    assert await partitions(admin, settings) == EXPECTED
    assert (await config(admin, usage.name))["retention.ms"] == "123456789"


async def test_another_partition_count_is_refused(admin: AIOKafkaAdminClient, settings: Settings) -> None:
    await ensure_topics(admin, [NewTopicSpec(name=settings.topic("user.commands"), partitions=3, replication=1)])
    with pytest.raises(ProvisionError) as caught:
        await provision(settings)
    assert str(caught.value) == (
        f"topic {settings.topic('user.commands')} has 3 partitions, OBOL_PARTITIONS says 2; "
        "set OBOL_PARTITIONS=3, or use another OBOL_NAMESPACE, or delete the topic"
    )
    assert (await partitions(admin, settings))["user.commands"] == 3


@pytest.mark.usefixtures("admin")
async def test_another_timestamp_type_is_refused(settings: Settings) -> None:
    await provision(settings)
    with pytest.raises(ProvisionError) as caught:
        await provision(settings.having(timestamps="producer"))
    line = str(caught.value)
    assert (
        "has message.timestamp.type=LogAppendTime, OBOL_TIMESTAMPS says CreateTime; set OBOL_TIMESTAMPS=broker" in line
    )
    assert "\n" not in line


async def test_an_outbound_topic_with_the_brokers_timestamps_is_refused(
    admin: AIOKafkaAdminClient, settings: Settings
) -> None:
    usage = new_topic(TOPICS["croesus.usage"], settings)
    broker = {**usage.config, "message.timestamp.type": "LogAppendTime"}
    await ensure_topics(admin, [replace(usage, config=broker)])
    with pytest.raises(
        ProvisionError, match=rf"topic {re.escape(usage.name)} has .*, the contract says CreateTime; set message"
    ):
        await provision(settings)


async def test_a_topic_that_can_never_be_created_fails_at_once(admin: AIOKafkaAdminClient, settings: Settings) -> None:
    assert await partitions(admin, settings) == {}
    with pytest.raises(ProvisionError, match=r"^topic .* can't be created: .*[Rr]eplica.*; correct the settings"):
        await provision(settings.having(replication=99))


async def test_an_unreachable_cluster_fails_at_the_deadline() -> None:
    settings = Settings(bootstrap_servers=("127.0.0.1:1",))
    with pytest.raises(ProvisionError, match=r"can't be reached after .* s .*KAFKA_BOOTSTRAP_SERVERS"):
        await provision(settings, deadline_s=0.3)
