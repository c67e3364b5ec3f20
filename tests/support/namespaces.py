"""A namespace of one's own on a cluster that many share, and nothing of it left behind."""

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
    """An `OBOL_NAMESPACE` that nobody else uses; its topics, and those of namespaces below it, are deleted at the end.

    A broker keeps house for every partition there is: without this, the last tests of a session wait for the first.
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
