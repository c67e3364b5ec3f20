"""Random closes, credits, prices, crashes and ticks, compared with a ledger kept by hand, by the second (B10, B13)."""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.times import parse_rfc3339
from tests.world.checks import check_outputs, check_rows
from tests.world.timeline import to_clock, to_ms
from tests.world.world import Mode, World

START = to_ms("12:00")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["up", "up", "restarting", "credit", "credit", "minutes", "minutes", "priced", "unpriced"]),
        st.integers(0, 400),  # how many seconds the timestamp is in the past
        st.integers(1, 5_000),  # how many seconds are to be credited
    ),
    min_size=8,
    max_size=30,
)


@settings(max_examples=15, deadline=None)
@given(steps=STEPS, mode=st.sampled_from(Mode))
def test_credits_are_those_of_a_ledger_by_hand(  # noqa: C901 - one case for each act
    steps: list[tuple[str, int, int]], mode: Mode
) -> None:
    world = World(mode)
    world.do("11:00 price dedicated.h100.1x 2.50", "11:50 create d min=0", "12:00 healthy d-r1")
    now, open_window, made = START, 1, 1
    billed: dict[str, set[int]] = defaultdict(set)
    owed: dict[str, set[int]] = defaultdict(set)
    credited: dict[str, set[int]] = defaultdict(set)

    def do(line: str) -> None:
        for sent in world.do(line):
            found = {"croesus.usage": billed, "croesus.credits": credited}.get(sent.topic)
            if found is not None:
                value = sent.value
                start, end = parse_rfc3339(value["interval_start"]), parse_rfc3339(value["interval_end"])
                seconds = set(range(start // 1_000, end // 1_000))
                assert not seconds & found[value["window_id"]]
                found[value["window_id"]] |= seconds
        for window_id, seconds in credited.items():
            assert seconds <= owed[window_id] <= billed[window_id]
        for window in world.view("replica", "d-r1")["windows"]:
            window_id = window["window_id"]
            assert window["billed_ms"] == len(billed[window_id]) * 1_000
            assert window["credited_ms"] == len(credited[window_id]) * 1_000
            assert window["credit_pending_ms"] == len(owed[window_id] - credited[window_id]) * 1_000
        check_rows(world)

    for what, ago_s, length_s in [*steps, ("priced", 0, 1), *[("minutes", 0, 1)] * 30]:
        at = to_clock(now - ago_s * 1_000)
        if what == "up":
            made += not open_window
            open_window = open_window or made
            do(f"{at} healthy d-r1")
        elif what == "restarting" and open_window:
            window = world.view("window", f"d-r1.w{open_window}")
            ended_s = max(now // 1_000 - ago_s, parse_rfc3339(window["opened_at"]) // 1_000)
            owed[window["window_id"]] |= {second for second in billed[window["window_id"]] if second >= ended_s}
            open_window = 0
            do(f"{at} restarting d-r1")
        elif what == "credit":
            window_id = f"d-r1.w{1 + length_s % made}"
            first_s = now // 1_000 - length_s - ago_s
            asked = {second for second in billed[window_id] if first_s <= second < first_s + length_s}
            new = asked - owed[window_id]
            owed[window_id] |= new
            until = to_clock((first_s + length_s) * 1_000)
            do(f"{to_clock(now)} credit {window_id} from={to_clock(first_s * 1_000)} until={until}")
            (result,) = [each.value for each in world.sent if each.topic == "command.results"]
            assert result.get("code") == (None if new else "NOTHING_TO_CREDIT")
            assert not new or result["message"].startswith(f"{len(new) * 1_000} ms of window {window_id} ")
        elif what in {"priced", "unpriced"}:
            do(f"{to_clock(now)} price dedicated.h100.1x {'2.50' if what == 'priced' else 'none'}")
        elif what == "minutes":
            now += (length_s % 90 + 1) * 60_000
            do(f"{to_clock(now)} heartbeat d-r1")
            do(f"{to_clock(now)} tick")
    assert credited == owed or {key: value for key, value in owed.items() if value} == credited
    check_outputs(world.all_sent)
