"""A stock Faust agent: it parses each heartbeat and writes its time to a table.

Run as `faust -A bench.stock worker --without-web`, with Faust's default settings, without rules and billing, and with
at-least-once delivery.
"""

import os
from typing import Any

import faust

from schemas.heartbeats import Heartbeat

app = faust.App(
    os.environ["BENCH_APP_ID"],
    broker=[f"kafka://{server}" for server in os.environ["KAFKA_BOOTSTRAP_SERVERS"].split(",")],
    topic_partitions=int(os.environ["BENCH_PARTITIONS"]),
    consumer_auto_offset_reset="earliest",
    datadir=os.environ["BENCH_DATA_DIR"],
)
heartbeats: Any = app.topic(os.environ["BENCH_TOPIC"], value_serializer="raw")
last_health_check: Any = app.Table("last_health_check")


@app.agent(heartbeats)
async def keep(stream: faust.Stream[bytes]) -> None:
    """Write the time of each replica's last heartbeat."""
    async for event in stream.events():
        heartbeat = Heartbeat.model_validate_json(event.value)
        last_health_check[heartbeat.replica_id] = event.message.timestamp
