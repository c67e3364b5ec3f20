"""The callbacks and heartbeats of replicas, by their behavior."""

from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest

from schemas.heartbeats import Heartbeat
from schemas.orders import ExecletOrder
from schemas.progress import Progress
from sim.agenda import Agenda
from sim.execlets import Behavior, Execlets, replica_actor, seeded
from sim.records import Record
from topics.catalogue import TOPICS
from topics.codec import decode

NOON = 1_764_417_600_000

SUBMIT = ExecletOrder(
    attempt=1,
    order_id="chat-r1:submit_job",
    org_id="aurora",
    deployment_id="chat",
    replica_id="chat-r1",
    order="submit_job",
    model="m",
    gpu_type="h100",
    gpu_count=1,
)
ABORT = SUBMIT.model_copy(update={"order_id": "chat-r1:abort_job", "order": "abort_job"})


def records_of(behavior: Behavior, records: int = 10_000, *, until_s: int = 10_000) -> list[Record]:
    actor = islice(replica_actor(SUBMIT, NOON, behavior, Random(1)), records)
    return [record for record in actor if record.timestamp_ms < NOON + until_s * 1_000]


def steps(records: list[Record]) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for record in records:
        event = decode(TOPICS[record.topic], record.value)
        if isinstance(event, Progress):
            found.append(((record.timestamp_ms - NOON) / 1_000, event.status))
    return found


def heartbeats_s(records: list[Record]) -> list[float]:
    return [(r.timestamp_ms - NOON) / 1_000 for r in records if r.topic == "execlet.heartbeats"]


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        (Behavior(pull_s=30, init_s=20), [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING")]),
        (Behavior(pull_s=30, ending="image"), [(0, "STARTING"), (30, "FAILED")]),
        (Behavior(pull_s=30, init_s=20, ending="init"), [(0, "STARTING"), (30, "STARTING"), (50, "FAILED")]),
        (
            Behavior(pull_s=30, init_s=20, ending="crash", end_after_s=100),
            [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING"), (150, "SYSTEM_FAILURE")],
        ),
        (
            Behavior(pull_s=30, init_s=20, ending="vm_crash", end_after_s=100, silent_after_s=40),
            [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING"), (150, "VM_CRASH")],
        ),
        (
            Behavior(pull_s=30, init_s=20, restart_after_s=200, restart_takes_s=60),
            [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING"), (250, "RESTARTING"), (310, "RUNNING")],
        ),
        (
            # It crashes at the time of the restart.
            Behavior(pull_s=30, init_s=20, restart_after_s=200, ending="crash", end_after_s=200),
            [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING"), (250, "SYSTEM_FAILURE")],
        ),
    ],
)
def test_steps(behavior: Behavior, expected: list[tuple[float, str]]) -> None:
    assert steps(records_of(behavior, until_s=2_000)) == expected


def test_a_normal_replica_sends_a_heartbeat_every_30_s_from_healthy_on() -> None:
    heartbeats = heartbeats_s(records_of(Behavior(pull_s=30, init_s=20), until_s=3_000))
    assert 50 < heartbeats[0] <= 80.001
    assert {round(b - a, 3) for a, b in pairwise(heartbeats)} == {30}
    # From at most 80 s to 3,000 s, each 30 s.
    assert len(heartbeats) in {98, 99}


def test_there_are_no_heartbeats_in_a_silence() -> None:
    heartbeats = heartbeats_s(
        records_of(Behavior(pull_s=30, init_s=20, silent_after_s=600, silent_for_s=300), until_s=3_000)
    )
    assert not [heartbeat for heartbeat in heartbeats if 650 < heartbeat < 950]
    assert [heartbeat for heartbeat in heartbeats if 620 <= heartbeat <= 650]
    assert [heartbeat for heartbeat in heartbeats if 950 <= heartbeat <= 980]


def test_a_dead_node_sends_no_heartbeats() -> None:
    behavior = Behavior(pull_s=30, init_s=20, silent_after_s=600, ending="vm_crash", end_after_s=4_200)
    assert max(heartbeats_s(records_of(behavior, until_s=9_000))) <= 650


def test_a_silence_without_an_end() -> None:
    assert max(heartbeats_s(records_of(Behavior(pull_s=30, init_s=20, silent_after_s=600), until_s=99_000))) <= 650


def test_there_are_no_heartbeats_in_a_restart_and_after_a_crash() -> None:
    behavior = Behavior(pull_s=30, init_s=20, restart_after_s=200, restart_takes_s=120, ending="crash", end_after_s=900)
    heartbeats = heartbeats_s(records_of(behavior, until_s=9_000))
    assert not [heartbeat for heartbeat in heartbeats if 250 <= heartbeat < 370 or heartbeat >= 950]


def test_records_are_in_order_of_time_and_ids_are_unique() -> None:
    behavior = Behavior(restart_after_s=200, silent_after_s=500, silent_for_s=200, ending="crash", end_after_s=2_000)
    records = records_of(behavior, until_s=99_000)
    assert records == sorted(records, key=lambda record: record.timestamp_ms)
    ids = [event.event_id for r in records if isinstance(event := decode(TOPICS[r.topic], r.value), Progress)]
    assert ids == [f"chat-r1.p{n}" for n in range(1, len(ids) + 1)]


def test_an_abort_removes_the_replica() -> None:
    agenda = Agenda()
    machines = Execlets(1, agenda, lambda _order, _rng: Behavior())
    machines.execute(SUBMIT, NOON)
    before = list(agenda.until(NOON + 300_000))
    assert isinstance(decode(TOPICS[before[-1].topic], before[-1].value), Heartbeat)
    assert before[0].timestamp_ms > NOON
    machines.execute(ABORT, NOON + 300_000)
    assert list(agenda.until(NOON + 900_000)) == []


def test_behaviors_are_deterministic_and_of_all_kinds() -> None:
    def behaviors(seed: int) -> list[Behavior]:
        return [seeded()(SUBMIT, Random(f"{seed}/{n}")) for n in range(2_000)]

    assert behaviors(1) == behaviors(1)
    assert behaviors(1) != behaviors(2)
    endings = Counter(behavior.ending for behavior in behaviors(1))
    assert set(endings) == {"none", "crash", "vm_crash", "image", "init"}
    assert endings["none"] > 1_700
    assert any(behavior.restart_after_s for behavior in behaviors(1))
    assert any(behavior.silent_for_s for behavior in behaviors(1))
