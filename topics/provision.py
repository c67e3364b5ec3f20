"""Topics that are missing are made; one that differs from the settings is refused with the mend (contract)."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from topics.catalogue import TOPICS, Timestamps, TopicSpec
from topics.login import why_refused

DEADLINE_S: Final = 60.0

_POLL_S: Final = 0.2
_PROGRESS_S: Final = 1.0
_TIMESTAMP_TYPE: Final = "message.timestamp.type"

log = logging.getLogger(__name__)


class ProvisionError(RuntimeError):
    """A topic that can't be made, or is not as the settings say: one line that names it, what it has, and the mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicSpec:
    """A topic as it shall be; `name` is the full one.

    `config` counts when it is made. Of one that is there, the partition count must fit, and, where `timestamp_setting`
    names the setting that decides it, `message.timestamp.type` too; all else is the operator's to change.
    """

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)
    partition_setting: str = "OBOL_PARTITIONS"
    timestamp_setting: str | None = None


class ProvisionSettings(Protocol):
    """What `provision` needs to know of an installation."""

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
        """Give a topic's full name."""

    def kafka_client_options(self) -> dict[str, Any]:
        """Give keyword arguments for aiokafka's clients."""


def new_topic(spec: TopicSpec, settings: ProvisionSettings) -> NewTopicSpec:
    """Translate a row of the catalogue into a topic as this installation has it."""
    return NewTopicSpec(
        name=settings.topic(spec.name),
        partitions=spec.partitions(settings.partitions),
        replication=settings.replication,
        config=spec.config(settings.timestamps, settings.replication),
        partition_setting="the contract" if spec.one_partition else "OBOL_PARTITIONS",
        timestamp_setting="OBOL_TIMESTAMPS" if spec.direction == "in" else "the contract",
    )


async def provision(settings: ProvisionSettings, *, deadline_s: float = DEADLINE_S) -> None:
    """Make every topic of the catalogue that is missing, and check the others. Any number of workers may do so at once.

    Raises `ProvisionError`: at once where it is certain that the cluster turns us away, and when the topics are not all
    there after `deadline_s` seconds.
    """
    options = settings.kafka_client_options()
    admin = AIOKafkaAdminClient(**options)
    try:
        await _connect(admin, options, deadline_s)
        await ensure_topics(admin, [new_topic(spec, settings) for spec in TOPICS.values()], deadline_s=deadline_s)
    finally:
        await admin.close()


async def ensure_topics(
    admin: AIOKafkaAdminClient, specs: Sequence[NewTopicSpec], *, deadline_s: float = DEADLINE_S
) -> None:
    """Make those of `specs` that are missing, wait until each partition of all has a leader, and check them.

    Nothing is ever deleted, shrunk or changed. Raises `ProvisionError`.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    next_word = start + _PROGRESS_S
    waiting_for = "the cluster"
    asked: set[str] = set()
    while True:
        try:
            # All topics are listed: asking for one by name could make the broker create it, its own way.
            found = {topic["topic"]: topic for topic in await admin.describe_topics()}
            missing = [spec for spec in specs if spec.name not in found]
            if not missing and (unled := _without_leader(found, specs)) is None:
                _check_partitions(found, specs)
                await _check_timestamps(admin, specs)
                return
            waiting_for = f"topic {missing[0].name}" if missing else f"a leader of topic {unled}"
            if new := [spec for spec in missing if spec.name not in asked]:
                asked |= await _create(admin, new)
        except (KafkaError, OSError) as error:
            waiting_for = f"the cluster ({type(error).__name__})"
            asked.clear()
        now = loop.time()
        if now >= start + deadline_s:
            msg = (
                f"{waiting_for} is not there after {deadline_s:g} s; "
                "check that KAFKA_BOOTSTRAP_SERVERS names a running cluster with at least OBOL_REPLICATION brokers"
            )
            raise ProvisionError(msg)
        if now >= next_word:
            log.info("waiting for %s, %d of %d topics are there", waiting_for, _present(found, specs), len(specs))
            next_word = now + _PROGRESS_S
        await asyncio.sleep(_POLL_S)


async def _connect(admin: AIOKafkaAdminClient, options: dict[str, Any], deadline_s: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    next_word = loop.time() + _PROGRESS_S
    while True:
        try:
            await admin.start()
        except (KafkaError, OSError) as error:
            refusal = await why_refused(options)
            if refusal is not None and refusal.is_certain:
                raise ProvisionError(refusal.words) from error
            now = loop.time()
            if now >= deadline:
                msg = (
                    f"the cluster can't be reached after {deadline_s:g} s ({error}); "
                    "start it, or correct KAFKA_BOOTSTRAP_SERVERS"
                )
                raise ProvisionError(msg if refusal is None else refusal.words) from error
            if now >= next_word:
                log.info("waiting for the cluster: %s", error if refusal is None else refusal.words)
                next_word = now + _PROGRESS_S
            await asyncio.sleep(_POLL_S)
        else:
            return


async def _create(admin: AIOKafkaAdminClient, specs: Sequence[NewTopicSpec]) -> set[str]:
    """Ask for topics; returns those that need not be asked for again. Another worker may have been first."""
    log.info("making %d topics: %s", len(specs), ", ".join(spec.name for spec in specs))
    response = await admin.create_topics(
        [NewTopic(spec.name, spec.partitions, spec.replication, topic_configs=dict(spec.config)) for spec in specs]
    )
    asked: set[str] = set()
    for topic in response.to_object()["topic_errors"]:
        name, code = topic["topic"], topic["error_code"]
        error = for_code(code)
        if code == 0 or error is TopicAlreadyExistsError:
            asked.add(name)
        elif not error.retriable:
            told = (topic.get("error_message") or error.__name__).rstrip(".")
            msg = (
                f"topic {name} can't be made: {told}; mend that in the settings or in the cluster, or make it yourself"
            )
            raise ProvisionError(" ".join(msg.split()))
    return asked


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
            mend = "" if spec.partition_setting == "the contract" else f"set {spec.partition_setting}={has}, or "
            msg = (
                f"topic {spec.name} has {has} partitions, {spec.partition_setting} says {spec.partitions}; "
                f"{mend}use another OBOL_NAMESPACE, or remove the topic"
            )
            raise ProvisionError(msg)


async def _check_timestamps(admin: AIOKafkaAdminClient, specs: Sequence[NewTopicSpec]) -> None:
    judged = {spec.name: spec for spec in specs if spec.timestamp_setting is not None}
    if not judged:
        return
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, {_TIMESTAMP_TYPE: None}) for name in judged]
    for response in await admin.describe_configs(resources):
        for resource in response.to_object()["resources"]:
            if resource["error_code"]:
                raise for_code(resource["error_code"])(resource["error_message"])
            spec = judged[resource["resource_name"]]
            wanted = spec.config[_TIMESTAMP_TYPE]
            has = next(
                entry["config_value"]
                for entry in resource["config_entries"]
                if entry["config_names"] == _TIMESTAMP_TYPE
            )
            if has != wanted:
                other = "broker" if has == "LogAppendTime" else "producer"
                mend = f"set OBOL_TIMESTAMPS={other}, or " if spec.timestamp_setting == "OBOL_TIMESTAMPS" else ""
                msg = (
                    f"topic {spec.name} has {_TIMESTAMP_TYPE}={has}, {spec.timestamp_setting} says {wanted}; "
                    f"{mend}set {_TIMESTAMP_TYPE}={wanted} on it with kafka-configs"
                )
                raise ProvisionError(msg)
