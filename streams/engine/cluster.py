"""Compares the cluster with what was committed: at start, and every few seconds while the worker runs.

A worker trusts its offsets and its rows. Neither means anything once an input is another topic by the same name or has
lost records that were applied, or once a changelog has lost rows. Kafka reports none of these.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final, TypeVar

from aiokafka.errors import KafkaError

from streams.engine import position as positions
from streams.engine.changelogs import Changelogs, new_changelog
from streams.engine.fatal import Accident, AccidentError
from streams.engine.partitions import Partitions
from streams.engine.ports import Admin, Clock, TopicPartition, TopicState
from streams.engine.position import Installation, Position, decode_position
from streams.engine.transactions import OpenTransactions
from streams.limits import MINUTE_MS
from streams.settings import Settings
from topics.catalogue import PRICES, TOPICS
from topics.provision import ProvisionError, new_topic

WATCH_S: Final = 10.0
"""How often the cluster is compared with what was committed."""

CONFIRM_S: Final = 2.0
"""An accident is confirmed by a second check after this: a broker's metadata may be outdated."""

SETTINGS_EVERY: Final = 3
"""In every third check, the settings of other workers and the topics' configurations are compared, too."""

MAX_ROW_AGE_MS: Final = 2 * MINUTE_MS
"""A partition commits every minute, for its tick. An older row may be from before its worker was restarted."""

AWAY_LOG_S: Final = 60.0

_RETRY_S: Final = 1.0

ResultT = TypeVar("ResultT")

log = logging.getLogger(__name__)


def installation(settings: Settings) -> Installation:
    """Return those of `settings` that must not change once there are rows."""
    return Installation(settings.partitions, settings.currency, settings.timestamps)


def live_settings(settings: Settings) -> dict[str, Any]:
    """Return those of `settings` that may change but should be the same for all workers, by variable."""
    return {
        "DEDICATED_BILLING_ENABLED": settings.billing_enabled,
        "DEDICATED_BILLING_DRY_RUN": settings.billing_dry_run,
        "OBOL_CLOCK": settings.clock,
        "OBOL_ID_RETENTION_D": settings.id_retention_d,
        "OBOL_RETENTION_H": settings.retention_h,
    }


class ClusterWatch:
    """Watches the cluster for one worker.

    `inputs`: full names of the input topics, prices included, and their names without namespace. `prices_read` returns
    the offset up to which prices were read. `topic_ids`: by name without namespace, the ids that the check at start
    found. `is_answering`: whether the cluster responded to the last request. `disagreements`: settings that are not
    the same on other workers, one line each. `transactions`: open ones of other programs, which block inputs.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: Partitions,
        *,
        inputs: Mapping[str, str],
        changelogs: Changelogs,
        prices_read: Callable[[], int],
        admin: Admin,
        clock: Clock,
    ) -> None:
        self.topic_ids: dict[str, str] = {}
        self.is_answering = True
        self.disagreements: list[str] = []
        self.transactions = OpenTransactions(admin)
        self._prices_from = 0
        self._settings = settings
        self._partitions = partitions
        self._inputs = inputs
        self._changelogs = changelogs
        self._prices_read = prices_read
        self._admin = admin
        self._clock = clock

    # At start

    async def check_start(self) -> None:
        """Compare the cluster with the positions of all partitions. Retries while the cluster does not respond.

        Raises `AccidentError` when two checks fail, and `KafkaError` when a retry is of no use.
        """
        while True:
            try:
                await self._twice(self._check_start)
            except KafkaError as error:
                if not error.retriable:
                    raise
                log.info("the cluster can't be compared with what was committed yet (%r); retrying", error)
                await self._clock.sleep(_RETRY_S)
            else:
                return

    async def _check_start(self) -> None:
        rows = await self._positions(range(self._settings.partitions))
        for partition, (position, _) in rows.items():
            check_installation(partition, position.installation, installation(self._settings))
        applied: dict[TopicPartition, int] = {}
        changelog_ends: dict[TopicPartition, int] = {}
        for partition, (position, _) in rows.items():
            applied |= {
                (name, partition): position.offsets[topic]
                for name, topic in self._inputs.items()
                if topic in position.offsets
            }
            changelog_ends |= {
                (self._changelogs.name(table), partition): end
                for table, end in position.changelogs.items()
                if table in self._changelogs
            }
            applied[self._prices, 0] = max(applied.get((self._prices, 0), 0), position.prices)
            self.topic_ids |= position.topics
        await self._check_rows_exist(rows)
        states = await self._check_topics()
        await self._check_offsets(applied, changelog_ends)
        self.topic_ids |= {self._inputs[name]: state.id for name, state in states.items() if state.id is not None}

    async def _check_rows_exist(self, rows: Mapping[int, Any]) -> None:
        """Raise `AccidentError` where input offsets were committed and the row committed with them is gone."""
        without = set(range(self._settings.partitions)) - rows.keys()
        if not without:
            return
        for (name, partition), offset in (await self._admin.committed_offsets(self._settings.app_id)).items():
            if partition in without and name in self._inputs and offset > 0:
                changelog = self._changelogs.name(positions.TABLE)
                msg = (
                    f"{changelog} partition {partition} has no row, but {name} was applied up to offset {offset}: the "
                    "changelog was deleted or emptied; restore the changelogs of this installation from a copy, or "
                    "use another OBOL_NAMESPACE"
                )
                raise AccidentError(Accident.CHANGELOG_DAMAGED, msg)

    async def _positions(self, partitions: Iterable[int]) -> dict[int, tuple[Position, int]]:
        """Return the last position of each partition that has one, and when it was written, in ms.

        Raises `AccidentError` and `KafkaError`.
        """
        name = self._changelogs.name(positions.TABLE)
        found = await self._admin.last_records((name, partition) for partition in partitions)
        return {
            partition: (decode_position(record.value), record.timestamp)
            for (_, partition), record in found.items()
            if record.value is not None
        }

    @property
    def _prices(self) -> str:
        return self._settings.topic(PRICES.name)

    # While the worker runs

    async def run(self) -> None:
        """Watch for ever. Raises `AccidentError`."""
        away_s = logged_s = 0.0
        for round_ in count(1):
            await self._clock.sleep(WATCH_S)
            asked_s = self._clock.monotonic_s()
            try:
                await self.transactions.check(*await self._twice(self._check))
                if round_ % SETTINGS_EVERY == 0:
                    await self._compare_settings()
                    await self._twice(self._check_configs)
            except KafkaError as error:
                self.is_answering = False
                now_s = self._clock.monotonic_s()
                away_s += WATCH_S + now_s - asked_s
                if logged_s == 0.0 or now_s >= logged_s + AWAY_LOG_S:
                    log.warning("the cluster has not answered for about %d s (%r); waiting for it", away_s, error)
                    logged_s = now_s
                continue
            if not self.is_answering:
                log.warning("the cluster answers again after about %d s", away_s)
            self.is_answering, away_s, logged_s = True, 0.0, 0.0

    async def check(self) -> None:
        """Compare the cluster with what this worker has applied and written.

        Raises `AccidentError` when two checks fail, and `KafkaError`.
        """
        await self._twice(self._check)

    async def _twice(self, check: Callable[[], Awaitable[ResultT]]) -> ResultT:
        try:
            return await check()
        except AccidentError:
            await self._clock.sleep(CONFIRM_S)
            return await check()

    async def _check(self) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
        """Return the offsets up to which inputs were read, and their end offsets."""
        working = self._partitions.working()
        shards = self._partitions.shards
        applied = {
            (name, partition): shards[partition].merge.fetched(topic)
            for name, topic in self._inputs.items()
            for partition in working
            if name != self._prices
        }
        applied[self._prices, 0] = self._prices_read()
        ends = {
            (self._changelogs.name(table), partition): end
            for partition in working
            for table, end in self._changelogs.ends(partition).items()
        }
        await self._check_topics()
        return applied, await self._check_offsets(applied, ends)

    async def _check_topics(self) -> dict[str, TopicState]:
        """Return the inputs' states. Raises `AccidentError` where one is missing, is another, or has grown."""
        changelogs = dict.fromkeys(self._changelogs.names())
        states = await self._admin.topics([*self._inputs, *changelogs])
        for name in (*self._inputs, *changelogs):
            state = states.get(name)
            topic = self._inputs.get(name)
            if state is None:
                if topic is None:
                    msg = f"{name} does not exist any more; restore it from a copy, or use another OBOL_NAMESPACE"
                    raise AccidentError(Accident.CHANGELOG_DAMAGED, msg)
                msg = f"{name} does not exist any more; create it again, and run `obol accept-reset {topic}`"
                raise AccidentError(Accident.INPUT_RESET, msg)
            if topic is not None:
                check_id(name, topic, self.topic_ids.get(topic), state.id)
            wanted = 1 if name == self._prices else self._settings.partitions
            if state.partitions != wanted:
                raise AccidentError(Accident.PARTITIONS_CHANGED, other_partitions(name, state.partitions, wanted))
        return {name: states[name] for name in self._inputs}

    async def _check_offsets(
        self, applied: Mapping[TopicPartition, int], changelog_ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Return the end offsets of the inputs and the changelogs.

        Raises `AccidentError` if an input ends before what was applied, or a changelog has lost rows.
        """
        asked = [*applied, *changelog_ends]
        ends = await self._admin.end_offsets(asked)
        beginnings = await self._admin.beginning_offsets([*changelog_ends, (self._prices, 0)])
        for partition, offset in applied.items():
            check_end(partition, self._inputs[partition[0]], offset, ends[partition])
        for partition, end in changelog_ends.items():
            check_changelog(partition, end, beginnings[partition], ends[partition])
        self._check_prices(beginnings[self._prices, 0])
        return ends

    def _check_prices(self, beginning: int) -> None:
        """Log, once, that prices were deleted: those that are left may not say what an hour cost at an earlier time."""
        if beginning <= self._prices_from:
            return
        self._prices_from = beginning
        log.error(
            "%s begins at offset %d: the prices before that were deleted, and are unknown to a worker that starts; "
            "publish them again, with the times from which on they hold",
            *(self._prices, beginning),
        )

    async def _check_configs(self) -> None:
        """Raise `AccidentError` if a topic's configuration is not the required one any more."""
        settings = self._settings
        changelogs = [new_changelog(name, settings) for name in self._changelogs.names()]
        try:
            await self._admin.check_configs([*(new_topic(spec, settings) for spec in TOPICS.values()), *changelogs])
        except ProvisionError as error:
            raise AccidentError(Accident.WRONG_SETTING, str(error)) from error

    async def _compare_settings(self) -> None:
        """Log, once, the settings that are not the same on other workers."""
        others = set(range(self._settings.partitions)) - self._partitions.shards.keys()
        now_ms, own = self._clock.now_ms(), live_settings(self._settings)
        found: list[str] = []
        for partition, (position, written_ms) in sorted((await self._positions(others)).items()):
            if now_ms - written_ms > MAX_ROW_AGE_MS or partition in self._partitions.shards:
                continue
            for variable, value in position.settings.items():
                if variable in own and own[variable] != value:
                    found.append(f"{variable} is {value} at {position.worker}, and {own[variable]} here")
        found = list(dict.fromkeys(found))
        for line in found:
            if line not in self.disagreements:
                log.error("workers disagree: %s; set it to the same value for all workers, and restart them", line)
        if self.disagreements and not found:
            log.info("workers agree again")
        self.disagreements = found


def check_installation(partition: int, made_under: Installation | None, own: Installation) -> None:
    """Raise `AccidentError` where rows were made under other settings. None: rows from before these were recorded."""
    if made_under is None or made_under == own:
        return
    for variable, kept, now in (
        ("OBOL_PARTITIONS", made_under.partitions, own.partitions),
        ("OBOL_CURRENCY", made_under.currency, own.currency),
        ("OBOL_TIMESTAMPS", made_under.timestamps, own.timestamps),
    ):
        if kept != now:
            msg = (
                f"{variable} is {now}, but the rows of partition {partition} were made under {kept}; "
                f"set {variable}={kept}, or use another OBOL_NAMESPACE"
            )
            raise AccidentError(Accident.OTHER_INSTALLATION, msg)


def other_partitions(name: str, found: int, kept: int) -> str:
    """Return the message about a topic that has another number of partitions than the rows."""
    return (
        f"{name} has {found} partitions, but the rows are kept under {kept}: an org's records would arrive where its "
        f"rows are not; make the topic again with {kept} partitions and run `obol accept-reset`, or use another "
        "OBOL_NAMESPACE"
    )


def check_id(name: str, topic: str, known: str | None, found: str | None) -> None:
    """Raise `AccidentError` where an input is another topic than the one that was read; None: not known."""
    if known is None or found is None or known == found:
        return
    msg = (
        f"{name} was deleted and made again: its topic id is {found}, that of the records applied is {known}; if that "
        f"was intended, run `obol accept-reset {topic}` to read the new topic from its beginning"
    )
    raise AccidentError(Accident.INPUT_RESET, msg)


def check_end(partition: TopicPartition, topic: str, applied: int, end: int) -> None:
    """Raise `AccidentError` where an input ends before what was applied."""
    if end >= applied:
        return
    msg = (
        f"{partition[0]} partition {partition[1]} ends at offset {end}, but was applied up to {applied}: it lost its "
        f"last records, or was made again; if nothing can be restored, run `obol accept-reset {topic}`"
    )
    raise AccidentError(Accident.INPUT_RESET, msg)


def check_changelog(partition: TopicPartition, committed: int, beginning: int, end: int) -> None:
    """Raise `AccidentError` where a changelog does not have everything that was committed to it."""
    if end >= committed and beginning == 0:
        return
    what = f"ends at offset {end}, but was written up to {committed}" if end < committed else f"begins at {beginning}"
    msg = (
        f"{partition[0]} partition {partition[1]} {what}: rows are lost; restore the changelogs of this installation "
        "from a copy, or use another OBOL_NAMESPACE"
    )
    raise AccidentError(Accident.CHANGELOG_DAMAGED, msg)
