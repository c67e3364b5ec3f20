"""The changelogs as Kafka is asked for them."""

import pytest

from streams.engine.table import changelog_config


@pytest.mark.parametrize(("replication", "stored"), [(1, "1"), (2, "1"), (3, "2"), (5, "4")])
def test_a_row_counts_as_stored_where_what_is_sent_beside_it_does(replication: int, stored: str) -> None:
    config = changelog_config(replication)
    assert config["min.insync.replicas"] == stored
    assert config["cleanup.policy"] == "compact"
