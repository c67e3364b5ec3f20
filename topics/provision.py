"""Create the topics that are missing, and refuse those that differ from the settings (contract)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaConnectionError, KafkaError, TopicAlreadyExistsError, for_code

from topics.catalogue import PRICES, TOPICS, Timestamps, TopicSpec
from topics.login import why_refused

DEADLINE_S: Final = 60.0

_POLL_S: Final = 0.2
_PROGRESS_S: Final = 1.0
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_RETENTIONS: Final = ("retention.ms", "retention.bytes")
_MANY_BROKERS: Final = 3

log = logging.getLogger(__name__)


class ProvisionError(RuntimeError):
    """A topic can't be created, or differs from the settings. One line: the topic, its state, the fix."""


class UnreachableError(ProvisionError):
    """The cluster can't be reached, or has no leader for a topic. It may be back later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicSpec:
    """A topic to create or check; `name` includes the namespace.

    `config` is used when the topic is created. An existing topic must have `partitions` partitions, and the entries of
    `config` that `fixed` names, each with what requires it: a setting, or "the contract". The operator may change
    everything else.
    """

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)
    partition_setting: str = "OBOL_PARTITIONS"
    fixed: Mapping[str, str] = field(default_factory=dict)


class ProvisionSettings(Protocol):
    """The settings that `provision` needs."""

    @property
    def partitions(self) -> int:
        """`OBOL_PARTITIONS`."""

    @property
    def replication(self) -> int:
        """`OBOL_REPLICATION`."""

    @property
    def timestamps(self) -> Timestamps:
        """`OBOL_TIMESTAMPS`."""

    def topic(self, name: str) -> str:
        """Return a topic's name with the namespace."""

    def kafka_client_options(self) -> dict[str, Any]:
        """Return keyword arguments for aiokafka's clients."""


def new_topic(spec: TopicSpec, settings: ProvisionSettings) -> NewTopicSpec:
    """Return the topic to create for a row of the catalogue, under these settings."""
    return NewTopicSpec(
        name=settings.topic(spec.name),
        partitions=spec.partitions(settings.partitions),
        replication=settings.replication,
        config=spec.config(settings.timestamps, settings.replication),
        partition_setting="the contract" if spec.one_partition else "OBOL_PARTITIONS",
        fixed={
            _TIMESTAMP_TYPE: "OBOL_TIMESTAMPS" if spec.direction == "in" else "the contract",
            # Compaction would remove all but the last record of each org.
            "cleanup.policy": "the contract",
            **dict.fromkeys(_RETENTIONS if spec is PRICES else (), "the contract"),
        },
    )


async def provision(settings: ProvisionSettings, *, deadline_s: float = DEADLINE_S) -> None:
    """Create every topic of the catalogue that is missing, and check the others. Several workers may do so at once.

    Raises `ProvisionError` at once when the cluster refuses the connection for good or a topic differs, and
    `UnreachableError` when not all topics exist after `deadline_s` seconds.
    """
    async with connected(settings, deadline_s=deadline_s) as admin:
        await ensure_topics(admin, [new_topic(spec, settings) for spec in TOPICS.values()], deadline_s=deadline_s)


@asynccontextmanager
async def connected(
    settings: ProvisionSettings, *, deadline_s: float = DEADLINE_S
) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield a connected client. Raises `ProvisionError` and `UnreachableError`, as `provision` does."""
    options = settings.kafka_client_options()
    admin = AIOKafkaAdminClient(**options)
    try:
        await _connect(admin, options, deadline_s)
        await _warn_of_one_copy(admin, settings.replication)
        yield admin
    finally:
        await admin.close()


async def ensure_topics(
    admin: AIOKafkaAdminClient, specs: Sequence[NewTopicSpec], *, deadline_s: float = DEADLINE_S
) -> None:
    """Create the topics of `specs` that are missing, wait until every partition has a leader, and check them.

    Existing topics are never changed or deleted. Raises `ProvisionError`.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    next_log = start + _PROGRESS_S
    waiting_for = "the cluster"
    requested: set[str] = set()
    while True:
        try:
            # Describe all topics: a request for one by name could make the broker create it with its own defaults.
            found = {topic["topic"]: topic for topic in await admin.describe_topics()}
            missing = [spec for spec in specs if spec.name not in found]
            if not missing and (leaderless := _without_leader(found, specs)) is None:
                _check_partitions(found, specs)
                await check_configs(admin, specs)
                return
            waiting_for = f"topic {missing[0].name}" if missing else f"a leader of topic {leaderless}"
            if new := [spec for spec in missing if spec.name not in requested]:
                requested |= await _create(admin, new)
        except (KafkaError, OSError) as error:
            waiting_for = f"the cluster ({type(error).__name__})"
            requested.clear()
        now = loop.time()
        if now >= start + deadline_s:
            msg = (
                f"{waiting_for} is not available after {deadline_s:g} s; "
                "check that KAFKA_BOOTSTRAP_SERVERS names a running cluster with at least OBOL_REPLICATION brokers"
            )
            raise UnreachableError(msg)
        if now >= next_log:
            log.info("waiting for %s; %d of %d topics exist", waiting_for, _present(found, specs), len(specs))
            next_log = now + _PROGRESS_S
        await asyncio.sleep(_POLL_S)


async def _connect(admin: AIOKafkaAdminClient, options: dict[str, Any], deadline_s: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    next_log = loop.time() + _PROGRESS_S
    while True:
        try:
            await admin.start()
            await _reach_brokers(admin)
        except (KafkaError, OSError) as error:
            refusal = await why_refused(options)
            if refusal is not None and refusal.is_final:
                raise ProvisionError(refusal.message) from error
            now = loop.time()
            if now >= deadline:
                msg = (
                    f"the cluster can't be reached after {deadline_s:g} s ({error}); "
                    f"{_advertised(admin) or 'start it, or correct KAFKA_BOOTSTRAP_SERVERS'}"
                )
                raise UnreachableError(msg if refusal is None else refusal.message) from error
            if now >= next_log:
                log.info("waiting for the cluster: %s", error if refusal is None else refusal.message)
                next_log = now + _PROGRESS_S
            await asyncio.sleep(_POLL_S)
        else:
            return


async def _reach_brokers(admin: AIOKafkaAdminClient) -> None:
    """Connect to a broker at the address that it advertises, which may be one that can't be reached from here."""
    # Until its metadata name the brokers, the client uses the bootstrap server.
    if not await admin._client.force_metadata_update():  # noqa: SLF001 - nothing public does it
        raise KafkaConnectionError("its brokers are not known yet")
    await admin.describe_cluster()


def _advertised(admin: AIOKafkaAdminClient) -> str | None:
    """Return what to do where the bootstrap server has responded, and the brokers that it names do not."""
    brokers = admin._client.cluster.brokers()  # noqa: SLF001 - nothing public has them
    if not brokers:
        return None
    addresses = ", ".join(sorted(f"{broker.host}:{broker.port}" for broker in brokers))
    return (
        f"its brokers advertise {addresses}: start them, or correct their advertised.listeners, or this machine's DNS"
    )


async def _warn_of_one_copy(admin: AIOKafkaAdminClient, replication: int) -> None:
    brokers = len((await admin.describe_cluster())["brokers"])
    if replication == 1 and brokers >= _MANY_BROKERS:
        log.warning(
            "OBOL_REPLICATION is 1 on a cluster of %d brokers: the loss of one loses bills for good; "
            "set OBOL_REPLICATION=3, and raise the replication of existing topics with kafka-reassign-partitions",
            brokers,
        )


async def _create(admin: AIOKafkaAdminClient, specs: Sequence[NewTopicSpec]) -> set[str]:
    """Request the creation of topics. Returns the names that exist or are being created, by us or by another worker."""
    log.info("creating %d topics: %s", len(specs), ", ".join(spec.name for spec in specs))
    response = await admin.create_topics(
        [NewTopic(spec.name, spec.partitions, spec.replication, topic_configs=dict(spec.config)) for spec in specs]
    )
    created: set[str] = set()
    for topic in response.to_object()["topic_errors"]:
        name, code = topic["topic"], topic["error_code"]
        error = for_code(code)
        if code == 0 or error is TopicAlreadyExistsError:
            created.add(name)
        elif not error.retriable:
            cause = (topic.get("error_message") or error.__name__).rstrip(".")
            msg = f"topic {name} can't be created: {cause}; correct the settings or the cluster, or create it yourself"
            raise ProvisionError(" ".join(msg.split()))
    return created


def _present(found: Mapping[str, Any], specs: Sequence[NewTopicSpec]) -> int:
    return sum(spec.name in found for spec in specs)


def _without_leader(found: Mapping[str, Any], specs: Sequence[NewTopicSpec]) -> str | None:
    for spec in specs:
        topic = found[spec.name]
        if topic["error_code"] or any(partition["leader"] < 0 for partition in topic["partitions"]):
            return spec.name
    return None


def _check_partitions(found: Mapping[str, Any], specs: Sequence[NewTopicSpec]) -> None:
    for spec in specs:
        has = len(found[spec.name]["partitions"])
        if has != spec.partitions:
            fix = "" if spec.partition_setting == "the contract" else f"set {spec.partition_setting}={has}, or "
            msg = (
                f"topic {spec.name} has {has} partitions, {spec.partition_setting} says {spec.partitions}; "
                f"{fix}use another OBOL_NAMESPACE, or delete the topic"
            )
            raise ProvisionError(msg)


async def check_configs(admin: AIOKafkaAdminClient, specs: Sequence[NewTopicSpec]) -> None:
    """Compare existing topics with what is fixed. Raises `ProvisionError` where one differs, and `KafkaError`."""
    checked = {spec.name: spec for spec in specs if spec.fixed}
    if not checked:
        return
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(spec.fixed)) for name, spec in checked.items()
    ]
    for response in await admin.describe_configs(resources):
        for resource in response.to_object()["resources"]:
            if resource["error_code"]:
                raise for_code(resource["error_code"])(resource["error_message"])
            spec = checked[resource["resource_name"]]
            found = {entry["config_names"]: entry["config_value"] for entry in resource["config_entries"]}
            for entry, required_by in spec.fixed.items():
                _check_config(spec, entry, found[entry], required_by)


def _check_config(spec: NewTopicSpec, entry: str, has: str, required_by: str) -> None:
    wanted = spec.config[entry]
    if has == wanted:
        return
    other = "broker" if has == "LogAppendTime" else "producer"
    fix = f"set OBOL_TIMESTAMPS={other}, or " if required_by == "OBOL_TIMESTAMPS" else ""
    msg = (
        f"topic {spec.name} has {entry}={has}, {required_by} says {wanted}; "
        f"{fix}set {entry}={wanted} on the topic with kafka-configs"
    )
    raise ProvisionError(msg)
