"""Any order of commands, reports, balances, prices and ticks keeps the rules of instances (I1 to I11, B4, B5, B12).

`check_rows` and `check_outputs` say what must always be true; here stand the rules that need the course of things.
"""

from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.base import Json
from schemas.times import parse_rfc3339
from tests.world.checks import check_outputs, check_rows
from tests.world.timeline import to_clock, to_ms
from tests.world.world import Sent, World

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

REPORTS = (
    "workload_up",
    "launch_failed",
    "launch_failed reached_host=false",
    "stop_confirmed",
    "start_refused",
    "start_unreachable",
    "gpus_unavailable",
    "workload_failed",
    "workload_lost",
    "workload_completed",
    "workload_gone",
    "found_running",
    "found_held",
    "teardown_finished",
)
# The usual next command or report in each state, so that instances pass many states.
LIKELY = {
    "creating": ("workload_up", "workload_up", "launch_failed", "workload_lost", "launch_failed reached_host=false"),
    "starting": ("workload_up", "workload_up", "start_refused", "workload_lost", "workload_failed"),
    "running": ("stop", "stop", "workload_lost", "workload_completed", "stop_confirmed"),
    "stopping": ("stop_confirmed", "stop_confirmed", "workload_lost", "workload_gone"),
    "stopped": ("start", "start", "start", "workload_up", "workload_gone"),
    "error": ("found_running", "found_held", "workload_gone", "workload_failed"),
    "destroying": ("teardown_finished",),
    "destroyed": ("workload_up",),
}
ENDED = ("workload_failed", "workload_completed", "workload_gone")
TIMEOUTS = {"starting": 30 * MINUTE, "stopping": 30 * MINUTE, "creating": 6 * HOUR}
METERS = {"running": "gpu", "stopped": "disk"}
BALANCES = ("1000000", "202", "101", "1", "0.01", "0", "-0.01", "-34.99", "-35", "-500")
WAITS = (0, 1, 999, 20_000, MINUTE, 2 * MINUTE)
STEPS = (1, 250, 9_999, 30_000, MINUTE, 7 * MINUTE, 31 * MINUTE, HOUR + 1, 3 * HOUR, DAY)


class Instances(RuleBasedStateMachine):
    """One org with a clock that the test moves; time may go back a little, as on hosts and brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.now = to_ms("12:00")
        self.stays_in_order = True
        self.latest_tick = 0
        self.timers: dict[str, tuple[str, str, int]] = {}
        self.releasable: dict[str, bool] = {}
        self.moves: dict[str, list[tuple[int, str]]] = defaultdict(list)

    @initialize(
        fleet=st.sampled_from([1, 2, 5, 24]),
        balance=st.sampled_from(["1000000", "1000000", "303", "0", None]),
        free=st.booleans(),
        may_go_back=st.booleans(),
    )
    def begin(self, fleet: int, balance: str | None, *, free: bool, may_go_back: bool) -> None:
        self.world.do(f"00:00 price instance.h100.1x {0 if free else 100}", "00:00 price disk 0.01")
        if balance is not None:
            self.world.do(f"00:00 balance {balance}")
        self.may_go_back = may_go_back
        for _ in range(fleet):
            self.deploy(disk_gb=10, releasable=fleet != 2)

    # Events

    @rule(disk_gb=st.sampled_from([1, 100]), releasable=st.booleans())
    def deploy(self, disk_gb: int, *, releasable: bool) -> None:
        name = f"i{len(self.releasable) + 1}"
        live = sum(one["state"] != "destroyed" for one in self._instances().values())
        code = self._command(f"deploy {name} disk={disk_gb} releasable={str(releasable).lower()}")
        assert (code == "INSTANCE_LIMIT") == (live == 25)
        if code == "accepted":
            self.releasable[name] = releasable

    @precondition(lambda self: self.releasable)
    @rule(name=st.sampled_from(["start", "stop", "destroy", "start", "stop"]), pick=st.integers(0, 99))
    def command(self, name: str, pick: int) -> None:
        instance_id = self._pick(pick)
        if instance_id not in self._instances():
            assert self._command(f"{name}_instance {instance_id}") == "NOT_FOUND"
            return
        allowed = {"running": {"stop", "destroy"}, "stopped": {"start", "destroy"}, "destroyed": set()}
        legal = name in allowed.get(self._state(instance_id), {"destroy"})
        code = self._command(f"{name}_instance {instance_id}")
        assert (code != "ILLEGAL_TRANSITION") == legal
        if name != "start":
            assert (code == "accepted") == legal  # never a matter of money

    @precondition(lambda self: self.releasable)
    @rule(
        pick=st.integers(0, 99),
        steps=st.lists(st.tuples(st.integers(0, 19), st.sampled_from(WAITS)), min_size=1, max_size=6),
    )
    def live_on(self, pick: int, steps: list[tuple[int, int]]) -> None:
        instance_id = self._pick(pick)
        for choice, wait in steps:
            if instance_id not in self._instances():
                return
            self.now += wait
            names = LIKELY[self._state(instance_id)]
            self._command_or_report(names[choice % len(names)], instance_id)
            self.nothing_runs_on_an_empty_balance_but_what_did_not_stop()

    @precondition(lambda self: self.releasable)
    @rule(pick=st.integers(0, 99), name=st.sampled_from(REPORTS))
    def any_report(self, pick: int, name: str) -> None:
        self._command_or_report(name, self._pick(pick))

    @rule(pick=st.integers(0, 99), then=st.sampled_from(["stop_confirmed", "workload_failed", "workload_lost", "stop"]))
    def stop_and_hear_nothing(self, pick: int, then: str) -> None:
        running = [name for name, one in self._instances().items() if one["state"] == "running"]
        if not running:
            return
        instance_id = running[pick % len(running)]
        self.now = max(self.now, self.latest_tick)
        self._command(f"stop_instance {instance_id}")
        self.tick()
        self.now += 30 * MINUTE
        self.tick()
        assert self._instances()[instance_id]["stop_pending"]
        self.now += MINUTE
        again = [sent.value for sent in self.tick() if sent.topic == "host.orders"]
        assert [order["order"] for order in again if order["instance_id"] == instance_id] == ["stop"]
        self._command_or_report(then, instance_id)
        assert self._state(instance_id) == {"stop": "stopping", "workload_lost": "error"}.get(then, "stopped")

    @rule(amount=st.sampled_from(["-34.99", "-35", "-500"]))
    def stay_in_debt(self, amount: str) -> None:
        self.now = max(self.now, self.latest_tick)
        self._do(f"balance {amount}")
        # Timers start; a notice is sent an hour before a day has passed.
        for pause in (0, DAY - HOUR, HOUR):
            self.now += pause
            self.tick()
        left = {one["state"] for one in self._instances().values()}
        assert amount == "-34.99" or not left & {"stopped", "error"}

    @rule(amount=st.sampled_from(BALANCES))
    def balance(self, amount: str) -> None:
        self._do(f"balance {amount}")

    @rule(profile=st.sampled_from(["instance.h100.1x", "disk"]), price=st.sampled_from(["0.01", "100", "0", "none"]))
    def price(self, profile: str, price: str) -> None:
        self._do(f"price {profile} {price}")

    @rule(by=st.sampled_from(STEPS), ticks=st.booleans())
    def time_passes(self, by: int, *, ticks: bool) -> None:
        self.now += by
        if ticks:
            self.tick()

    @rule(minutes=st.integers(1, 40))
    def minutes_pass(self, minutes: int) -> None:
        for _ in range(minutes):
            self.now += MINUTE - self.now % MINUTE
            self.tick()

    @precondition(lambda self: self.may_go_back)
    @rule(by=st.sampled_from([1, 750, 61_000]))
    def time_goes_back(self, by: int) -> None:
        self.now -= by
        self.stays_in_order = False

    def tick(self) -> list[Sent]:
        sent = self._do("tick")
        if self.now < self.latest_tick:
            assert sent == []
            assert self.world.counts["ignored", "old_tick"] == 1
            return sent
        self.latest_tick = self.now
        for instance_id, one in self._instances().items():
            state, entered_at = one["state"], one["entered_at"]
            # A timer starts at the first tick in its state, and never before it was entered (I12).
            if self.timers.get(instance_id, ())[:2] != (state, entered_at):
                self.timers[instance_id] = state, entered_at, max(self.now, parse_rfc3339(entered_at))
            age = self.now - self.timers[instance_id][2]
            assert age < TIMEOUTS.get(state, age + 1)
            expires = one["error_code"] in ENDED or not self._ran(instance_id)
            assert not (state == "error" and self.now - parse_rfc3339(entered_at) >= HOUR and expires)
        return sent

    @rule()
    def restart(self) -> None:
        self.world.restart()

    # Invariants

    @invariant()
    def nothing_runs_on_an_empty_balance_but_what_did_not_stop(self) -> None:
        balance = (self.world.find("org") or {}).get("balance")
        if balance is not None and Decimal(balance) > 0:
            return
        for instance_id, one in self._instances().items():
            if one["state"] == "running":
                assert one["stop_pending"]
                assert one["error_code"] == "stop_timed_out"
            if one["state"] == "stopped":
                assert not (one["gpus_held"] and self.releasable[instance_id])

    @invariant()
    def what_a_row_says_belongs_to_its_state(self) -> None:
        for instance_id, one in self._instances().items():
            state = one["state"]
            assert (one["error_code"] is None) == (one["error_message"] is None)
            assert not one["stop_pending"] or state == "running"
            if state == "error":
                assert one["error_code"] is not None
            if state == "running":
                assert self._ran(instance_id)
                assert one["gpus_held"]
                assert one["error_code"] in {None, "stop_timed_out"}
            if state in {"creating", "starting", "stopping", "destroying", "destroyed"}:
                assert one["error_code"] is None
            if state == "destroyed":
                assert not one["gpus_held"]

    @invariant()
    def what_always_holds(self) -> None:
        check_rows(self.world)

    def teardown(self) -> None:
        """Set all prices, end all instances and bill everything: every ms of running and stopped, and no other."""
        self.now = max(self.now, to_ms("12:00")) + DAY
        self._do("price instance.h100.1x 1")
        self._do("price disk 1")
        for instance_id in self._instances():
            self._command(f"destroy_instance {instance_id}")
        windows = [window for one in self._instances().values() for window in one["windows"]]
        while any(window["pending_ms"] or window["credit_pending_ms"] for window in windows):
            self.now += MINUTE
            sent = self.world.do(f"{to_clock(self.now)} tick")
            assert {each.topic for each in sent} & {"croesus.usage", "croesus.credits"}, "live for no reason"
            windows = [window for one in self._instances().values() for window in one["windows"]]
        check_outputs(self.world.all_sent)
        billed: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for each in self.world.all_sent:
            if each.topic == "croesus.usage":
                instance_id, meter, start = each.value["id"].split(":", 2)
                begins = parse_rfc3339(start)
                billed[instance_id, meter].append((begins, begins + each.value["duration_ms"]))
        for pieces in billed.values():
            assert all(before[1] <= after[0] for before, after in pairwise(sorted(pieces))), "billed twice"
        billable_ms: dict[tuple[str, str], int] = defaultdict(int)
        for instance_id, moves in self.moves.items():
            for (since, state), (until, _) in pairwise(moves):
                if state in METERS:
                    billable_ms[instance_id, METERS[state]] += until - since
        if self.stays_in_order:
            sums = {key: sum(end - start for start, end in pieces) for key, pieces in billed.items()}
            assert sums == {key: ms for key, ms in billable_ms.items() if ms}

    # Representation

    def _instances(self) -> dict[str, Json]:
        return {one["instance_id"]: one for one in self.world.all("instance")}

    def _kept(self) -> dict[str, Json]:
        """Return the instances without the fields that change with time alone."""
        return {
            name: {field: value for field, value in one.items() if field != "conservation"}
            | {"windows": [(each["window_id"], each["billed_ms"], each["ended_at"]) for each in one["windows"]]}
            for name, one in self._instances().items()
        }

    def _state(self, instance_id: str) -> str:
        return str(self._instances()[instance_id]["state"])

    def _ran(self, instance_id: str) -> bool:
        return any(state == "running" for _, state in self.moves[instance_id])

    def _pick(self, pick: int) -> str:
        """An instance, one of the youngest more often."""
        known = list(self.releasable)
        youngest = known if pick % 3 == 0 else known[-4:]
        return youngest[pick % len(youngest)]

    def _command_or_report(self, name: str, instance_id: str) -> None:
        if name in {"start", "stop"}:
            self._command(f"{name}_instance {instance_id}")
        else:
            report, *options = name.split()
            self._do(" ".join(["report", instance_id, report, *options]))

    def _command(self, words: str) -> str:
        """Send a command; return `accepted` or the code of its rejection, which changes nothing (C2)."""
        before = self._kept()
        sent = self._do(words)
        (result,) = [each.value for each in sent if each.topic == "command.results"]
        if result["outcome"] == "rejected":
            assert len(sent) == 1
            assert self._kept() == before
        return str(result.get("code", result["outcome"]))

    def _do(self, words: str) -> list[Sent]:
        sent = self.world.do(f"{to_clock(self.now)} {words}")
        for each in sent:
            if each.topic == "lifecycle.changes":
                moves = self.moves[each.value["id"]]
                assert each.value.get("from") == (moves[-1][1] if moves else None)
                moves.append((self.now, each.value["to"]))
        return sent


TestInstances = Instances.TestCase
TestInstances.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
