"""The audit finds every usage event that is lost, doubled or wrong; delays and trends are computed as by hand."""

from typing import Any

import pytest

from bench.soak.audit import Audit, Verdict, pieces, replica_index
from bench.soak.clock import Clock, minute_after
from bench.soak.report import cpu_percent, growth_percent, percentile, settled, tick_figures, worker_figures
from bench.soak.watch import Billed, Delays, Usage

M = 60_000
FIRST, SECOND = "dep-000000-r1", "dep-000000-r2"


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "number"),
    [
        (0, M, 1),
        (0, M + 1, 2),
        (M - 1, M, 1),
        (M - 1, M + 1, 2),
        (30_000, 5 * M, 5),
        (M, M, 0),
        (1, 1, 0),
        (2 * M, M, 0),
    ],
)
def test_a_stretch_has_one_usage_event_for_each_clock_minute(start_ms: int, end_ms: int, number: int) -> None:
    assert pieces(start_ms, end_ms) == number


def test_a_replica_has_its_position_in_the_fleet() -> None:
    assert [replica_index(f"dep-{at}") for at in ("000000-r1", "000000-r100", "000001-r1")] == [0, 99, 100]


def audited(*events: tuple[str, int, int], until_ms: int = 3 * M) -> Verdict:
    """Audit two replicas, of which the first starts at 0:30 and the second at 0:00."""
    audit = Audit(2)
    audit.opened(FIRST, 30_000)
    audit.opened(SECOND, 0)
    for replica, start_ms, end_ms in events:
        audit.event(replica, start_ms, end_ms)
    return audit.finish(until_ms)


FIRSTS = [(FIRST, 30_000, M), (FIRST, M, 2 * M), (FIRST, 2 * M, 3 * M)]
SECONDS = [(SECOND, 0, M), (SECOND, M, 2 * M), (SECOND, 2 * M, 3 * M)]


def test_exactly_one_event_for_each_window_and_minute() -> None:
    verdict = audited(*FIRSTS, *SECONDS)
    assert verdict == Verdict(6, 6, 0, 0, 0)
    assert verdict.is_exact


@pytest.mark.parametrize(
    ("events", "lost", "doubled", "wrong"),
    [
        ([*FIRSTS, *SECONDS[:2]], 1, 0, 0),  # the last is lost
        ([*FIRSTS, SECONDS[0], SECONDS[2]], 1, 0, 0),  # one in the middle
        ([*FIRSTS, SECONDS[2]], 2, 0, 0),  # the first two
        (FIRSTS, 3, 0, 0),  # all of a window
        ([*FIRSTS[:2], *FIRSTS[1:], *SECONDS], 0, 1, 0),  # one twice
        ([*FIRSTS, *SECONDS, *SECONDS], 0, 3, 0),
        ([*FIRSTS, *SECONDS, ("dep-000000-r3", 0, M)], 0, 0, 1),  # of another replica
        ([*FIRSTS, *SECONDS[:2], (SECOND, 2 * M, 2 * M)], 1, 0, 1),  # empty
        ([*FIRSTS, SECONDS[0], (SECOND, M, 3 * M)], 2, 0, 1),  # two minutes in one event
        ([(FIRST, 0, M), *FIRSTS[1:], *SECONDS], 1, 1, 0),  # from before its start
        ([*FIRSTS, *SECONDS, (SECOND, 3 * M, 4 * M)], 1, 0, 0),  # a later tick billed only one of them
    ],
)
def test_every_fault_is_found(events: list[tuple[str, int, int]], lost: int, doubled: int, wrong: int) -> None:
    verdict = audited(*events)
    assert (verdict.lost, verdict.doubled, verdict.wrong) == (lost, doubled, wrong)
    assert not verdict.is_exact


def test_a_replica_that_did_not_start_is_found() -> None:
    audit = Audit(2)
    audit.opened(FIRST, 0)
    audit.event(FIRST, 0, M)
    assert audit.finish(M) == Verdict(1, 1, 0, 0, 1)


def test_in_time_lapse_a_minute_lasts_less() -> None:
    # A minute in 10 s: 2.5 minutes after the start are 25 s.
    clock = Clock(event_ms=5 * M, real_ms=1_000_000, minute_s=10)
    assert clock.real_of(5 * M + 150_000) == 1_025_000
    assert minute_after(5 * M) == 6 * M
    assert minute_after(5 * M + 1) == 6 * M


def test_a_minute_is_billed_when_its_tick_is_committed() -> None:
    # Real time; ticks are due 2 s after the minute. The one of minute 12 is missing: minute 13's bills it, too.
    delays = Delays(10 * M, Clock(0, 0, 60))
    delays.tick(4, 11 * M + 2_000)
    delays.tick(5, 13 * M + 2_050)
    assert delays.committed(4, 11 * M + 2_500) == []
    assert delays.committed(5, 11 * M + 2_750) == [Billed(11 * M, 0.75)]
    assert delays.committed(6, 13 * M + 3_000) == [Billed(12 * M, 61.0), Billed(13 * M, 1.0)]
    assert delays.committed(6, 14 * M) == []


def test_the_minute_of_the_crash_is_apart() -> None:
    billed = [Billed(M, 1.0), Billed(2 * M, 3.0), Billed(3 * M, 9.0), Billed(4 * M, 2.0)]
    values = {figure.name: figure.value for figure in tick_figures(billed, crash_ms=3 * M)}
    assert values == {
        "delay, median": 2.0,
        "delay, 99 %": 3.0,
        "delay, longest": 3.0,
        "delay, longest in the minute of the crash": 9.0,
    }


@pytest.mark.parametrize(("percent", "value"), [(1, 1), (50, 5), (51, 6), (99, 10), (100, 10)])
def test_percentiles(percent: int, value: int) -> None:
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], percent) == value


def hour(growth_bytes: int, minutes: int = 61) -> list[Usage]:
    """Return a sample each minute: a tenth of a core, and a million bytes that grow by `growth_bytes` an hour."""
    return [Usage(at * M, at * 6.0, 1_000_000 + growth_bytes * at // 60) for at in range(minutes)]


def test_cpu_time_is_a_share_of_a_core() -> None:
    assert cpu_percent(hour(0)) == pytest.approx(10)


def test_the_growth_of_memory_is_that_of_a_line_through_the_samples() -> None:
    assert growth_percent(hour(0)) == pytest.approx(0)
    assert growth_percent(hour(60_000)) == pytest.approx(6)
    # A sample that is off by 60 kB in the middle does not change the slope, and hardly the start.
    spiked = hour(60_000)
    spiked[30] = Usage(spiked[30].at_ms, spiked[30].cpu_s, spiked[30].rss_bytes + 60_000)
    assert growth_percent(spiked) == pytest.approx(6, abs=0.01)


def test_the_first_third_of_the_samples_is_not_part_of_the_trend() -> None:
    assert settled(hour(0))[0].at_ms == 20 * M


@pytest.mark.parametrize(
    ("growth_bytes", "minutes", "met"), [(40_000, 61, True), (60_000, 61, False), (60_000, 12, None)]
)
def test_memory_is_flat_or_not(growth_bytes: int, minutes: int, met: Any) -> None:
    figures = {figure.name: figure for figure in worker_figures([hour(0), hour(growth_bytes, minutes)], 4.0)}
    found = figures["growth of its memory, later two thirds"]
    assert found.met is met
    assert figures["CPU, after the crash"].value == pytest.approx(10)
    assert figures["from SIGKILL to the next commit"].value == 4.0
