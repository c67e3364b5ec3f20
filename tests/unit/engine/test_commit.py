"""Commits with a producer in memory: the content and order of one transaction, and when it is written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from streams.engine import position as positions
from streams.engine.changelogs import Changelogs, ends_after
from streams.engine.commit import BLOCKED_RETRY_S, MAX_COMMITS_AT_ONCE, Commits, Committer
from streams.engine.fatal import Accident
from streams.engine.ports import TRANSACTION_TIMEOUT_MS, FencedError, IdForgottenError
from streams.engine.position import Position, decode_position, encode_position
from streams.engine.shard import Commit, Outgoing
from streams.engine.waits import Waits
from streams.rules.decision import LogLine
from tests.unit.engine.fakes import FakeClock, FakeKafka, Written, process_end, settle
from topics.catalogue import COMMANDS, HEARTBEATS, RESULTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

INTERVAL_S = 0.5
POSITIONS = ("obol-positions-changelog", 0)
RESULT = Outgoing(RESULTS.name, 1, b"acme", b"{}", 60_000, (("a", b"1"),))
ROWS: list[tuple[bytes, bytes | None]] = [(b"a", b"1"), (b"b", None), (b"c", b"3")]
COMMIT = Commit(0, rows={"orgs": ROWS, "positions": [(b"p", b"{}")]}, outputs=[RESULT], offsets={COMMANDS.name: 7})


def committer(kafka: FakeKafka, clock: FakeClock, partition: int = 0) -> Committer:
    return Committer(
        partition,
        kafka=kafka,
        clock=clock,
        app_id="obol",
        topic=lambda name: f"dev.{name}",
        changelog=lambda table: f"obol-{table}-changelog",
    )


# One transaction


async def test_a_transaction_holds_rows_messages_and_offsets_in_that_order() -> None:
    kafka, clock = FakeKafka(), FakeClock()
    await clock.advance(90.0)
    writer = committer(kafka, clock)
    await writer.fence()
    ends = await writer.commit(COMMIT)
    assert kafka.calls == [
        "fence obol-0",
        "begin obol-0",
        "add_partitions obol-0",
        "send_batch obol-orgs-changelog obol-0",
        "send_batch obol-positions-changelog obol-0",
        f"send_batch dev.{RESULTS.name} obol-0",
        "send_offsets obol obol-0",
        "commit obol-0",
    ]
    assert [record[1:4] for record in kafka.records(("obol-orgs-changelog", 0))] == [
        (90_000, b"a", b"1"),
        (90_000, b"b", None),
        (90_000, b"c", b"3"),
    ]
    assert [record[1:] for record in kafka.records((f"dev.{RESULTS.name}", 1))] == [
        (60_000, b"acme", b"{}", (("a", b"1"),))
    ]
    assert kafka.offsets == {(f"dev.{COMMANDS.name}", 0): 7}
    # The rows of `orgs` have the offsets 0 to 2, its marker has 3.
    assert ends == {"orgs": 3, "positions": 1}


async def test_more_rows_than_fit_a_batch_are_all_written() -> None:
    kafka = FakeKafka(max_batch_records=2)
    writer = committer(kafka, FakeClock())
    await writer.fence()
    rows: list[tuple[bytes, bytes | None]] = [(b"%d" % n, b"{}") for n in range(5)]
    assert await writer.commit(Commit(0, rows={"orgs": rows}, offsets={COMMANDS.name: 1})) == {"orgs": 5}
    assert kafka.calls.count("send_batch obol-orgs-changelog obol-0") == 3
    assert [(record.key, record.value) for record in kafka.records(("obol-orgs-changelog", 0))] == rows


async def test_the_previous_owner_is_fenced() -> None:
    kafka, clock = FakeKafka(), FakeClock()
    first, second = committer(kafka, clock), committer(kafka, clock)
    await first.fence()
    await second.fence()
    with pytest.raises(FencedError) as raised:
        await first.commit(COMMIT)
    assert isinstance(raised.value.__cause__, KafkaError)
    assert kafka.offsets == {}


# Commits of all partitions


class FakeShard:
    """A shard that returns a commit whenever `due` is set, as if it had applied records."""

    def __init__(self, partition: int, commits: Commits) -> None:
        self.partition = partition
        self.commits = commits
        self.position = Position()
        self.refusal: str | None = None
        self.outputs: list[Outgoing] = []
        self._due = 0

    @property
    def due(self) -> int:
        return self._due

    @due.setter
    def due(self, commits: int) -> None:
        self._due = commits
        self.commits.commit_later(cast("Any", self))

    @property
    def has_moved(self) -> bool:
        return self.due > 0

    def drain(self, ends: dict[str, int]) -> Commit | None:
        if not self.due:
            return None
        self._due -= 1
        log_lines = [LogLine("info", "dry run", {"window": "w1"})]
        self.position.offsets[HEARTBEATS.name] = self.position.offsets.get(HEARTBEATS.name, 0) + 1
        offsets = dict(self.position.offsets)
        row = (positions.KEY, encode_position(Position(offsets=offsets)))
        rows: dict[str, list[tuple[bytes, bytes | None]]] = {"orgs": ROWS, positions.TABLE: [row]}
        return Commit(
            self.partition,
            rows=rows,
            outputs=self.outputs,
            offsets=offsets,
            log_lines=log_lines,
            changelogs=ends_after(ends, rows),
        )


class Committing:
    """Commits of some partitions, recorded by an `after_commit` callback."""

    def __init__(self) -> None:
        self.kafka, self.clock = FakeKafka(), FakeClock()
        self.changelogs = Changelogs("obol", ["orgs", positions.TABLE])
        self.commits = Commits(
            lambda partition: committer(self.kafka, self.clock, partition),
            changelogs=self.changelogs,
            admin=self.kafka.admin("test"),
            clock=self.clock,
            waits=Waits(self.clock, lambda: True),
            interval_s=INTERVAL_S,
        )
        self.done: list[tuple[int, float]] = []
        self.commits.after_commit.append(lambda shard, _commit, seconds: self.done.append((shard.partition, seconds)))

    async def shard(self, partition: int) -> Any:
        made: Any = FakeShard(partition, self.commits)
        await self.commits.fence(made)
        await settle()
        return made


@pytest.fixture
async def committing() -> AsyncIterator[Committing]:
    made = Committing()
    yield made
    await made.commits.stop()


async def test_a_shard_is_committed_every_interval(committing: Committing) -> None:
    shard = await committing.shard(3)
    shard.due = 2
    await committing.clock.advance(INTERVAL_S / 2)
    assert committing.done == []
    await committing.clock.advance(INTERVAL_S / 2)
    assert committing.done == [(3, 0.0)]
    await committing.clock.advance(INTERVAL_S)
    assert committing.done == [(3, 0.0)] * 2
    # Rows at 0 to 2, a marker at 3, and the same again.
    assert committing.changelogs.restored_to(("obol-orgs-changelog", 3)) == 7


async def test_a_full_shard_is_committed_at_once(committing: Committing) -> None:
    shard = await committing.shard(3)
    shard.due = 1
    committing.commits.commit_soon(3)
    await settle()
    assert committing.done == [(3, 0.0)]


async def test_nothing_is_written_when_nothing_was_applied(committing: Committing) -> None:
    await committing.shard(3)
    await committing.clock.advance(10 * INTERVAL_S)
    await committing.commits.commit_all()
    assert committing.kafka.calls == ["fence obol-3"]


async def test_a_revocation_waits_for_the_commit_of_every_shard(committing: Committing) -> None:
    for partition in range(3):
        (await committing.shard(partition)).due = 1
    committing.kafka.committing.clear()
    all_done = asyncio.create_task(committing.commits.commit_all())
    await committing.clock.advance(2.0)
    assert not all_done.done()
    committing.kafka.committing.set()
    await all_done
    assert committing.done == [(0, 2.0), (1, 2.0), (2, 2.0)]


async def test_a_partition_has_one_commit_at_a_time(committing: Committing) -> None:
    (await committing.shard(0)).due = 2
    committing.kafka.committing.clear()
    committing.commits.commit_soon(0)
    await settle()
    revoking = asyncio.create_task(committing.commits.commit_all())
    await settle()
    assert committing.kafka.calls.count("begin obol-0") == 1
    committing.kafka.committing.set()
    await revoking
    assert committing.kafka.calls.count("begin obol-0") == 2


async def test_the_number_of_concurrent_commits_is_bounded(committing: Committing) -> None:
    for partition in range(2 * MAX_COMMITS_AT_ONCE):
        (await committing.shard(partition)).due = 2
    committing.kafka.committing.clear()
    all_done = asyncio.create_task(committing.commits.commit_all())
    await committing.clock.advance(INTERVAL_S)
    begun = [call for call in committing.kafka.calls if call.startswith("begin")]
    assert len(begun) == len(set(begun)) == MAX_COMMITS_AT_ONCE
    committing.kafka.committing.set()
    await all_done
    await committing.clock.advance(INTERVAL_S)
    assert sorted(committing.done) == sorted(
        [(partition, INTERVAL_S) for partition in range(8)][:4] + committing.done[4:]
    )
    assert len(committing.done) == 4 * MAX_COMMITS_AT_ONCE


async def test_a_dropped_partition_is_not_committed(committing: Committing) -> None:
    dropped, stays = await committing.shard(0), await committing.shard(1)
    await committing.commits.drop(0)
    dropped.due = stays.due = 1
    await committing.clock.advance(INTERVAL_S)
    await committing.commits.commit_all()
    assert [partition for partition, _ in committing.done] == [1]
    assert "stop obol-0" in committing.kafka.calls


async def test_an_assignment_that_keeps_a_partition_fences_it_again(committing: Committing) -> None:
    shard = await committing.shard(0)
    await committing.commits.fence(shard)
    shard.due = 1
    await committing.clock.advance(INTERVAL_S)
    assert committing.kafka.epochs["obol-0"] == 2
    assert committing.done == [(0, 0.0)]


async def test_log_lines_are_logged_after_the_commit(committing: Committing, caplog: pytest.LogCaptureFixture) -> None:
    (await committing.shard(0)).due = 1
    with caplog.at_level("INFO"):
        await committing.commits.commit_all()
    assert "dry run: window=w1" in caplog.text


@pytest.mark.parametrize(
    ("call", "reason", "accident"),
    [
        (None, "partition 0 was taken over by another worker", Accident.FENCED),
        ("begin", "partition 0 can't be committed: OSError('no route')", Accident.FAULT),
        ("send_batch", "partition 0 can't be committed: OSError('no route')", Accident.FAULT),
        ("send_offsets", "partition 0 can't be committed: OSError('no route')", Accident.FAULT),
        ("commit", "partition 0 can't be committed: OSError('no route')", Accident.FAULT),
    ],
)
async def test_a_commit_that_fails_ends_the_process(
    committing: Committing, call: str | None, reason: str, accident: Accident
) -> None:
    (await committing.shard(0)).due = 1
    if call is None:
        await committer(committing.kafka, committing.clock).fence()
    else:
        committing.kafka.failing[call] = OSError("no route")
    with process_end() as ended:
        await committing.commits.commit_all()
    assert ended[0].args == (reason, accident)
    assert (committing.done, committing.kafka.offsets) == ([], {})
    assert committing.changelogs.restored_to(("obol-orgs-changelog", 0)) == -1


# A topic that refuses records

LETTER = Outgoing(RESULTS.name, 0, b"acme", b"{}", 60_000)


async def test_a_refused_commit_is_retried_and_only_its_partition_waits(
    committing: Committing, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    kafka = committing.kafka
    blocked, other = await committing.shard(0), await committing.shard(1)
    kafka.refusing[f"dev.{RESULTS.name}", 0] = MessageSizeTooLargeError()
    blocked.outputs, blocked.due, other.due = [LETTER], 1, 1
    await committing.clock.advance(INTERVAL_S)
    assert committing.done == [(1, 0.0)]
    why = f"topic dev.{RESULTS.name} refuses its records (MessageSizeTooLargeError); raise its max.message.bytes to"
    assert blocked.refusal.startswith(why)
    assert "last_records" in kafka.calls, "another owner might have committed meanwhile"
    assert kafka.epochs["obol-0"] == 2
    other.due = 3
    await committing.clock.advance(20 * INTERVAL_S)
    assert committing.done == [(1, 0.0)] * 4
    assert caplog.text.count("partition 0 can't be committed") == 1

    kafka.refusing.clear()
    # Aborted records take offsets, too.
    orgs, position = len(kafka.logs["obol-orgs-changelog", 0]), len(kafka.logs[POSITIONS])
    await committing.clock.advance(BLOCKED_RETRY_S)
    assert committing.done[-1] == (0, 0.0)
    assert blocked.refusal is None
    assert "partition 0 is committed again" in caplog.text
    committed = kafka.records(POSITIONS)[-1]
    assert decode_position(committed.value or b"").changelogs == {"orgs": orgs + 4, "positions": position + 2}
    assert committing.changelogs.restored_to(POSITIONS) == position + 1


async def test_a_refused_commit_of_a_partition_that_has_another_owner_ends_the_process(committing: Committing) -> None:
    shard = await committing.shard(0)
    committing.kafka.refusing[f"dev.{RESULTS.name}", 0] = MessageSizeTooLargeError()
    shard.outputs, shard.due = [LETTER], 1
    # The last position is not the one that this worker has restored or written.
    committing.kafka.logs[POSITIONS] = [
        Written(0, 0, positions.KEY, encode_position(Position(offsets={HEARTBEATS.name: 9}))),
        Written(1, -1),
    ]
    with process_end() as ended:
        await committing.commits.commit_all()
    assert ended[0].args == ("partition 0 was taken over by another worker", Accident.FENCED)


async def test_records_of_another_writer_in_a_changelog_end_the_process(committing: Committing) -> None:
    shard = await committing.shard(0)
    shard.due = 1
    committing.kafka.logs[POSITIONS].append(Written(0, 0, b"k", b"v"))
    with process_end() as ended:
        await committing.commits.commit_all()
    reason, accident = ended[0].args
    assert reason.startswith("obol-positions-changelog partition 0 has records that are not this worker's")
    assert accident is Accident.FOREIGN_RECORDS
    assert committing.kafka.offsets == {}


async def test_an_id_that_the_broker_has_forgotten_is_no_takeover(committing: Committing) -> None:
    (await committing.shard(0)).due = 1
    committing.kafka.failing["begin"] = IdForgottenError()
    with process_end() as ended:
        await committing.commits.commit_all()
    assert ended[0].args[0].startswith("the broker no longer knows the transactional id of partition 0")
    assert ended[0].args[1] is Accident.ID_FORGOTTEN


async def test_a_transaction_that_the_broker_has_aborted_is_no_takeover(committing: Committing) -> None:
    (await committing.shard(0)).due = 1
    committing.kafka.committing.clear()
    ending = asyncio.create_task(committing.commits.commit_all())
    await committing.clock.advance(TRANSACTION_TIMEOUT_MS / 1_000)
    committing.kafka.failing["committed"] = FencedError()
    committing.kafka.committing.set()
    with process_end() as ended:
        await ending
    assert ended[0].args == (
        "the transaction of partition 0 took 300 s, longer than the broker allows",
        Accident.TRANSACTION_ABORTED,
    )
