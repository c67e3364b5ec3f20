"""A live installation to look at: real workers on a real broker, and the records that give it something to show."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from schemas.times import parse_rfc3339
from tests.support import http_get
from tests.support.workers import DEADLINE_S, POLL_S, Installation, Sent, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.http_get import Response

DAY = "2026-01-15"
MINUTE_MS = 60_000
GET_DEADLINE_S = 10.0


def at(clock: str) -> int:
    """`12:30` or `12:30:15` on the day of the story, in ms."""
    return parse_rfc3339(f"{DAY}T{clock if clock.count(':') == 2 else f'{clock}:00'}.000Z")


def get(url: str, **headers: str) -> Response:
    """GET as `http_get` does, from a worker that is there."""
    return http_get.get(url, GET_DEADLINE_S, **headers)


def until(look: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """What `look` gives once it is true."""
    end_s = time.monotonic() + deadline_s
    while not (found := look()):
        if time.monotonic() > end_s:
            message = f"not seen within {deadline_s:g} s: {what}"
            raise AssertionError(message)
        time.sleep(POLL_S)
    return found


class Live:
    """One installation with its workers. `settle` writes the added records, and waits until all are applied."""

    def __init__(self, bootstrap: str, namespace: str, workers: int = 1, **environ: str) -> None:
        self.installation = Installation(bootstrap, namespace, environ=environ)
        self._stack = ExitStack()
        self._pending: list[Sent] = []
        self._number = 0
        asyncio.run(self.installation.provision())
        self.workers = [self._stack.enter_context(Worker(self.installation)) for _ in range(workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """Where the first worker's views are."""
        return self.workers[0].url

    def add(self, clock: str, topic: str, org: str, **fields: Any) -> None:
        """A record of an org; ids of events and commands are made up."""
        self._number += 1
        kinds = {"user.commands": "command_id", "operator.commands": "command_id", "execlet.heartbeats": None}
        kind = kinds.get(topic, "event_id")
        ids = {} if kind is None else {kind: f"e{self._number}"}
        value = json.dumps({"org_id": org, **ids, **fields}).encode()
        self._pending.append(Sent(topic, at(clock), org.encode(), value, self.installation.place(topic, org)))

    def price(self, clock: str, profile: str, price: str | None) -> None:
        """A price from then on; None: none any more."""
        value = None if price is None else json.dumps({"profile": profile, "price": price, "currency": "JPY"}).encode()
        self._pending.append(Sent("croesus.prices", at(clock), profile.encode(), value, 0))

    def tick(self, clock: str, until_clock: str | None = None) -> None:
        """A tick for every partition, or one each minute up to `until_clock`."""
        for now in range(at(clock), at(until_clock or clock) + 1, MINUTE_MS):
            for partition in range(self.installation.partitions):
                self._pending.append(Sent("obol.clock", now, None, b'{"type":"tick"}', partition))

    def settle(self) -> None:
        """Write the added records, sorted by time, and wait until all of them are committed."""
        # Stable: records of one time keep the order in which they were added.
        records, self._pending = sorted(self._pending, key=lambda record: record.timestamp), []
        asyncio.run(self._settle(records))

    async def _settle(self, records: list[Sent]) -> None:
        # In one transaction: on a busy broker a tick could else be there before a price that it needs.
        await self.installation.send(records, transactional_id=f"{self.installation.namespace}-stories")
        await self.installation.wait_until_caught_up(self.workers)

    def get(self, path: str, worker: int = 0, **headers: str) -> Response:
        """Return a worker's response."""
        return get(self.workers[worker].url + path, **headers)

    def wait_ready(self) -> None:
        """Wait until every partition is ready, seen from every worker."""
        for worker in self.workers:
            until(partial(_complete, worker.url), f"the whole fleet at {worker.url}\n{worker.tail()}")


def _complete(url: str) -> bool:
    try:
        return get(f"{url}/", Accept="application/json").status == 200
    except OSError:
        return False


def add_stories(live: Live, org: str = "acme") -> None:
    """B8's dead node; a deployment with one replica running, one restarted and one pulling; three instances."""
    live.price("08:00", "dedicated.h100.1x", "360")
    live.price("08:00", "dedicated.h100.2x", "700")
    live.price("08:00", "instance.a100.2x", "500")
    live.price("08:00", "disk", "0.5")
    live.add("08:30", "croesus.accounts", org, type="balance_updated", balance="52340.5")
    dedicated = {"type": "create_deployment", "gpu_type": "h100"}
    live.add("11:59", "user.commands", org, deployment_id="chat", model="llama", gpu_count=1, **dedicated)
    live.add("12:00", "execlet.progress", org, replica_id="chat-r1", status="RUNNING", message="healthy")
    for minute in range(1, 31):
        live.add(f"12:{minute:02}", "execlet.heartbeats", org, replica_id="chat-r1")
    live.add("13:30", "execlet.progress", org, replica_id="chat-r1", status="VM_CRASH", message="")
    big = {
        "deployment_id": "chat-large",
        "model": "meta-llama/Llama-3.3-70B-Instruct",
        "min_replicas": 3,
        "gpu_count": 2,
    }
    live.add("12:55", "user.commands", org, **dedicated, **big)
    for replica in ("chat-large-r1", "chat-large-r2"):
        live.add("12:57", "execlet.progress", org, replica_id=replica, status="STARTING", message="Pulling image")
        live.add("13:00", "execlet.progress", org, replica_id=replica, status="RUNNING", message="healthy")
    live.add("13:02", "execlet.progress", org, replica_id="chat-large-r3", status="STARTING", message="Pulling image")
    live.add("13:10:50", "execlet.progress", org, replica_id="chat-large-r2", status="RESTARTING", message="")
    live.add("13:12:40", "execlet.progress", org, replica_id="chat-large-r2", status="RUNNING", message="healthy")
    for minute in range(61):
        clock = f"{13 + minute // 60}:{minute % 60:02}"
        live.add(f"{clock}:20", "execlet.heartbeats", org, replica_id="chat-large-r1")
        if minute < 20:
            live.add(f"{clock}:40", "execlet.heartbeats", org, replica_id="chat-large-r2")
    hardware = {"offer_id": "tokyo-17", "gpu_type": "a100", "gpu_count": 2, "disk_gb": 200}
    for clock, instance in (("09:00", "trainer"), ("13:00", "notebook"), ("13:50", "booting")):
        template = {"mode": "jupyter", "image": "pytorch/pytorch:2.9-cuda13"}
        live.add(
            clock, "user.commands", org, type="deploy_instance", instance_id=instance, template=template, **hardware
        )
    live.add("09:04", "host.reports", org, instance_id="trainer", report="workload_up")
    live.add("10:10", "user.commands", org, type="stop_instance", instance_id="trainer")
    live.add("10:13", "host.reports", org, instance_id="trainer", report="stop_confirmed")
    live.add("12:20", "user.commands", org, type="start_instance", instance_id="trainer")
    live.add("12:24", "host.reports", org, instance_id="trainer", report="workload_up")
    live.add("13:25", "host.reports", org, instance_id="notebook", report="launch_failed", message="no such image")
    live.tick("08:31", "14:00")


def add_money(live: Live, org: str = "bolt") -> None:
    """Labels, a credit, notices of a balance that runs low and is used up, and a replica that ended but lives on."""
    live.price("08:00", "dedicated.a100.1x", "60")
    live.add("09:00", "croesus.accounts", org, type="balance_updated", balance="100")
    for deployment, team in (("search", "nlp"), ("rank", "ads")):
        live.add(
            "09:00",
            "user.commands",
            org,
            type="create_deployment",
            deployment_id=deployment,
            model="m",
            gpu_type="a100",
            gpu_count=1,
            labels={"team": team, "env": "prod"},
        )
    live.add("09:00:30", "execlet.progress", org, replica_id="search-r1", status="RUNNING", message="healthy")
    live.add("09:10", "user.commands", org, type="stop_deployment", deployment_id="search")
    for minute in (*range(1, 10), 20, 25):
        live.add(f"09:{minute:02}", "execlet.heartbeats", org, replica_id="search-r1")
    credit = {"type": "credit_window", "window_id": "search-r1.w1", "note": "ticket 4711"}
    live.add("09:12", "operator.commands", org, **credit, **{"from": f"{DAY}T09:04:30Z", "until": f"{DAY}T09:05:30Z"})
    live.add("09:05:10", "croesus.accounts", org, type="balance_updated", balance="30")
    live.add("09:15", "croesus.accounts", org, type="balance_updated", balance="-1")


HOSTILE = (
    "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>",
    "\"'><svg/onload=window.pwned=1>{{7*7}}${7*7}",
    "a\u202eb\u2066c\u200bd",
    "line\r\nSet-Cookie: pwned=1\n\x1b[31mred",
    "nul\x00nul",
)


def add_hostile(live: Live, org: str = "hostile") -> None:
    """Every string field of every message, filled with what could break a page, a header, a log or a terminal."""
    live.add("08:30", "croesus.accounts", org, type="balance_updated", balance="99999999")
    for number, text in enumerate(HOSTILE):
        dedicated = {"type": "create_deployment", "gpu_type": "h100", "gpu_count": 1}
        live.add("09:00", "user.commands", org, deployment_id=f"d{number}", model=text, **dedicated)
        template = {"mode": "ssh", "image": text}
        hardware = {"offer_id": text, "gpu_type": "a100", "gpu_count": 2, "disk_gb": 10}
        live.add(
            "09:00",
            "user.commands",
            org,
            type="deploy_instance",
            instance_id=f"i{number}",
            template=template,
            **hardware,
        )
        live.add("09:05", "host.reports", org, instance_id=f"i{number}", report="launch_failed", message=text)
        live.add("09:05", "execlet.progress", org, replica_id=f"d{number}-r1", status="RUNNING", message=text)
        # From here on, fields with a pattern: the record is a dead letter or rejected, and our message names the text.
        live.add("09:06", "execlet.progress", org, replica_id=text, status=text, message=text)
        live.add("09:06", "execlet.heartbeats", org, replica_id=text)
        live.add("09:06", "host.reports", org, instance_id=text, report=text, message=text)
        live.add("09:06", "croesus.accounts", org, type=text, balance=text)
        live.add("09:06", "inference.requests", org, deployment_id=text, count=text)
        live.add("09:06", "user.commands", org, type=text, deployment_id=text, instance_id=text, gpu_type=text)
        live.add("09:06", "user.commands", org, **dedicated | {"deployment_id": text, "model": text, "gpu_type": text})
        live.add("09:06", "execlet.heartbeats", text, replica_id="d0-r1")
        live.price("09:06", text, "1")
