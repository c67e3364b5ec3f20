"""A partition's transaction on a real broker: whoever has lost the partition is told so, whichever call hears of it."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.errors import IllegalOperation, InvalidProducerIdMapping, KafkaError

from streams.engine.commit import FENCED, Committer
from streams.engine.shard import Commit, Outgoing
from tests.support.workers import Installation
from topics.catalogue import COMMANDS, RESULTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.kafka

NOW_MS = int(time.time() * 1_000)
COMMIT = Commit(0, outputs=[Outgoing(RESULTS.name, 0, b"acme", b"{}", NOW_MS)], offsets={COMMANDS.name: 1})


def committer(installation: Installation) -> Committer:
    settings = installation.settings
    return Committer(
        0,
        app_id=settings.app_id,
        client_options=settings.kafka_client_options(),
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
    """One whose partition another has taken over."""
    first, second = committer(installation), committer(installation)
    await first.fence()
    await first.commit(COMMIT)
    await second.fence()
    yield first
    await second.close()
    await first.close()
    # Its producer leaves futures behind that nobody asked. What is said of them with a traceback, which Python 3.11
    # parses code for, is said now and not in the middle of parsing.
    gc.collect()


@pytest.fixture
async def alone(installation: Installation) -> AsyncIterator[Committer]:
    """One whose partition nobody else wants."""
    made = committer(installation)
    await made.fence()
    yield made
    await made.close()


async def test_what_is_locked_out_is_told_so(fenced: Committer, installation: Installation) -> None:
    with pytest.raises(FENCED):
        await fenced.commit(COMMIT)
    assert len(await installation.read(RESULTS.name)) == 1


async def test_also_when_the_producer_has_heard_of_it_before_the_next_call(
    fenced: Committer, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer: Any = fenced._producer

    async def until_heard(_topic: str) -> None:
        with pytest.raises(FENCED):
            await producer._txn_manager.wait_for_transaction_end()

    monkeypatch.setattr(producer.client, "_wait_on_metadata", until_heard)
    with pytest.raises(FENCED) as told:
        await fenced.commit(COMMIT)
    # The call itself knows only this.
    assert isinstance(told.value.__cause__, IllegalOperation)
    assert len(await installation.read(RESULTS.name)) == 1


async def test_also_when_the_producer_wraps_it(alone: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    producer: Any = alone._producer

    async def forgotten(_topic: str) -> None:
        # A broker forgets a transactional id that was not heard of for days.
        error = KafkaError("Unexpected error during batch delivery")
        error.__cause__ = InvalidProducerIdMapping()
        producer._txn_manager.fatal_error(error)

    monkeypatch.setattr(producer.client, "_wait_on_metadata", forgotten)
    with pytest.raises(InvalidProducerIdMapping):
        await alone.commit(COMMIT)


async def test_another_error_stays_what_it_is(alone: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    producer: Any = alone._producer

    async def lost(_topic: str) -> None:
        msg = "no route"
        raise OSError(msg)

    monkeypatch.setattr(producer.client, "_wait_on_metadata", lost)
    with pytest.raises(OSError, match="no route"):
        await alone.commit(COMMIT)
