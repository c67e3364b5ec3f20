"""The table of meters, compared with the rules' and the contract's text (B1, B2, B23, I2, I6; contract, "Out")."""

from types import SimpleNamespace

import pytest

from streams.meters import METERS, unit_of

REPLICA = SimpleNamespace(serving="dedicated", gpu_type="h100", gpu_count=2)
INSTANCE = SimpleNamespace(gpu_type="a100", gpu_count=4, disk_gb=100)

FACTS = {
    # usage type; window id and usage id of the owner `x`; profile, unit and quantity; runs in; counts for the burn in
    "dedicated": (
        *("dedicated_inference_running", "x.w3", "x:", "dedicated.h100.2x", "per hour", 1),
        *("running", "running"),
    ),
    "gpu": (
        *("instance_gpu_running", "x.gpu.w3", "x:gpu:", "instance.a100.4x", "per hour", 1),
        *("running stop_pending", "creating running starting stop_pending"),
    ),
    "disk": (
        *("instance_disk_stopped", "x.disk.w3", "x:disk:", "disk", "per GB per hour", 100),
        *("stopped", "creating running starting stop_pending stopped"),
    ),
}


def test_every_meter_is_here() -> None:
    assert list(METERS) == list(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_what_a_meter_means(name: str) -> None:
    meter = METERS[name]
    of = REPLICA if name == "dedicated" else INSTANCE
    assert (
        *(meter.usage_type, meter.window_id("x", 3), meter.usage_prefix("x"), meter.profile(of), meter.unit),
        *(meter.quantity(of), " ".join(sorted(meter.runs_in)), " ".join(sorted(meter.burns_in))),
    ) == FACTS[name]
    assert unit_of(meter.profile(of)) == meter.unit


def test_serverless_replicas_have_no_meter() -> None:
    """P8."""
    assert METERS["dedicated"].quantity(SimpleNamespace(serving="serverless")) == 0


def test_heartbeats_bound_and_switches_govern_dedicated_windows_only() -> None:
    """B23, I2: instance windows have no heartbeat cap, and a change of state settles them."""
    assert {name: (meter.bound_by_heartbeats, meter.switched, meter.settles) for name, meter in METERS.items()} == {
        "dedicated": (True, True, False),
        "gpu": (False, False, True),
        "disk": (False, False, True),
    }


def test_a_profile_that_no_meter_has_is_priced_per_hour() -> None:
    assert unit_of("dusk.1") == "per hour"
