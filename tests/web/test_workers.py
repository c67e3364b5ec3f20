"""Three workers: each responds for every org, also after one of them was killed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.namespaces import fresh_namespace
from tests.web.live import DAY, Live, get, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.web, pytest.mark.kafka]

ORGS = tuple(f"org{number}" for number in range(12))


@pytest.fixture(scope="module")
def three(kafka_bootstrap: str) -> Iterator[Live]:
    with fresh_namespace(kafka_bootstrap, "web") as namespace, Live(kafka_bootstrap, namespace, workers=3) as live:
        live.wait_ready()
        live.price("08:00", "dedicated.h100.1x", "360")
        for org in ORGS:
            command = {"type": "create_deployment", "deployment_id": "chat", "model": "m", "gpu_type": "h100"}
            live.add("11:59", "user.commands", org, **command, gpu_count=1)
            live.add("12:00", "execlet.progress", org, replica_id="chat-r1", status="RUNNING", message="healthy")
        live.tick("12:00", "12:05")
        live.settle()
        yield live


def seen(live: Live, worker: int) -> dict[str, tuple[int, str]]:
    """Return a worker's response for each org, which may be a 503."""
    return {org: live.get(f"/orgs/{org}/replicas/chat-r1", worker)[::2] for org in ORGS}


def test_an_explanation_names_the_event_as_it_stands_in_kafka(three: Live) -> None:
    """Running from 12:00 without a heartbeat: one minute and, once B3 allows no more, nothing further."""
    usage_id = f"chat-r1:{DAY}T12:00:00.000Z"
    for worker in range(3):
        got = three.get(f"/orgs/{ORGS[0]}/explain/{usage_id}", worker).json
        assert got["charged"] is True
        assert got["usage"]["topic"] == "croesus.usage"
        assert got["usage"]["timestamp"] == f"{DAY}T12:01:00.000Z"
        assert got["sent_by"]["topic"] == "obol.clock"
        assert got["sent_by"]["timestamp"] == f"{DAY}T12:01:00.000Z"
        assert got["price"]["price"] == "360"


def test_every_worker_is_ready_and_has_no_views_of_faust(three: Live) -> None:
    for worker in three.workers:
        assert get(f"{worker.url}/ready").status == 200
        assert get(f"{worker.url}/health").json["status"] == "ok"
        assert get(f"{worker.url}/table").status == 404
        assert get(f"{worker.url}/metrics").text.startswith("# HELP obol_")


def test_every_worker_responds_for_every_org_before_and_after_one_is_killed(three: Live) -> None:
    whole = seen(three, 0)
    assert {status for status, _ in whole.values()} == {200}
    assert seen(three, 1) == whole
    assert seen(three, 2) == whole
    assert len({part["owner"] for part in three.get("/").json["partitions"]}) == 3

    three.workers[2].kill()
    three.workers.pop()

    def right_again(worker: int) -> bool:
        found = seen(three, worker)
        for org, (status, text) in found.items():
            # Never wrong, never partial: the whole response, or 503 with Retry-After.
            assert status == 503 or text == whole[org][1], (org, text)
        return all(status == 200 for status, _ in found.values())

    for worker in (0, 1):
        until(partial(right_again, worker), f"every org at worker {worker}")
    three.wait_ready()
    fleet = three.get("/").json
    assert (fleet["orgs"], fleet["running_replicas"]) == (len(ORGS), len(ORGS))
    assert len({part["owner"] for part in fleet["partitions"]}) == 2
