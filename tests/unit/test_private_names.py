"""Every private name of Faust and aiokafka that is used: that it is there, that it is listed, and what breaks without.

A release of either may rename them without notice. The same list, with the risk of each, is in docs/faust.md.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.unit.test_typings import has_attribute
from tools.console import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = ROOT / "docs/faust.md"
OURS = ("schemas", "topics", "streams", "sim", "bench", "tools")


class Private(NamedTuple):
    """A private name: its module and class, the file that uses it, what for, and where to look when it is gone."""

    module: str
    owner: str
    name: str
    used_in: str
    purpose: str
    look_at: str


NAMES = (
    Private(
        "faust.transport.drivers.aiokafka",
        "Consumer",
        "_new_consumer_thread",
        "streams/engine/transport.py",
        "has Faust read through our thread",
        "where Consumer.__init__ creates its thread",
    ),
    Private(
        "faust.transport.drivers.aiokafka",
        "Consumer",
        "_wait_next_records",
        "streams/engine/transport.py",
        "waits for what was fetched, while flow is active",
        "Consumer.getmany in faust/transport/consumer.py",
    ),
    Private(
        "faust.transport.drivers.aiokafka",
        "AIOKafkaConsumerThread",
        "_create_worker_consumer",
        "streams/engine/transport.py",
        "reads committed records only, and lets the broker hold a fetch for 50 ms",
        "where the thread creates its AIOKafkaConsumer, and how isolation_level is chosen",
    ),
    Private(
        "faust.transport.drivers.aiokafka",
        "AIOKafkaConsumerThread",
        "_fetch_records",
        "streams/engine/transport.py",
        "returns whole fetches with the range of offsets that was read",
        "AIOKafkaConsumerThread.getmany",
    ),
    Private(
        "aiokafka",
        "AIOKafkaConsumer",
        "_coordinator",
        "streams/engine/transport.py",
        "reports what keeps a worker out of its group for good",
        "what AIOKafkaConsumer.getmany calls to check errors",
    ),
    Private(
        "aiokafka",
        "AIOKafkaConsumer",
        "_fetch_max_wait_ms",
        "streams/engine/transport.py",
        "lets the broker hold a fetch for 50 ms instead of Faust's 1.5 s",
        "what AIOKafkaConsumer.start hands to its Fetcher; whether Faust has a setting for it by now",
    ),
    Private(
        "aiokafka",
        "AIOKafkaConsumer",
        "_subscription",
        "streams/engine/transport.py",
        "reads the positions of all partitions without a wait in between",
        "AIOKafkaConsumer.position, which waits, and where it takes the position from",
    ),
    Private(
        "aiokafka",
        "AIOKafkaConsumer",
        "_fetcher",
        "streams/engine/transport.py",
        "leads to _create_fetch_waiter",
        "AIOKafkaConsumer.getmany",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_create_fetch_waiter",
        "streams/engine/transport.py",
        "waits for the next response, one that holds only markers included",
        "how Fetcher.fetched_records waits",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_fetch_max_wait_ms",
        "streams/engine/fetcher.py",
        "lets the broker hold a request longer while there is nothing to take",
        "where Fetcher._get_actions_per_node takes the wait of its FetchRequest from",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_client",
        "streams/engine/fetcher.py",
        "sends the fetch requests, and asks for the metadata again",
        "how Fetcher sends a request",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_closed",
        "streams/engine/fetcher.py",
        "ends a wait for records",
        "Fetcher.close",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_create_fetch_waiter",
        "streams/engine/fetcher.py",
        "waits for the next response",
        "how Fetcher.fetched_records waits",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_default_reset_strategy",
        "streams/engine/fetcher.py",
        "where to read on when an offset is out of range",
        "where Fetcher handles OffsetOutOfRangeError",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_isolation_level",
        "streams/engine/fetcher.py",
        "which end of the log counts",
        "how Fetcher builds a FetchRequest",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_notify",
        "streams/engine/fetcher.py",
        "has a partition fetched again",
        "Fetcher.fetched_records",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_prefetch_backoff",
        "streams/engine/fetcher.py",
        "how long a broker's partitions wait for one that is not taken",
        "FetchResult.calculate_backoff",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_proc_fetch_request",
        "streams/engine/fetcher.py",
        "reads responses with streams/engine/batches.py",
        "Fetcher._fetch_requests_routine, and what it calls for a response",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_records",
        "streams/engine/fetcher.py",
        "keeps what was fetched and not yet taken",
        "Fetcher.fetched_records",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_retry_backoff",
        "streams/engine/fetcher.py",
        "how long to wait after an error",
        "Fetcher._proc_fetch_request",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_set_error",
        "streams/engine/fetcher.py",
        "reports what ends the consumer",
        "Fetcher._proc_fetch_request",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_subscriptions",
        "streams/engine/fetcher.py",
        "waits for an assignment",
        "Fetcher.fetched_records",
    ),
    Private(
        "aiokafka.consumer.fetcher",
        "Fetcher",
        "_wait_consume_future",
        "streams/engine/fetcher.py",
        "has a partition fetched again",
        "Fetcher._fetch_requests_routine",
    ),
    Private(
        "aiokafka",
        "AIOKafkaConsumer",
        "_fetcher",
        "streams/engine/kafka.py",
        "asks what can't be read of the prices",
        "AIOKafkaConsumer.getmany",
    ),
    Private(
        "aiokafka",
        "AIOKafkaConsumer",
        "_client",
        "streams/engine/kafka.py",
        "asks for the metadata of many topics in one request",
        "AIOKafkaClient.add_topic, and how end_offsets waits for unknown topics",
    ),
    Private(
        "faust.transport.drivers.aiokafka",
        "Consumer",
        "_read_offset",
        "streams/engine/kafka.py",
        "sets where Faust has read to, for many partitions at once",
        "Consumer.seek in faust/transport/consumer.py, and where messages before the offset are dropped",
    ),
    Private(
        "aiokafka.admin",
        "AIOKafkaAdminClient",
        "_client",
        "topics/provision.py",
        "tells the brokers' advertised addresses from the bootstrap server",
        "how AIOKafkaAdminClient.start refreshes its metadata; whether describe_cluster works before that",
    ),
    Private(
        "aiokafka",
        "AIOKafkaProducer",
        "_txn_manager",
        "streams/engine/kafka.py",
        "adds all partitions to a transaction in one request, and knows the error that ended one",
        "TransactionManager.maybe_add_partition_to_txn and wait_for_transaction_end",
    ),
)


@pytest.mark.parametrize("private", NAMES, ids=lambda private: f"{private.owner}.{private.name} in {private.used_in}")
def test_a_private_name_is_still_there(private: Private) -> None:
    owner = getattr(importlib.import_module(private.module), private.owner, None)
    broken = (
        f"{private.module}.{private.owner} has no {private.name} any more. {private.used_in} uses it; it "
        f"{private.purpose}. Look at: {private.look_at}"
    )
    assert owner is not None, broken
    assert has_attribute(owner, private.name), broken


def reached(source: str) -> set[str]:
    """The private names of other objects that a module reaches for."""
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    }


def overridden(module: str) -> Iterator[tuple[str, str]]:
    """The private names of Faust and aiokafka that a module's classes override, or use as their own."""
    for owner in vars(importlib.import_module(module)).values():
        if not isinstance(owner, type) or owner.__module__ != module:
            continue
        foreign = {
            name
            for parent in owner.__mro__
            if parent.__module__.split(".")[0] in {"faust", "aiokafka", "mode"}
            for name in (
                *vars(parent),
                *vars(parent).get("__annotations__", ()),
                *re.findall(r"\bself\.(\w+)\b[^=\n]*= ", inspect.getsource(parent)),
            )
        }
        used = {
            node.attr
            for node in ast.walk(ast.parse(inspect.getsource(owner)))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
        }
        for name in (set(vars(owner)) | used) & foreign:
            if name.startswith("_") and not name.startswith("__") and not name.startswith("_abc_"):
                yield owner.__name__, name


def test_no_other_private_name_is_used() -> None:
    found: set[tuple[str, str]] = set()
    for package in OURS:
        for path in (ROOT / package).rglob("*.py"):
            source, file = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
            if "aiokafka" in source or "faust" in source:
                found |= {(file, name) for name in reached(source) - {"_asdict", "_exit"}}
    for file in (
        "streams/engine/fetcher.py",
        "streams/engine/table.py",
        "streams/engine/transport.py",
        "streams/web/mount.py",
        "streams/worker.py",
    ):
        found |= {(file, name) for _, name in overridden(file.removesuffix(".py").replace("/", "."))}
    assert found == {(private.used_in, private.name) for private in NAMES}


def test_the_document_lists_the_same_names() -> None:
    rows = [line.split("|") for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    listed = {row[1].strip(" `") for row in rows if "`._" in row[1] or "._" in row[1]}
    assert listed == {f"{private.owner}.{private.name}" for private in NAMES}
