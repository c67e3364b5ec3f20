"""The fetcher, where its broker is away: the rest is tested on a real one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from aiokafka.errors import KafkaConnectionError

from streams.engine.fetcher import BoundedFetcher


def away() -> BoundedFetcher:
    """A fetcher whose requests all fail, and are tried again after a minute."""

    async def send(*_: Any) -> None:
        raise KafkaConnectionError

    fetcher: Any = BoundedFetcher.__new__(BoundedFetcher)
    fetcher._client = SimpleNamespace(send=send)
    fetcher._retry_backoff = 60.0
    return fetcher  # type: ignore[no-any-return]  # its attributes are aiokafka's


async def test_a_request_that_is_cancelled_before_its_retry_ends_as_one_without_news() -> None:
    request = asyncio.create_task(away()._proc_fetch_request(None, 1, None))
    await asyncio.sleep(0)
    request.cancel()
    # aiokafka's own `close` awaits the request so.
    assert await request is False
