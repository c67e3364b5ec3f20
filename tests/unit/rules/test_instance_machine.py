"""Any order of commands, reports, balances, prices and ticks keeps the rules of instances (I1 to I11, B4, B5, B12).

`World` holds every record against what must always be true; here stand the rules that need the course of things.
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.times import parse_rfc3339
from streams.billing.windows import figures
from streams.lifecycle.instance import Order
from streams.rules.rows import Answer, Instance
from tests.unit.rules.instance_world import DAY, HOUR, METERS, MINUTE, ORG, Effect, World, at, org_row

REPORTS = (
    "workload_up",
    "launch_failed",
    "launch_failed_before_host",
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
# What usually comes next in a state, a command or a report: lives get long by it.
LIKELY = {
    "creating": ("workload_up", "workload_up", "launch_failed", "workload_lost", "launch_failed_before_host"),
    "starting": ("workload_up", "workload_up", "start_refused", "workload_lost", "workload_failed"),
    "running": ("stop", "stop", "workload_lost", "workload_completed", "stop_confirmed"),
    "stopping": ("stop_confirmed", "stop_confirmed", "workload_lost", "workload_gone"),
    "stopped": ("start", "start", "start", "workload_up", "workload_gone"),
    "error": ("found_running", "found_held", "workload_gone", "workload_failed"),
    "destroying": ("teardown_finished",),
    "destroyed": ("workload_up",),
}
BALANCES = ("1000000", "202", "101", "1", "0.01", "0", "-0.01", "-34.99", "-35", "-500")
WAITS = (0, 1, 999, 20_000, MINUTE, 2 * MINUTE)
STEPS = (1, 250, 9_999, 30_000, MINUTE, 7 * MINUTE, 31 * MINUTE, HOUR + 1, 3 * HOUR, DAY)


class Instances(RuleBasedStateMachine):
    """One org, its clock moved by hand; time may go back a little, as clocks of hosts and brokers do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = at("12:00")
        self.stays_in_order = True
        self.deployed = 0
        self.moves: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.orders: dict[str, int] = defaultdict(int)

    @initialize(
        fleet=st.sampled_from([1, 2, 5, 24]),
        balance=st.sampled_from(["1000000", "1000000", "303", "0", None]),
        free=st.booleans(),
        may_go_back=st.booleans(),
    )
    def begin(self, fleet: int, balance: str | None, *, free: bool, may_go_back: bool) -> None:
        self.world = World(balance, gpu="0") if free else World(balance)
        self.may_go_back = may_go_back
        for _ in range(fleet):
            self.deploy(disk_gb=10, releasable=fleet != 2)

    # What happens

    @rule(disk_gb=st.sampled_from([1, 100]), releasable=st.booleans())
    def deploy(self, disk_gb: int, *, releasable: bool) -> None:
        self.deployed += 1
        name = f"i{self.deployed}"
        held = self._held()
        effect = self.world.deploy(name, self.now, disk_gb=disk_gb, gpus_releasable=releasable)
        assert (effect.answer == "INSTANCE_LIMIT") == (held == 25)
        self._note(effect)
        if effect.answer != "accepted":
            self.deployed -= 1

    @precondition(lambda self: self._instances())
    @rule(name=st.sampled_from(["start", "stop", "destroy", "start", "stop"]), pick=st.integers(0, 99))
    def command(self, name: str, pick: int) -> None:
        instance_id = self._pick(pick)
        allowed = {"running": {"stop", "destroy"}, "stopped": {"start", "destroy"}, "destroyed": set()}
        state = self.world.state(instance_id)
        effect = self.world.command(name, instance_id, self.now)
        legal = name in allowed.get(state, {"destroy"})
        assert (effect.answer != "ILLEGAL_TRANSITION") == legal
        if name != "start":
            assert (effect.answer == "accepted") == legal  # never a matter of money
        self._note(effect)

    @precondition(lambda self: self._instances())
    @rule(
        pick=st.integers(0, 99),
        steps=st.lists(st.tuples(st.integers(0, 19), st.sampled_from(WAITS)), min_size=1, max_size=6),
    )
    def live_on(self, pick: int, steps: list[tuple[int, int]]) -> None:
        instance_id = self._pick(pick)
        for choice, wait in steps:
            self.now += wait
            names = LIKELY[self.world.state(instance_id)]
            name = names[choice % len(names)]
            if name in ("start", "stop"):
                self._note(self.world.command(name, instance_id, self.now))
            else:
                self._note(self.world.report(instance_id, name, self.now))
            self.nothing_runs_on_an_empty_balance_but_what_did_not_stop()

    @precondition(lambda self: self._instances())
    @rule(pick=st.integers(0, 99), name=st.sampled_from(REPORTS))
    def any_report(self, pick: int, name: str) -> None:
        self._note(self.world.report(self._pick(pick), name, self.now))

    @rule(pick=st.integers(0, 99), then=st.sampled_from(["stop_confirmed", "workload_failed", "workload_lost", "stop"]))
    def stop_and_hear_nothing(self, pick: int, then: str) -> None:
        running = [name for name, row in self._instances().items() if row.state.value == "running"]
        if not running:
            return
        instance_id = running[pick % len(running)]
        self._note(self.world.stop(instance_id, self.now))
        self.now += 30 * MINUTE
        self.tick()
        row = self.world.row(instance_id)
        assert row.stage == "stop_pending"
        sent = row.orders[Order.STOP].sent
        self.now += MINUTE
        self.tick()
        assert row.orders[Order.STOP].sent == sent + 1
        self._note(
            self.world.command(then, instance_id, self.now)
            if then == "stop"
            else self.world.report(instance_id, then, self.now)
        )
        state = {"stop": "stopping", "workload_lost": "error"}.get(then, "stopped")
        assert self.world.state(instance_id) == state

    @rule(amount=st.sampled_from(["-34.99", "-35", "-500"]))
    def stay_in_debt(self, amount: str) -> None:
        self._note(self.world.balance(amount, self.now))
        self.now += DAY
        self.tick()
        left = {row.state.value for row in self._instances().values()}
        assert amount == "-34.99" or not left & {"stopped", "error"}

    @rule(amount=st.sampled_from(BALANCES))
    def balance(self, amount: str) -> None:
        self._note(self.world.balance(amount, self.now))

    @rule(profile=st.sampled_from(["instance.a100.1x", "disk"]), price=st.sampled_from(["0.01", "100", "0", None]))
    def price(self, profile: str, price: str | None) -> None:
        self.world.price(profile, price, self.now)

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

    def tick(self) -> None:
        effect = self.world.tick(self.now)
        self._note(effect)
        for row in self._instances().values():
            age = self.now - row.entered_at
            assert not (row.state.value in ("starting", "stopping") and age >= 30 * MINUTE)
            ended = row.error_code in ("workload_failed", "workload_completed", "workload_gone")
            assert not (row.state.value == "error" and age >= HOUR and (ended or not row.ran))

    @rule()
    def restart(self) -> None:
        self.world.restart()

    # What is true at any time

    @invariant()
    def nothing_runs_on_an_empty_balance_but_what_did_not_stop(self) -> None:
        balance = org_row(self.world).balance
        if balance is not None and not (balance.startswith("-") or not balance.strip("0.")):
            return
        for row in self._instances().values():
            if row.state.value == "running":
                assert row.stage == "stop_pending"
                assert row.error_code == "stop_timed_out"
            if row.state.value == "stopped":
                assert not (row.gpus_held and row.gpus_releasable)

    @invariant()
    def what_a_row_says_belongs_to_its_state(self) -> None:
        for row in self._instances().values():
            state = row.state.value
            assert (row.error_code is None) == (row.error_message is None)
            assert row.stage != "stop_pending" or state == "running"
            if state == "error":
                assert row.error_code is not None
            if state == "running":
                assert row.ran
                assert row.gpus_held
                assert row.error_code in (None, "stop_timed_out")
            if state in ("creating", "starting", "stopping", "destroying", "destroyed"):
                assert row.error_code is None
            if state == "destroyed":
                assert not row.gpus_held

    def teardown(self) -> None:
        """Give everything its price, end everything, bill it all: every ms of running and stopped, and no other."""
        self.now = max(self.now, at("12:00")) + DAY
        self.world.price("instance.a100.1x", "1", self.now)
        self.world.price("disk", "1", self.now)
        for n in range(1, self.deployed + 1):
            self._note(self.world.destroy(f"i{n}", self.now))
        org = self.world.accountant.store.org(ORG)
        while org.due("instance"):
            self.now += MINUTE
            before = len(self.world.usage)
            self.world.tick(self.now)
            assert len(self.world.usage) > before, "held for no reason"
        billed: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for piece, duration in self.world.usage.items():
            instance_id, meter, start = piece.split(":", 2)
            billed[instance_id, meter].append((parse_rfc3339(start), parse_rfc3339(start) + duration))
        for pieces in billed.values():
            assert all(before[1] <= after[0] for before, after in pairwise(sorted(pieces))), "billed twice"
        self._compare_with_the_told(billed)

    def _compare_with_the_told(self, billed: dict[tuple[str, str], list[tuple[int, int]]]) -> None:
        org = self.world.accountant.store.org(ORG)
        told: dict[tuple[str, str], int] = defaultdict(int)
        for instance_id, moves in self.moves.items():
            for (since, state), (until, _) in pairwise(moves):
                if state in METERS:
                    told[instance_id, METERS[state]] += until - since
        for row in self._instances().values():
            for window in org.windows_of(row):
                assert window.done
                assert figures(window, self.now).pending_ms == 0
        if self.stays_in_order:
            sums = {key: sum(end - start for start, end in pieces) for key, pieces in billed.items()}
            assert sums == {key: ms for key, ms in told.items() if ms}

    # How it is told

    def _instances(self) -> Mapping[str, Instance]:
        return self.world.accountant.store.org(ORG).instances

    def _held(self) -> int:
        return len(self.world.accountant.store.org(ORG).live_instances)

    def _pick(self, pick: int) -> str:
        """An instance, one of the youngest more often."""
        known = list(self._instances())
        youngest = known if pick % 3 == 0 else known[-4:]
        return youngest[pick % len(youngest)]

    def _note(self, effect: Effect) -> None:
        if effect.result is not None and effect.result.outcome == "rejected":
            assert effect.nothing
            assert {type(row) for row in effect.changed} <= {Answer}
        for told in effect.told:
            moves = self.moves[told.id]
            assert told.from_ == (moves[-1][1] if moves else None)
            assert told.event_id == f"instance:{told.id}:{len(moves) + 1}"
            moves.append((self.now, told.to))
        for order in effect.orders:
            order_id = order.rpartition("/")[0]
            name, _, number = order_id.rpartition(":")
            self.orders[name] += 1
            assert int(number) == self.orders[name]


TestInstances = Instances.TestCase
TestInstances.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
