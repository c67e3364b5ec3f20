"""The catalogue against the contract's two tables, written by hand."""

import pytest

from tests.support import contract
from topics.catalogue import INBOUND, OUTBOUND, PRICES, TOPICS, with_namespace, without_namespace

IN = ["croesus.prices", *contract.INBOUND]
OUT = [*contract.OUTBOUND]


def test_names_and_ranks_are_the_contracts() -> None:
    assert [spec.name for spec in INBOUND] == IN
    assert [spec.rank for spec in INBOUND] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert [spec.name for spec in OUTBOUND] == OUT
    assert {spec.rank for spec in OUTBOUND} == {None}
    assert list(TOPICS) == IN + OUT


def test_only_prices_have_one_partition() -> None:
    assert {name: spec.partitions(8) for name, spec in TOPICS.items()} == dict.fromkeys(IN + OUT, 8) | {
        "croesus.prices": 1
    }


def test_prices_are_kept_for_ever_and_not_compacted() -> None:
    config = PRICES.config("broker", 1)
    assert config["retention.ms"] == "-1"
    assert config["cleanup.policy"] == "delete"


@pytest.mark.parametrize("name", IN)
def test_inbound_timestamps_follow_the_setting(name: str) -> None:
    assert TOPICS[name].config("broker", 1)["message.timestamp.type"] == "LogAppendTime"
    assert TOPICS[name].config("producer", 1)["message.timestamp.type"] == "CreateTime"


@pytest.mark.parametrize("name", OUT)
def test_outbound_topics_have_producer_timestamps(name: str) -> None:
    assert TOPICS[name].config("broker", 1)["message.timestamp.type"] == "CreateTime"


@pytest.mark.parametrize("name", IN + OUT)
def test_topics_accept_values_over_64_kib_and_keep_records_with_producer_timestamps(name: str) -> None:
    assert int(TOPICS[name].config("broker", 1)["max.message.bytes"]) > 2 * 65_536
    assert TOPICS[name].config("producer", 1)["retention.ms"] == "-1"


@pytest.mark.parametrize(("replication", "in_sync"), [(1, "1"), (2, "1"), (3, "2")])
def test_min_in_sync_replicas_allow_one_broker_to_be_down(replication: int, in_sync: str) -> None:
    assert PRICES.config("broker", replication)["min.insync.replicas"] == in_sync


def test_namespace() -> None:
    assert with_namespace("user.commands", None) == "user.commands"
    assert with_namespace("user.commands", "t.1") == "t.1.user.commands"
    assert without_namespace("t.1.user.commands", "t.1") == "user.commands"
    assert without_namespace("user.commands", None) == "user.commands"
    with pytest.raises(ValueError, match="namespace"):
        without_namespace("other.user.commands", "t.1")
