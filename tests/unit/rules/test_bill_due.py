"""One tick over one window: its pieces by hand, around the edges of a minute, of the grace and of the last piece."""

import pytest

from streams.billing.prices import PriceRecord, Prices
from streams.billing.windows import Origin, Window
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import InstanceStage
from streams.lifecycle.replica import ReplicaStatus
from streams.meters import METERS
from streams.rules.charging import bill_due
from streams.rules.context import Switches, Turn
from streams.rules.decision import Decision
from streams.rules.rows import Deployment, Instance, Replica
from streams.rules.store import RowStore

PROFILE = "p"
NOON = 43_200_000


def window_of(meter: str, billed_until: int, heartbeat: int | None) -> Window:
    return Window(
        org_id="o",
        window_id="x.w1",
        meter=meter,
        owner_id="x",
        deployment_id="d" if meter == "dedicated" else None,
        profile=PROFILE,
        quantity=1,
        opened_at=billed_until,
        billed_until=billed_until,
        last_health_check=heartbeat,
        opened_by=Origin("t", 0, billed_until),
    )


def tick(window: Window, now: int) -> tuple[list[tuple[int, int]], bool]:
    """Bill it at `now`; gives its pieces, and whether its row is to be written."""
    store = RowStore(0)
    if window.meter == "dedicated":
        store.restore(Deployment("o", "d", DeploymentStatus.CREATED, "m", "h100", 1, "dedicated", 1, None, 0, 0))
        store.restore(Replica("o", "x", "d", ReplicaStatus.RUNNING, created_at=0))
    else:
        stage = InstanceStage.RUNNING
        store.restore(
            Instance("o", "x", stage, "offer", "h100", 1, 10, "ssh", "image", True, created_at=0, entered_at=0)
        )
    store.restore(window)
    prices = Prices()
    prices.add(PROFILE, PriceRecord(0, 0, "1"))
    decision = Decision()
    turn = Turn(store, store.org("o"), prices, Switches(True, False), Origin("obol.clock", 1, now), decision)
    bill_due(turn, METERS[window.meter].owner)
    for charge in decision.charges:
        assert charge.window is window
        assert charge.timestamp == now
    pieces = [(charge.start_ms - NOON, charge.end_ms - NOON) for charge in decision.charges]
    assert window.billed_ms == sum(end - start for start, end in pieces)
    assert window.billed_until == (decision.charges[-1].end_ms if pieces else window.opened_at)
    return pieces, window in store.changed


@pytest.mark.parametrize(
    ("billed_until", "beat", "now", "pieces"),
    [
        # Beats come: the minute that has passed, whole or from where the window opened.
        (0, 50_000, 60_000, [(0, 60_000)]),
        (0, 50_000, 62_000, [(0, 60_000)]),
        (59_999, 60_000, 60_000, [(59_999, 60_000)]),
        # The minute is not over, or nothing of it is new.
        (0, 50_000, 59_999, []),
        (60_000, 70_000, 119_999, []),
        # The last beat 90 s before the minute still carries it; a millisecond earlier carries the minute before alone.
        (60_000, 30_000, 120_000, [(60_000, 120_000)]),
        (60_000, 29_999, 120_000, []),
        (59_999, 29_999, 120_000, [(59_999, 60_000)]),
        # A minute and a millisecond are two pieces; a tick that was missed is made up for.
        (59_999, 115_000, 120_000, [(59_999, 60_000), (60_000, 120_000)]),
        (0, 175_000, 180_000, [(0, 60_000), (60_000, 120_000), (120_000, 180_000)]),
    ],
)
def test_an_open_dedicated_window(billed_until: int, beat: int, now: int, pieces: list[tuple[int, int]]) -> None:
    window = window_of("dedicated", NOON + billed_until, NOON + beat)
    assert tick(window, NOON + now) == (pieces, bool(pieces))


@pytest.mark.parametrize(
    ("billed_until", "now", "pieces"),
    [
        (0, 60_000, [(0, 60_000)]),
        (30_000, 61_000, [(30_000, 60_000)]),
        (0, 59_999, []),
        (0, 120_000, [(0, 60_000), (60_000, 120_000)]),
    ],
)
def test_an_open_instance_window_needs_no_beat(billed_until: int, now: int, pieces: list[tuple[int, int]]) -> None:
    window = window_of("gpu", NOON + billed_until, None)
    assert tick(window, NOON + now) == (pieces, bool(pieces))
