"""The comparison of a cluster with what was committed: every difference is found, and nothing else is reported."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, GroupCoordinatorNotAvailableError, KafkaConnectionError

from streams.engine.changelogs import Changelogs
from streams.engine.cluster import CONFIRM_S, MAX_ROW_AGE_MS, SETTINGS_EVERY, WATCH_S, ClusterWatch, live_settings
from streams.engine.fatal import Accident, AccidentError
from streams.engine.merge import Merge
from streams.engine.ports import TopicState
from streams.engine.position import FORMAT, KEY, TABLE, Installation, Position, decode_position, encode_position
from streams.engine.shard import INPUTS
from streams.engine.tasks import cancel_and_wait
from streams.settings import Settings
from tests.unit.engine.fakes import FakeClock, FakeKafka, Written
from topics.catalogue import COMMANDS, INBOUND, PRICES

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = Settings.from_env({"OBOL_PARTITIONS": "2", "OBOL_NAMESPACE": "dev"})
POSITIONS = "dev.obol-positions-changelog"
ORGS = "dev.obol-orgs-changelog"
COMMAND_LOG = ("dev.user.commands", 0)
PRICE_LOG = ("dev.croesus.prices", 0)


class FakeShard:
    """A shard that has fetched nothing."""

    def __init__(self) -> None:
        self.merge = Merge([(topic, at, 1) for at, topic in enumerate((PRICES.name, *INPUTS))], stall_timeout_s=2.0)


class FakePartitions:
    """Partitions, all of which work."""

    def __init__(self) -> None:
        self.shards: dict[int, Any] = {}

    def working(self) -> list[int]:
        return list(self.shards)


class Cluster:
    """A cluster with one position for each of two partitions, as a worker left it."""

    def __init__(self) -> None:
        self.kafka, self.clock = FakeKafka(), FakeClock()
        self.kafka.partitions = 2
        self.partitions: Any = FakePartitions()
        self.changelogs = Changelogs("dev.obol", ["orgs", TABLE])
        self.prices_read = 0
        self.write(COMMAND_LOG, 5)
        self.write((ORGS, 0), 4)
        self.write(PRICE_LOG, 3)
        for partition in range(2):
            self.commit(partition)
        self.watch = self.new_watch()

    def new_watch(self) -> ClusterWatch:
        return ClusterWatch(
            SETTINGS,
            self.partitions,
            inputs={SETTINGS.topic(spec.name): spec.name for spec in INBOUND},
            changelogs=self.changelogs,
            prices_read=lambda: self.prices_read,
            admin=self.kafka.admin("test"),
            clock=self.clock,
        )

    def write(self, partition: tuple[str, int], records: int) -> None:
        log = self.kafka.logs[partition]
        log += [Written(len(log) + at, 0) for at in range(records)]

    def commit(self, partition: int, **changes: Any) -> None:
        position = Position(
            offsets={COMMANDS.name: 5} if partition == 0 else {},
            installation=Installation(2, "JPY", "broker"),
            changelogs={"orgs": 4, TABLE: 2} if partition == 0 else {"orgs": 0, TABLE: 2},
            topics={COMMANDS.name: "id-of-dev.user.commands"},
            prices=3,
            worker="http://a",
            settings=live_settings(SETTINGS),
        )
        for name, value in changes.items():
            setattr(position, name, value)
        log = self.kafka.logs[POSITIONS, partition]
        written_ms = self.clock.now_ms()
        log += [Written(len(log), written_ms, KEY, encode_position(position)), Written(len(log) + 1, -1)]

    async def refused(self) -> AccidentError:
        checking = asyncio.create_task(self.watch.check_start())
        await self.clock.advance(CONFIRM_S)
        with pytest.raises(AccidentError) as refused:
            await checking
        assert "\n" not in str(refused.value)
        return refused.value


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def test_an_unchanged_cluster_is_accepted(cluster: Cluster) -> None:
    await cluster.watch.check_start()
    assert cluster.watch.topic_ids == {spec.name: f"id-of-dev.{spec.name}" for spec in INBOUND}


async def test_a_new_installation_is_accepted(cluster: Cluster) -> None:
    cluster.kafka.logs.clear()
    await cluster.watch.check_start()


async def test_rows_of_a_version_without_these_fields_are_accepted(cluster: Cluster) -> None:
    cluster.kafka.logs[POSITIONS, 0] = [Written(0, 0, KEY, b'{"as_of":7,"offsets":{"user.commands":5},"counts":{}}')]
    await cluster.watch.check_start()


async def test_a_broker_that_gives_no_ids_is_no_accident(cluster: Cluster) -> None:
    for spec in INBOUND:
        cluster.kafka.states[f"dev.{spec.name}"] = TopicState(None, spec.partitions(2))
    await cluster.watch.check_start()
    assert cluster.watch.topic_ids == {COMMANDS.name: "id-of-dev.user.commands"}


ACCIDENTS: list[tuple[Callable[[Cluster], object], Accident, str]] = [
    (
        lambda at: at.commit(1, installation=Installation(4, "JPY", "broker")),
        Accident.OTHER_INSTALLATION,
        "OBOL_PARTITIONS is 2, but the rows of partition 1 were made under 4; set OBOL_PARTITIONS=4",
    ),
    (
        lambda at: at.commit(0, installation=Installation(2, "USD", "broker")),
        Accident.OTHER_INSTALLATION,
        "set OBOL_CURRENCY=USD",
    ),
    (
        lambda at: at.commit(0, installation=Installation(2, "JPY", "producer")),
        Accident.OTHER_INSTALLATION,
        "set OBOL_TIMESTAMPS=producer",
    ),
    (
        lambda at: at.kafka.states.update({COMMAND_LOG[0]: TopicState("other", 2)}),
        Accident.INPUT_RESET,
        "its topic id is other",
    ),
    (
        lambda at: at.kafka.states.update({COMMAND_LOG[0]: None}),
        Accident.INPUT_RESET,
        "does not exist any more; create it again, and run `obol accept-reset user.commands`",
    ),
    (
        lambda at: at.kafka.logs[COMMAND_LOG].pop(),
        Accident.INPUT_RESET,
        "dev.user.commands partition 0 ends at offset 4, but was applied up to 5",
    ),
    (
        lambda at: at.kafka.logs[PRICE_LOG].pop(),
        Accident.INPUT_RESET,
        "dev.croesus.prices partition 0 ends at offset 2, but was applied up to 3",
    ),
    (
        lambda at: at.kafka.states.update({COMMAND_LOG[0]: TopicState("id-of-dev.user.commands", 3)}),
        Accident.PARTITIONS_CHANGED,
        "dev.user.commands has 3 partitions, but the rows are kept under 2",
    ),
    (
        lambda at: at.kafka.states.update({ORGS: TopicState(None, 3)}),
        Accident.PARTITIONS_CHANGED,
        f"{ORGS} has 3 partitions, but the rows are kept under 2",
    ),
    (
        lambda at: at.kafka.states.update({ORGS: None}),
        Accident.CHANGELOG_DAMAGED,
        f"{ORGS} does not exist any more",
    ),
    (
        lambda at: at.kafka.logs[ORGS, 0].pop(),
        Accident.CHANGELOG_DAMAGED,
        f"{ORGS} partition 0 ends at offset 3, but was written up to 4",
    ),
    (
        lambda at: at.kafka.beginnings.update({(ORGS, 0): 1}),
        Accident.CHANGELOG_DAMAGED,
        f"{ORGS} partition 0 begins at 1: rows are lost",
    ),
    (
        lambda at: (at.kafka.logs.pop((POSITIONS, 0)), at.kafka.offsets.update({COMMAND_LOG: 5})),
        Accident.CHANGELOG_DAMAGED,
        f"{POSITIONS} partition 0 has no row, but dev.user.commands was applied up to offset 5",
    ),
]


@pytest.mark.parametrize(("happens", "accident", "line"), ACCIDENTS)
async def test_a_difference_is_refused(
    cluster: Cluster, happens: Callable[[Cluster], object], accident: Accident, line: str
) -> None:
    happens(cluster)
    error = await cluster.refused()
    assert error.accident is accident
    assert line in str(error)


async def test_requests_are_retried_until_the_cluster_responds(cluster: Cluster) -> None:
    cluster.kafka.failing["end_offsets"] = GroupCoordinatorNotAvailableError()
    checking = asyncio.create_task(cluster.watch.check_start())
    await cluster.clock.advance(30.0)
    assert not checking.done()
    cluster.kafka.failing.clear()
    await cluster.clock.advance(1.0)
    await checking
    cluster.kafka.failing["end_offsets"] = GroupAuthorizationFailedError()
    with pytest.raises(GroupAuthorizationFailedError):
        await cluster.watch.check_start()


def test_a_position_of_a_newer_format_is_refused() -> None:
    written = encode_position(Position(as_of=3))
    assert decode_position(written) == Position(as_of=3, format=FORMAT)
    newer = written.replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT + 1)).replace(
        b'"as_of":3', b'"as_of":"3"'
    )
    with pytest.raises(
        AccidentError, match=f"the rows have format {FORMAT + 1}, and this version of Obol knows"
    ) as end:
        decode_position(newer)
    assert end.value.accident is Accident.NEWER_FORMAT


# While the worker runs


async def test_an_accident_found_by_two_checks_ends_the_watch(cluster: Cluster) -> None:
    await cluster.watch.check_start()
    cluster.partitions.shards = {0: FakeShard()}
    cluster.partitions.shards[0].merge.restart({COMMANDS.name: 5}, {})
    cluster.changelogs.advance((ORGS, 0), 3)
    watching = asyncio.create_task(cluster.watch.run())
    await cluster.clock.advance(10 * WATCH_S)
    assert not watching.done()
    cluster.kafka.states[COMMAND_LOG[0]] = TopicState("other", 2)
    await cluster.clock.advance(WATCH_S + 1.0)
    del cluster.kafka.states[COMMAND_LOG[0]]
    await cluster.clock.advance(10 * WATCH_S)
    assert not watching.done(), "metadata may be a moment old"
    cluster.kafka.logs[COMMAND_LOG].pop()
    await cluster.clock.advance(2 * WATCH_S)
    with pytest.raises(
        AccidentError, match=r"dev\.user\.commands partition 0 ends at offset 4, but was applied up to 5"
    ):
        await watching


async def test_rows_that_a_changelog_loses_end_the_watch(cluster: Cluster) -> None:
    cluster.partitions.shards = {0: FakeShard()}
    cluster.changelogs.advance((ORGS, 0), 4)
    watching = asyncio.create_task(cluster.watch.run())
    await cluster.clock.advance(2 * WATCH_S)
    with pytest.raises(AccidentError, match=f"{ORGS} partition 0 ends at offset 4, but was written up to 5"):
        await watching


async def test_an_unreachable_cluster_is_waited_for_and_logged_once_a_minute(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.kafka.failing["topics"] = KafkaConnectionError("no route")
    watching = asyncio.create_task(cluster.watch.run())
    await cluster.clock.advance(601.0)
    away = not cluster.watch.is_answering
    assert away
    lines = [line for line in caplog.messages if "has not answered" in line]
    assert len(lines) == 10
    assert lines[0].startswith("the cluster has not answered for about 10 s (KafkaConnectionError('no route'))")
    cluster.kafka.failing.clear()
    await cluster.clock.advance(WATCH_S)
    assert cluster.watch.is_answering
    assert caplog.messages[-1].startswith("the cluster answers again")
    await cancel_and_wait([watching])


async def test_different_settings_are_logged_once_until_they_agree(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cluster.partitions.shards = {0: FakeShard()}
    other = live_settings(SETTINGS) | {"OBOL_RETENTION_H": 24}
    # The settings in its own partition were written by the previous owner.
    cluster.commit(0, settings=other)
    watching = asyncio.create_task(cluster.watch.run())
    await cluster.clock.advance(3 * WATCH_S)
    assert cluster.watch.disagreements == []
    cluster.commit(1, settings=other, worker="http://b")
    await cluster.clock.advance(3 * WATCH_S)
    assert cluster.watch.disagreements == ["OBOL_RETENTION_H is 24 at http://b, and 168 here"]
    assert caplog.text.count("workers disagree: OBOL_RETENTION_H is 24 at http://b, and 168 here") == 1
    await cluster.clock.advance(MAX_ROW_AGE_MS / 1_000)
    assert cluster.watch.disagreements == [], "nothing was written for two minutes"
    assert "workers agree again" in caplog.text
    await cancel_and_wait([watching])


async def test_a_configuration_that_is_changed_ends_the_watch(cluster: Cluster) -> None:
    watching = asyncio.create_task(cluster.watch.run())
    await cluster.clock.advance(SETTINGS_EVERY * WATCH_S - 1.0)
    cluster.kafka.misconfigured[ORGS] = f"topic {ORGS} has cleanup.policy=delete"
    await cluster.clock.advance(1.0 + CONFIRM_S / 2)
    del cluster.kafka.misconfigured[ORGS]
    await cluster.clock.advance(SETTINGS_EVERY * WATCH_S)
    assert not watching.done(), "it was corrected at once"
    cluster.kafka.misconfigured[COMMAND_LOG[0]] = "topic dev.user.commands has cleanup.policy=compact"
    await cluster.clock.advance(2 * SETTINGS_EVERY * WATCH_S)
    with pytest.raises(AccidentError, match=r"dev\.user\.commands has cleanup\.policy=compact") as ended:
        await watching
    assert ended.value.accident is Accident.WRONG_SETTING


async def test_prices_that_were_deleted_are_reported_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    await cluster.watch.check_start()
    assert not caplog.messages
    cluster.kafka.beginnings[PRICE_LOG] = 2
    for _ in range(2):
        await cluster.watch.check()
    (line,) = caplog.messages
    assert line.startswith("dev.croesus.prices begins at offset 2: the prices before that were deleted")
