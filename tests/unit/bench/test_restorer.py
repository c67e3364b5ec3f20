from pathlib import Path

from bench.restorer import restore, write_rows
from streams.billing.windows import Origin, Window
from streams.engine.rowcodec import encode_row
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.replica import ReplicaStatus
from streams.rules.rows import Deployment, Replica, row_key


def test_restored_rows_equal_the_written_ones(tmp_path: Path) -> None:
    window = Window(
        org_id="o",
        window_id="d-r1.w1",
        meter="dedicated",
        owner_id="d-r1",
        deployment_id="d",
        profile="dedicated.h100.1x",
        quantity=1,
        opened_at=60_000,
        billed_until=60_000,
        last_health_check=60_000,
        opened_by=Origin("execlet.progress", 3, 60_000),
    )
    replica = Replica("o", "d-r1", "d", ReplicaStatus.RUNNING, created_at=50_000)
    deployment = Deployment("o", "d", DeploymentStatus.CREATED, "m", "h100", 1, "dedicated", 1, None, 0, 0)
    path = tmp_path / "rows"
    assert write_rows(path, [(row.TABLE, row_key(row), encode_row(row)) for row in (window, replica, deployment)]) == 3
    shard = restore(path)
    restored = shard.store.orgs["o"].replicas["d-r1"]
    assert shard.restored_rows == 3
    assert encode_row(restored) == encode_row(replica)
    assert list(shard.store.orgs["o"].due("replica")) == list(restored.open_windows)
    assert [encode_row(opened) for opened in restored.open_windows] == [encode_row(window)]
