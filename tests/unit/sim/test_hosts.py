"""The reports of hosts, by their behavior."""

from random import Random
from typing import Any

import pytest

from schemas.orders import HostOrder, HostOrderName
from schemas.reports import LaunchFailed
from sim.agenda import Agenda
from sim.hosts import Behavior, Hosts, seeded
from topics.catalogue import REPORTS
from topics.codec import decode

NOON = 1_764_417_600_000
MINUTE = 60_000


def order(name: HostOrderName, attempt: int = 1, instance: str = "vm") -> HostOrder:
    return HostOrder(
        order_id=f"{instance}:{name}:{attempt}", org_id="jade", instance_id=instance, order=name, attempt=attempt
    )


class Host:
    """A host with one behavior."""

    def __init__(self, **behavior: Any) -> None:
        self._agenda = Agenda()
        self._hosts = Hosts(1, self._agenda, lambda _order, _rng: Behavior(**behavior))
        self._now = NOON

    def after(self, *orders: HostOrder, minutes: int = 5) -> list[str]:
        for one in orders:
            self._hosts.execute(one, self._now)
        self._now += minutes * MINUTE
        reports = []
        for record in self._agenda.until(self._now):
            report = decode(REPORTS, record.value)
            reached = f"/{report.reached_host}" if isinstance(report, LaunchFailed) else ""
            reports.append(f"{report.report}{reached}")
        return reports


def test_a_normal_host() -> None:
    host = Host()
    assert host.after(order("create")) == ["workload_up"]
    assert host.after(order("stop")) == ["stop_confirmed"]
    assert host.after(order("start")) == ["workload_up"]
    assert host.after(order("stop")) == ["stop_confirmed"]
    assert host.after(order("release_gpus")) == []
    assert host.after(order("destroy")) == ["teardown_finished"]


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        ({"launch": "fails"}, ["launch_failed/True"]),
        ({"launch": "never_reaches_host"}, ["launch_failed/False"]),
        ({"launch": "lost"}, ["workload_lost"]),
        ({"ending": "workload_completed", "end_after_s": 600}, ["workload_up", "workload_completed"]),
        ({"ending": "workload_failed", "end_after_s": 600}, ["workload_up", "workload_failed"]),
        ({"ending": "workload_lost", "end_after_s": 600}, ["workload_up", "workload_lost"]),
        (
            {"ending": "workload_lost", "end_after_s": 600, "found_after_s": 300},
            ["workload_up", "workload_lost", "found_running"],
        ),
    ],
)
def test_launches(behavior: dict[str, Any], expected: list[str]) -> None:
    assert Host(**behavior).after(order("create"), minutes=60) == expected


def test_a_job_that_is_stopped_does_not_complete() -> None:
    host = Host(ending="workload_completed", end_after_s=600)
    assert host.after(order("create")) == ["workload_up"]
    assert host.after(order("stop"), minutes=60) == ["stop_confirmed"]


@pytest.mark.parametrize("odd", ["start_refused", "start_unreachable", "gpus_unavailable"])
def test_the_first_start_fails_and_the_second_succeeds(odd: str) -> None:
    host = Host(resumes=(odd,))
    host.after(order("create"))
    host.after(order("stop"))
    assert host.after(order("start")) == [odd]
    assert host.after(order("start")) == ["workload_up"]


def test_a_start_without_any_report() -> None:
    host = Host(resumes=("silent",))
    host.after(order("create"))
    host.after(order("stop"))
    assert host.after(order("start"), minutes=60) == []


def test_the_first_stops_are_ignored() -> None:
    host = Host(ignored_stops=2)
    host.after(order("create"))
    assert host.after(order("stop")) == []
    assert host.after(order("stop", 2)) == []
    assert host.after(order("stop", 3)) == ["stop_confirmed"]


def test_a_repeated_order_is_executed_once() -> None:
    host = Host(stop_s=200)
    host.after(order("create"))
    assert host.after(order("stop"), minutes=1) == []
    assert host.after(order("stop", 2), minutes=1) == []
    assert host.after(order("stop", 3), minutes=9) == ["stop_confirmed"]


def test_the_first_destroy_is_ignored() -> None:
    host = Host(ignored_destroys=1)
    assert host.after(order("create")) == ["workload_up"]
    assert host.after(order("destroy")) == []
    assert host.after(order("destroy", 2)) == ["teardown_finished"]


def test_gone_while_stopped() -> None:
    host = Host(gone_after_s=600)
    host.after(order("create"))
    assert host.after(order("stop"), minutes=60) == ["stop_confirmed", "workload_gone"]


def test_event_ids_of_an_instance_are_unique() -> None:
    agenda = Agenda()
    hosts = Hosts(1, agenda, lambda _order, _rng: Behavior())
    ids = []
    for n, name in enumerate(("create", "stop", "start", "stop", "destroy")):
        hosts.execute(order(name), NOON + n * 5 * MINUTE)  # type: ignore[arg-type]  # a list of the literals
        ids += [decode(REPORTS, r.value).event_id for r in agenda.until(NOON + (n + 1) * 5 * MINUTE)]
    assert ids == ["vm.h1", "vm.h2", "vm.h3", "vm.h4", "vm.h5"]


def test_behaviors_are_deterministic_and_of_all_kinds() -> None:
    behaviors = [seeded(order("create"), Random(n)) for n in range(2_000)]
    assert behaviors == [seeded(order("create"), Random(n)) for n in range(2_000)]
    assert {behavior.launch for behavior in behaviors} == {"up", "fails", "never_reaches_host", "lost"}
    assert {t.ending for t in behaviors} == {"none", "workload_completed", "workload_failed", "workload_lost"}
    assert {start for behavior in behaviors for start in behavior.resumes} == {
        "start_refused",
        "start_unreachable",
        "gpus_unavailable",
        "silent",
    }
    assert any(behavior.ignored_stops for behavior in behaviors)
    assert any(behavior.ignored_destroys for behavior in behaviors)
    assert any(behavior.gone_after_s for behavior in behaviors)
