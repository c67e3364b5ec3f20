"""A namespace for one test, whose topics are deleted at its end."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aiokafka.admin import AIOKafkaAdminClient

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def fresh_namespace(bootstrap: str | None, stem: str) -> Iterator[str]:
    """Yield a new `OBOL_NAMESPACE`; its topics, and those of namespaces below it, are deleted at the end.

    Each partition costs a broker time: without this, the last tests of a session would wait for the first.
    """
    namespace = f"{stem}-{uuid.uuid4().hex[:8]}"
    try:
        yield namespace
    finally:
        if bootstrap is not None:
            asyncio.run(_delete_topics(bootstrap, f"{namespace}."))


async def _delete_topics(bootstrap: str, prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        topics = [topic for topic in await admin.list_topics() if topic.startswith(prefix)]
        if topics:
            await admin.delete_topics(topics)
    finally:
        await admin.close()
