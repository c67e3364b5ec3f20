"""The fleet's records are valid and in their orgs' partitions; otherwise the bench would measure dead letters."""

import json

import pytest

from bench.fleet import BIG_ORG, Fleet, RecordsByPartition, count, prices
from schemas.commands import CreateDeployment
from schemas.heartbeats import Heartbeat
from schemas.prices import Price
from schemas.progress import Progress
from schemas.requests import InferenceRequest
from topics.catalogue import COMMANDS, HEARTBEATS, PROGRESS, REQUESTS, TopicSpec
from topics.codec import decode_batch, decode_prices
from topics.partitioner import partition_of

FLEET = Fleet(2_000, 4)


@pytest.mark.parametrize(
    ("spec", "placed", "model", "records"),
    [
        (COMMANDS, FLEET.commands(), CreateDeployment, 20),
        (PROGRESS, FLEET.starts(), Progress, 2_000),
        (HEARTBEATS, FLEET.heartbeats(0), Heartbeat, 2_000),
        (REQUESTS, FLEET.requests(50), InferenceRequest, 50),
    ],
    ids=["commands", "starts", "heartbeats", "requests"],
)
def test_every_record_is_valid_and_in_its_partition(
    spec: TopicSpec, placed: RecordsByPartition, model: type, records: int
) -> None:
    assert count(placed) == records
    for partition, keyed in placed.items():
        items = decode_batch(spec, [value for _, value in keyed])
        assert {type(item) for item in items} == {model}
        assert [item.org_id.encode() for item in items] == [key for key, _ in keyed]
        assert {partition_of(item.org_id, 4) for item in items} == {partition}


def test_commands_create_the_replicas_of_callbacks_and_heartbeats() -> None:
    created = {
        (command.org_id, f"{command.deployment_id}-r{number}")
        for keyed in FLEET.commands().values()
        for command in decode_batch(COMMANDS, [value for _, value in keyed])
        for number in range(1, command.min_replicas + 1)
    }
    for spec, placed in ((PROGRESS, FLEET.starts()), (HEARTBEATS, FLEET.heartbeats(0))):
        items = [item for keyed in placed.values() for item in decode_batch(spec, [value for _, value in keyed])]
        assert {(item.org_id, item.replica_id) for item in items} == created
        assert len(items) == len(created)


def test_heartbeats_have_the_size_and_the_time_of_real_ones() -> None:
    # The replica ids of a deployment have 1 to 3 digits after their "r": 9 × 1, 90 × 2 and 1 × 3, 1.92 on average.
    values = [value for keyed in FLEET.heartbeats(1_000).values() for _, value in keyed]
    assert sum(map(len, values)) / len(values) == pytest.approx(118, abs=1)
    assert {json.loads(value)["at"] for value in values} == {"1970-01-01T00:00:01.000Z"}
    assert len({json.loads(value)["event_id"] for value in values}) == 2_000


def test_one_org_is_ten_times_as_large() -> None:
    # Of 20 deployments, the 1st and the 11th belong to the big org; the other 18 have an org each.
    assert [deployment for org, deployment in FLEET.deployments if org == BIG_ORG] == ["dep-000000", "dep-000010"]
    assert len(FLEET.orgs) == 19


def test_all_replicas_may_belong_to_one_org() -> None:
    assert Fleet(2_000, 4, one_org=True).orgs == [BIG_ORG]
    assert [len(keyed) for keyed in Fleet(2_000, 4, one_org=True).heartbeats(0).values()] == [2_000]


def test_the_profile_has_a_price() -> None:
    ((price),) = decode_prices([(key, value) for key, value in prices()], "JPY")
    assert price == Price(profile="dedicated.h100.1x", price="300", currency="JPY")
