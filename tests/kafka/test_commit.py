"""A partition's transactions on a real broker. The previous owner is fenced, whichever of its calls fails first."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.errors import IllegalOperation, InvalidProducerIdMapping, KafkaError, ProducerFenced

from streams.engine.clock import SystemClock
from streams.engine.commit import Committer
from streams.engine.kafka import AioKafka
from streams.engine.ports import FencedError, IdForgottenError
from streams.engine.shard import Commit, Outgoing
from tests.support.workers import Installation
from topics.catalogue import COMMANDS, RESULTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.kafka

NOW_MS = int(time.time() * 1_000)
COMMIT = Commit(0, outputs=[Outgoing(RESULTS.name, 0, b"acme", b"{}", NOW_MS)], offsets={COMMANDS.name: 1})
TWO_ROWS = Commit(0, rows={"positions": [(b"a", b"{}"), (b"b", None)]}, offsets={COMMANDS.name: 1})


def committer(installation: Installation) -> Committer:
    settings = installation.settings
    return Committer(
        0,
        app_id=settings.app_id,
        kafka=AioKafka(settings.kafka_client_options()),
        clock=SystemClock(),
        topic=settings.topic,
        changelog=installation.changelog,
    )


@pytest.fixture
async def installation(kafka_bootstrap: str, namespace: str) -> Installation:
    made = Installation(kafka_bootstrap, namespace, partitions=1)
    await made.provision()
    return made


@pytest.fixture
async def fenced(installation: Installation) -> AsyncIterator[Committer]:
    """A committer whose partition has another owner."""
    first, second = committer(installation), committer(installation)
    await first.fence()
    await first.commit(COMMIT)
    await second.fence()
    yield first
    await second.stop()
    await first.stop()
    # Its producer leaves futures with exceptions that are not retrieved. They are logged with a traceback, for which
    # Python 3.11 parses code: now, not in the middle of other parsing.
    gc.collect()


@pytest.fixture
async def alone(installation: Installation) -> AsyncIterator[Committer]:
    """A committer whose partition keeps its owner."""
    made = committer(installation)
    await made.fence()
    yield made
    await made.stop()


def client(committer: Committer) -> Any:
    """Return aiokafka's producer."""
    producer: Any = committer._producer
    return producer._client


async def test_the_previous_owner_is_fenced(fenced: Committer, installation: Installation) -> None:
    with pytest.raises(FencedError):
        await fenced.commit(COMMIT)
    assert len(await installation.read(RESULTS.name)) == 1


async def test_also_when_its_producer_finds_out_before_the_next_call(
    fenced: Committer, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = client(fenced)

    async def until_fenced(_topic: str) -> None:
        with pytest.raises(ProducerFenced):
            await producer._txn_manager.wait_for_transaction_end()

    monkeypatch.setattr(producer.client, "_wait_on_metadata", until_fenced)
    with pytest.raises(FencedError) as raised:
        await fenced.commit(COMMIT)
    # The call itself fails with this alone.
    assert isinstance(raised.value.__cause__, IllegalOperation)
    assert len(await installation.read(RESULTS.name)) == 1


async def test_an_id_that_the_broker_has_forgotten_is_no_takeover(
    alone: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = client(alone)

    async def expired(_topic: str) -> None:
        # A broker forgets a transactional id that is not used for days.
        error = KafkaError("Unexpected error during batch delivery")
        error.__cause__ = InvalidProducerIdMapping()
        producer._txn_manager.fatal_error(error)

    monkeypatch.setattr(producer.client, "_wait_on_metadata", expired)
    with pytest.raises(IdForgottenError, match="InvalidProducerIdMapping"):
        await alone.commit(COMMIT)


async def test_another_error_is_raised_as_it_is(alone: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(_topic: str) -> None:
        msg = "no route"
        raise OSError(msg)

    monkeypatch.setattr(client(alone).client, "_wait_on_metadata", lost)
    with pytest.raises(OSError, match="no route"):
        await alone.commit(COMMIT)


async def test_the_last_offset_of_a_changelog_is_its_commit_marker(
    alone: Committer, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    changelog = installation.settings.topic(RESULTS.name)  # an existing topic
    monkeypatch.setattr(alone, "_changelog", lambda _table: changelog)
    assert await alone.commit(TWO_ROWS) == {"positions": 2}
    assert await installation.ends([(changelog, 0)]) == {(changelog, 0): 3}
    assert await alone.commit(TWO_ROWS) == {"positions": 5}
