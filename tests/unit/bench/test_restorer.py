from pathlib import Path

from bench.restorer import restore, write_rows
from streams.billing.windows import Origin, Window, WindowMeter
from streams.engine.rowcodec import encode_row
from streams.lifecycle.replica import ReplicaStatus
from streams.rules.rows import Replica, row_key


def test_rows_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    window = Window(
        org_id="o",
        window_id="d-r1.w1",
        meter=WindowMeter.DEDICATED,
        owner_id="d-r1",
        deployment_id="d",
        profile="dedicated.h100.1x",
        quantity=1,
        opened_at=60_000,
        billed_until=60_000,
        last_health_check=60_000,
        opened_by=Origin("execlet.progress", 3, 60_000),
    )
    replica = Replica("o", "d-r1", "d", ReplicaStatus.RUNNING, created_at=50_000, window=window, windows_made=1)
    path = tmp_path / "rows"
    assert write_rows(path, [(row_key(replica), encode_row(replica))]) == 1
    shard = restore(path, "replicas")
    back = shard.book.orgs["o"].replicas["d-r1"]
    assert shard.restored_rows == 1
    assert encode_row(back) == encode_row(replica)
    assert shard.book.orgs["o"].due_dedicated == [back.window]
