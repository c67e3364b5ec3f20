"""Web pages: the time from a request to the last byte of the response, for JSON and HTML."""

import asyncio
import http.client
import time
from statistics import median
from typing import Final

from bench.bench import Bench, MeasuredWorker
from bench.child import BenchError
from bench.fleet import BIG_ORG

PART: Final = "pages"
TARGET_MS: Final = 300.0

_OK: Final = 200
_TIMEOUT_S: Final = 60
_KINDS: Final = {"JSON": "application/json", "HTML": "text/html"}


async def measure(bench: Bench, worker: MeasuredWorker) -> None:
    """Load each page `page_loads` times."""
    bench.show.part(f"Web pages, with {bench.fleet.replicas:,} replicas")
    deployment = next(deployment for org, deployment in bench.fleet.deployments if org == BIG_ORG)
    pages = {
        "fleet": "/",
        "largest org": f"/orgs/{BIG_ORG}",
        "its deployments": f"/orgs/{BIG_ORG}/deployments",
        "a deployment": f"/orgs/{BIG_ORG}/deployments/{deployment}",
        "a replica": f"/orgs/{BIG_ORG}/replicas/{deployment}-r1",
    }
    for page, path in pages.items():
        for kind, accept in _KINDS.items():
            times_ms = await asyncio.to_thread(_load, worker.port, path, accept, bench.sizes.page_loads)
            bench.add(PART, f"{page}, {kind}", median(times_ms), "ms")
            # The first load, with empty caches, is included.
            bench.add(PART, f"{page}, {kind}, slowest", max(times_ms), "ms", target=TARGET_MS, better="less")


def _load(port: int, path: str, accept: str, times: int) -> list[float]:
    taken_ms = []
    for _ in range(times):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        start_s = time.perf_counter()
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        body = response.read()
        taken_ms.append((time.perf_counter() - start_s) * 1_000)
        connection.close()
        if response.status != _OK or not (response.headers["Content-Type"] or "").startswith(accept):
            got = f"{response.status}, {response.headers['Content-Type']}: {body[:200]!r}"
            msg = f"{path} as {accept} returned {got}"
            raise BenchError(msg)
    return taken_ms
