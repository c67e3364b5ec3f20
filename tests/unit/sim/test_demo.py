"""The demo's script against Obol's rules without a broker: every story occurs, and every figure adds up."""

import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from schemas.times import rfc3339
from sim import show, stories
from sim.audit import audit
from sim.croesus import Charge
from sim.records import tick
from sim.script import Script
from sim.stage import Output, Stage
from sim.stories import Evidence, Story
from streams.limits import DAY_MS
from streams.metrics.hours import Hours
from tests.unit.sim.obol import Platform, PlatformViews

START = 1_764_417_600_000  # 2025-11-29T12:00:00Z
MINUTE = 60_000


@dataclass
class Played:
    script: Script
    stage: Stage
    obol: Platform
    views: PlatformViews

    def story(self, builder: stories.StoryBuilder) -> Story:
        return builder(Evidence(self.stage, self.views))

    def text(self, builder: stories.StoryBuilder) -> str:
        return "\n".join(self.story(builder).lines)


def play(seed: int) -> Played:
    script = Script(seed, START)
    stage = Stage(
        seed, script.user_actors(), script.croesus_actions(), script.execlet_behavior(), script.host_behavior()
    )
    obol = Platform()
    last = 0
    for tick_ms in range(START + 2_000, script.end_ms + 2_001, MINUTE):
        outputs: list[Output] = []
        for record in stage.until(tick_ms + 1):
            assert record.timestamp_ms >= last
            last = record.timestamp_ms
            outputs += obol.apply(record)
        outputs += obol.apply(tick(tick_ms, 0))
        stage.receive(outputs, tick_ms)
    return Played(script, stage, obol, PlatformViews(obol, tick_ms))


@pytest.fixture(scope="module")
def played() -> Played:
    return play(7)


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_all_stories_occur_and_all_figures_add_up(seed: int) -> None:
    one = play(seed)
    assert one.obol.dead == []
    assert one.obol.rejected == []
    found = audit(one.script.orgs, one.views, one.stage)
    assert found.problems == []
    assert found.total.unexplained_ms == 0
    assert found.total.windows > 50
    titles = [one.story(builder).title for builder in stories.STORIES]
    assert len(set(titles)) == 14


def test_the_demo_is_deterministic() -> None:
    first, second = play(3), play(3)
    assert first.stage.memory == second.stage.memory


def test_the_dead_node(played: Played) -> None:
    text = played.text(stories.dead_node)
    # Healthy for 90 min, silent after 30 min. The last heartbeat is up to 30 s earlier, and 90 s after it are billed.
    billed = re.search(r"(\d+) events, 31 min (\d+\.\d+) s", text) or re.search(r"(\d+) events, 30 min 59", text)
    assert billed is not None
    assert int(billed[1]) in {31, 32, 33}
    forgiven = re.search(r"Forgiven: 5[89] min", text)
    assert forgiven is not None


def test_the_pause(played: Played) -> None:
    # Silent from minute 25 after "healthy" for 22 min 10 s. One tick then sends all events of this time.
    assert re.search(r"2[0-4] minutes without an event", played.text(stories.pause))
    assert "0.000 s forgiven" in played.text(stories.pause)


def test_the_restart(played: Played) -> None:
    text = played.text(stories.restart)
    # It restarts 2,405 s after "healthy".
    assert "40 min 5.000 s billed" in text
    [ended, opened] = re.findall(r"to (\d\d:\d\d:\d\d\.\d{3}), |from (\d\d:\d\d:\d\d\.\d{3}) on", text)
    assert _ms(opened[1]) - _ms(ended[0]) == 190_000


def test_the_fatal_image(played: Played) -> None:
    text = played.text(stories.fatal_image)
    assert "vision-r1 failed" in text
    assert "vision-r2 failed" in text
    assert "vision became failed (replicas_failed)" in text
    assert "2 replicas submitted, none replaced, 0 events" in text


def test_the_crash_loop(played: Played) -> None:
    text = played.text(stories.crash_loop)
    assert "at most 1 per tick" in text
    assert "agent is still created" in text


def test_idle(played: Played) -> None:
    text = played.text(stories.idle)
    # Requests every 150 s from minute 4 to 27, the last at 26:30. 15 minutes later is 41:30, so the tick at 42 pauses.
    assert "paused at 12:42:02" in text
    # The next request: minute 80.4.
    assert "A request at 13:20:24.000 resumed it" in text
    assert "0 events for the time in paused" in text


def test_unpriced(played: Played) -> None:
    text = played.text(stories.unpriced)
    # No price from minute 40 to 85: the last tick that bills is that of 39, and the tick of 85 sends 39 to 85.
    assert "422 UNPRICED_PROFILE" in text
    assert "after the tick of 12:39:02 the window was held for 46 minutes" in text
    assert "the tick of 13:25:02 sent 46 events" in text


def test_suspended(played: Played) -> None:
    text = played.text(stories.suspended)
    # Suspended at minute 60; the tick is 2 s later.
    assert "desk and its 2 replicas were stopped at the next tick, 13:00:02 (org_suspended)" in text
    assert "A new deployment at 13:10:30: 403 ORG_SUSPENDED" in text
    assert "desk-again was accepted at 13:22:30" in text


def test_run_dry(played: Played) -> None:
    text = played.text(stories.run_dry)
    assert "(balance_empty)" in text
    assert "only the disk was billed, 150 GB" in text
    assert "A start at 13:28:30: 402 INSUFFICIENT_BALANCE" in text
    assert "it was started at 13:31:30 and is running again" in text
    # 250 at 240 per hour last 62.5 minutes. The tick that finds the balance empty, and the stop, are later.
    org = [usage for _, usage in played.stage.memory.usage if usage.org_id == "isle"]
    first_window = [usage for usage in org if usage.window_id == "studio.gpu.w1"]
    assert 62.5 * MINUTE <= sum(usage.duration_ms for usage in first_window) <= 65 * MINUTE


def test_the_unconfirmed_stop(played: Played) -> None:
    text = played.text(stories.unconfirmed_stop)
    # Requested at 25:18. 30 minutes later is 55:18, so the timeout is at the tick of 56.
    assert "Stop requested at 12:25:18" in text
    assert "mill was running again at 12:56:02 (stop_timed_out)" in text
    assert "Confirmed at 13:0" in text


def test_the_mixed_host(played: Played) -> None:
    text = played.text(stories.mixed_host)
    assert "train: creating > running > error (workload_completed) > destroying > destroyed; 31 min 0.000 s" in text
    assert "typo: creating > error (launch_failed) > destroying > destroyed; 0.000 s billed" in text
    assert "stopped (start_refused) > starting > running" in text
    assert "render: creating > running > error (workload_lost) > running" in text


def test_serverless(played: Played) -> None:
    assert played.text(stories.serverless) == "burst: 2 replicas running, 0 windows, 0 events."


def test_the_notices(played: Played) -> None:
    # 250 at 243 an hour (GPU 240, disk 150 GB at 0.02) last 3,703 s: under a day at once, under an hour at 243.
    # Stopped, its disk alone burns 3 an hour, and 1,000 last for days; started again, less than a day.
    sent = re.findall(r"(\d\d:\d\d):02  (.+): balance (\S+), (\d+) per hour", played.text(stories.notices))
    assert [(words, burn) for _, words, _, burn in sent] == [
        ("runway below 24 h", "243"),
        ("runway below 1 h", "243"),
        ("balance empty", "0"),
        ("runway below 24 h", "243"),
    ]
    balances = [Decimal(balance) for *_, balance, _ in sent]
    assert balances[0] == 250
    assert 235 < balances[1] < 243
    assert -8 < balances[2] <= 0
    assert sent[3][0] == "13:32"


def test_the_credited_stretch(played: Played) -> None:
    text = played.text(stories.credited)
    # From 50:30 to 60:30: half a minute, nine minutes, half a minute, at 420 an hour.
    assert '--from 2025-11-29T12:50:30.000Z --until 2025-11-29T13:00:30.000Z --note "ticket 4711"`: 202' in text
    assert "600000 ms of window relay-r1.w1 are now owed back" in text
    assert "11 credits, one for each usage event of that time: 10 min 0.000 s" in text
    assert "The same again at 13:18:30: 409 NOTHING_TO_CREDIT" in text
    assert "charged 12:50:00 to 12:51:00, credited 12:50:30 to 12:51:00" in text
    assert "10 min 0.000 s credited" in text
    assert played.stage.croesus.accounts["mesa"].credited == 70
    labels = {tuple((credit.labels or {}).items()) for credit in played.stage.memory.credits}
    assert labels == {(("team", "nlp"),)}


def test_the_fleets_hours_are_those_of_the_usage_events(played: Played) -> None:
    hours = Hours(played.script.end_ms + 2_000, DAY_MS)
    store = played.obol.accountant.store
    for org in store.orgs.values():
        for window in org.windows.values():
            hours.add(window)
    sent = Counter(usage.interval_start[:13] for _, usage in played.stage.memory.usage)
    assert {rfc3339(hour.start_ms)[:13]: hour.events for hour in hours.items() if hour.events} == dict(sent)
    running = sum(len(one.open_windows) for org in store.orgs.values() for one in org.replicas.values())
    assert hours.items()[-1].running == running > 0


def test_amounts_follow_from_the_usage_events(played: Played) -> None:
    # One org by hand: cascade has two windows of one h100 at 420 per hour.
    account = played.stage.croesus.accounts["cascade"]
    by_hand = sum(usage.duration_ms for _, usage in played.stage.memory.usage if usage.org_id == "cascade") * 420
    assert abs(account.amount * 3_600_000 - by_hand) < 3_600_000 / 1_000_000


class Tampered:
    """Views in which one window has wrong figures."""

    def __init__(self, views: PlatformViews, **changes: int) -> None:
        self._views = views
        self._changes = changes

    def get(self, path: str) -> dict[str, Any]:
        body = self._views.get(path)
        if path == "/orgs/cascade/replicas/coder-r1":
            body["windows"][0].update({k: body["windows"][0][k] + v for k, v in self._changes.items()})
        return body


def test_a_millisecond_too_many_is_found(played: Played) -> None:
    found = audit(played.script.orgs, Tampered(played.views, running_ms=1), played.stage)
    assert found.problems == ["window coder-r1.w1 of cascade: 1 ms of running time are unexplained"]


def test_billed_time_without_events_is_found(played: Played) -> None:
    found = audit(played.script.orgs, Tampered(played.views, billed_ms=1, pending_ms=-1), played.stage)
    assert found.problems == [
        "window coder-r1.w1 of cascade: billed_ms is 2405001, but 2405000 in Croesus's ledger",
    ]


def ledger_line(played: Played) -> Charge:
    """A line of mesa's ledger of which half a minute was taken back: 50:00 to 51:00."""
    return played.stage.croesus.charges["mesa", "relay-r1:2025-11-29T12:50:00.000Z"]


def problems_with(line: Charge, played: Played, **changes: Any) -> list[str]:
    """What the audit finds after one line of the ledger was changed."""
    before = {name: getattr(line, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(line, name, value)
        return audit(played.script.orgs, played.views, played.stage).problems
    finally:
        for name, value in before.items():
            setattr(line, name, value)


WINDOW = "window relay-r1.w1 of mesa: "
DAY = "usage of mesa 2025-11-29 dedicated_inference_running dedicated.h100.1x: "


def test_a_line_of_the_ledger_a_millisecond_longer_is_found(played: Played) -> None:
    line = ledger_line(played)
    found = problems_with(line, played, end_ms=line.end_ms + 1)
    assert [problem.split(" is ")[0] for problem in found] == [
        f"{WINDOW}billed_ms",
        f"{DAY}billed_unit_ms",
        f"{DAY}cost",
    ]


def test_a_credit_a_millisecond_shorter_is_found(played: Played) -> None:
    line = ledger_line(played)
    [(start, end)] = line.taken_back
    found = problems_with(line, played, taken_back=[(start, end - 1)])
    assert found == [
        f"{WINDOW}credited_ms is 600000, but 599999 in Croesus's ledger",
        f"{DAY}credited_unit_ms is 600000, but 599999 in Croesus's ledger",
        # 420 an hour are 0.000117 a millisecond.
        f"{DAY}credited_cost is 70, but 69.999883 in Croesus's ledger",
    ]


def test_a_line_booked_too_dear_is_found_in_the_last_decimal(played: Played) -> None:
    # 0.0001 an hour are 0.00000167 for its minute, and 0.00000083 for the half that was taken back.
    line = ledger_line(played)
    found = problems_with(line, played, rate=line.rate + Decimal("0.0001"))
    assert [problem.split(" is ")[0] for problem in found] == [f"{DAY}cost", f"{DAY}credited_cost"]
    shown, booked = map(Decimal, re.findall(r"cost is (\S+), but (\S+) in", found[0])[0])
    assert booked - shown in {Decimal("0.000001"), Decimal("0.000002")}
    assert found[1] == f"{DAY}credited_cost is 70, but 70.000001 in Croesus's ledger"


def test_a_line_of_another_day_and_window_is_found_in_both(played: Played) -> None:
    line = ledger_line(played)
    found = problems_with(line, played, window_id="relay-r9.w1", profile="dedicated.h100.9x")
    assert "mesa: 60000 ms billed and 30000 ms credited in the ledger for relay-r9.w1, which no view shows" in found
    assert (
        "usage of mesa 2025-11-29 dedicated_inference_running dedicated.h100.9x: 7.000000 in the ledger, "
        "which no view shows" in found
    )


def test_usage_events_without_a_window_are_found(played: Played) -> None:
    orgs = [org for org in played.script.orgs if org != "cascade"]
    problems = audit(orgs, played.views, played.stage).problems
    assert "cascade: 2405000 ms billed and 0 ms credited in the ledger for coder-r1.w1, which no view shows" in problems


def test_the_bill_lists_every_org_with_its_minutes_and_money(played: Played) -> None:
    croesus, orgs = played.stage.croesus, played.script.orgs
    console = Console(width=160)
    with console.capture() as captured:
        console.print(show.bill(croesus, orgs, audit(orgs, played.views, played.stage)))
    rows = {line.split()[0]: line for line in captured.get().splitlines() if line.split()}
    assert all(org in rows for org in orgs)
    account = croesus.accounts["cascade"]
    assert f"{Decimal(account.used_ms) / 60_000:.2f}" in rows["cascade"]
    assert f"{account.amount:.2f}" in rows["cascade"]


def test_durations_have_milliseconds() -> None:
    assert stories.long(1_890_000) == "31 min 30.000 s"
    assert stories.long(59_999) == "59.999 s"


def _ms(clock: str) -> int:
    hours, minutes, seconds = clock.split(":")
    return (int(hours) * 60 + int(minutes)) * MINUTE + round(float(seconds) * 1_000)
