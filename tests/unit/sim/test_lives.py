"""What replicas go through, by their temper."""

from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest

from schemas.heartbeats import Heartbeat
from schemas.orders import ExecletOrder
from schemas.progress import Progress
from sim.agenda import Agenda
from sim.lives import Execlets, Temper, replica_life, seeded
from sim.records import Record
from topics.catalogue import TOPICS
from topics.codec import decode

NOON = 1_764_417_600_000

SUBMIT = ExecletOrder(
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


def lived(temper: Temper, records: int = 10_000, *, until_s: int = 10_000) -> list[Record]:
    life = islice(replica_life(SUBMIT, NOON, temper, Random(1)), records)
    return [record for record in life if record.timestamp_ms < NOON + until_s * 1_000]


def steps(records: list[Record]) -> list[tuple[float, str]]:
    told: list[tuple[float, str]] = []
    for record in records:
        event = decode(TOPICS[record.topic], record.value)
        if isinstance(event, Progress):
            told.append(((record.timestamp_ms - NOON) / 1_000, event.status))
    return told


def beats_s(records: list[Record]) -> list[float]:
    return [(r.timestamp_ms - NOON) / 1_000 for r in records if r.topic == "execlet.heartbeats"]


@pytest.mark.parametrize(
    ("temper", "expected"),
    [
        (Temper(pull_s=30, init_s=20), [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING")]),
        (Temper(pull_s=30, ending="image"), [(0, "STARTING"), (30, "FAILED")]),
        (Temper(pull_s=30, init_s=20, ending="init"), [(0, "STARTING"), (30, "STARTING"), (50, "FAILED")]),
        (
            Temper(pull_s=30, init_s=20, ending="crash", end_after_s=100),
            [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING"), (150, "SYSTEM_FAILURE")],
        ),
        (
            Temper(pull_s=30, init_s=20, ending="vm_crash", end_after_s=100, silent_after_s=40),
            [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING"), (150, "VM_CRASH")],
        ),
        (
            Temper(pull_s=30, init_s=20, restart_after_s=200, restart_takes_s=60),
            [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING"), (250, "RESTARTING"), (310, "RUNNING")],
        ),
        (
            # It crashes before it would restart.
            Temper(pull_s=30, init_s=20, restart_after_s=200, ending="crash", end_after_s=200),
            [(0, "STARTING"), (30, "STARTING"), (50, "RUNNING"), (250, "SYSTEM_FAILURE")],
        ),
    ],
)
def test_steps(temper: Temper, expected: list[tuple[float, str]]) -> None:
    assert steps(lived(temper, until_s=2_000)) == expected


def test_a_quiet_replica_beats_every_30_s_from_healthy_on() -> None:
    beats = beats_s(lived(Temper(pull_s=30, init_s=20), until_s=3_000))
    assert 50 < beats[0] <= 80.001
    assert {round(b - a, 3) for a, b in pairwise(beats)} == {30}
    # From at most 80 s to 3,000 s, each 30 s.
    assert len(beats) in {98, 99}


def test_a_silent_stretch_has_no_beats() -> None:
    beats = beats_s(lived(Temper(pull_s=30, init_s=20, silent_after_s=600, silent_for_s=300), until_s=3_000))
    assert not [beat for beat in beats if 650 < beat < 950]
    assert [beat for beat in beats if 620 <= beat <= 650]
    assert [beat for beat in beats if 950 <= beat <= 980]


def test_a_dead_node_never_beats_again() -> None:
    temper = Temper(pull_s=30, init_s=20, silent_after_s=600, ending="vm_crash", end_after_s=4_200)
    assert max(beats_s(lived(temper, until_s=9_000))) <= 650


def test_silent_for_good_ends() -> None:
    assert max(beats_s(lived(Temper(pull_s=30, init_s=20, silent_after_s=600), until_s=99_000))) <= 650


def test_nothing_beats_while_it_restarts_or_after_a_crash() -> None:
    temper = Temper(pull_s=30, init_s=20, restart_after_s=200, restart_takes_s=120, ending="crash", end_after_s=900)
    beats = beats_s(lived(temper, until_s=9_000))
    assert not [beat for beat in beats if 250 <= beat < 370 or beat >= 950]


def test_lives_are_in_order_of_time_and_ids_are_unique() -> None:
    temper = Temper(restart_after_s=200, silent_after_s=500, silent_for_s=200, ending="crash", end_after_s=2_000)
    records = lived(temper, until_s=99_000)
    assert records == sorted(records, key=lambda record: record.timestamp_ms)
    ids = [event.event_id for r in records if isinstance(event := decode(TOPICS[r.topic], r.value), Progress)]
    assert ids == [f"chat-r1.p{n}" for n in range(1, len(ids) + 1)]


def test_an_abort_ends_a_life() -> None:
    agenda = Agenda()
    execlets = Execlets(1, agenda, lambda _order, _rng: Temper())
    execlets.obey(SUBMIT, NOON)
    before = list(agenda.until(NOON + 300_000))
    assert isinstance(decode(TOPICS[before[-1].topic], before[-1].value), Heartbeat)
    assert before[0].timestamp_ms > NOON
    execlets.obey(ABORT, NOON + 300_000)
    assert list(agenda.until(NOON + 900_000)) == []


def test_the_same_seed_gives_the_same_tempers_and_all_kinds_of_them() -> None:
    def tempers(seed: int) -> list[Temper]:
        return [seeded()(SUBMIT, Random(f"{seed}/{n}")) for n in range(2_000)]

    assert tempers(1) == tempers(1)
    assert tempers(1) != tempers(2)
    endings = Counter(temper.ending for temper in tempers(1))
    assert set(endings) == {"none", "crash", "vm_crash", "image", "init"}
    assert endings["none"] > 1_700
    assert any(temper.restart_after_s for temper in tempers(1))
    assert any(temper.silent_for_s for temper in tempers(1))
