"""Usage events as bytes: the same as the wire model's (B11)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.times import MAX_TIME_MS, rfc3339
from schemas.usage import Usage
from streams.billing.usage import encode_usage, usage_id
from streams.billing.windows import Origin, Window
from streams.meters import METERS
from topics.codec import encode

SAFE_ID = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True)
PARTS = {"dedicated": "", "gpu": "gpu:", "disk": "disk:"}
OWNERS = {"dedicated": "replica_id", "gpu": "instance_id", "disk": "instance_id"}
TYPES = {
    "dedicated": "dedicated_inference_running",
    "gpu": "instance_gpu_running",
    "disk": "instance_disk_stopped",
}


def window(meter: str, org_id: str, owner_id: str, deployment_id: str | None, profile: str, quantity: int) -> Window:
    opened_by = Origin("t", 0, 0)
    window_id = f"{owner_id}.w1"
    return Window(org_id, window_id, meter, owner_id, deployment_id, profile, quantity, 0, 0, None, opened_by=opened_by)


def test_there_is_an_expectation_for_every_meter() -> None:
    assert set(PARTS) == set(OWNERS) == set(TYPES) == set(METERS)


@given(
    meter=st.sampled_from(sorted(METERS)),
    org_id=SAFE_ID,
    owner_id=SAFE_ID,
    deployment_id=SAFE_ID,
    profile=st.from_regex(r"(dedicated|instance)\.[a-z0-9][a-z0-9_-]{0,31}\.[1-9]x|disk", fullmatch=True),
    quantity=st.integers(1, 65_536),
    start_ms=st.integers(0, MAX_TIME_MS - 60_000),
    duration_ms=st.integers(1, 60_000),
)
def test_a_usage_event_has_the_models_bytes(
    meter: str,
    org_id: str,
    owner_id: str,
    deployment_id: str,
    profile: str,
    quantity: int,
    start_ms: int,
    duration_ms: int,
) -> None:
    deployment = deployment_id if meter == "dedicated" else None
    end_ms = start_ms + duration_ms
    usage_event_id = f"{owner_id}:{PARTS[meter]}{rfc3339(start_ms)}"
    model = Usage.model_validate(
        {
            "id": usage_event_id,
            "type": TYPES[meter],
            "org_id": org_id,
            "deployment_id": deployment,
            OWNERS[meter]: owner_id,
            "window_id": f"{owner_id}.w1",
            "profile": profile,
            "quantity": quantity,
            "interval_start": rfc3339(start_ms),
            "interval_end": rfc3339(end_ms),
            "duration_ms": duration_ms,
        }
    )
    charged = window(meter, org_id, owner_id, deployment, profile, quantity)
    assert list(encode_usage([(charged, start_ms, end_ms, 0)])) == [encode(model)]
    assert usage_id(meter, owner_id, start_ms) == usage_event_id


@pytest.mark.parametrize(
    ("meter", "expected"),
    [
        (
            "dedicated",
            (
                '{"id":"x:1970-01-01T00:00:00.000Z","type":"dedicated_inference_running","org_id":"o","deployment_id":"d",'
                '"replica_id":"x","window_id":"x.w1","profile":"p","quantity":1,"interval_start":"1970-01-01T00:00:00.000Z",'
                '"interval_end":"1970-01-01T00:01:00.000Z","duration_ms":60000}'
            ),
        ),
        (
            "gpu",
            (
                '{"id":"x:gpu:1970-01-01T00:00:00.000Z","type":"instance_gpu_running","org_id":"o","instance_id":"x",'
                '"window_id":"x.w1","profile":"p","quantity":1,"interval_start":"1970-01-01T00:00:00.000Z",'
                '"interval_end":"1970-01-01T00:01:00.000Z","duration_ms":60000}'
            ),
        ),
        (
            "disk",
            (
                '{"id":"x:disk:1970-01-01T00:00:00.000Z","type":"instance_disk_stopped","org_id":"o","instance_id":"x",'
                '"window_id":"x.w1","profile":"p","quantity":1,"interval_start":"1970-01-01T00:00:00.000Z",'
                '"interval_end":"1970-01-01T00:01:00.000Z","duration_ms":60000}'
            ),
        ),
    ],
)
def test_usage_on_the_wire(meter: str, expected: str) -> None:
    deployment_id = "d" if meter == "dedicated" else None
    (event,) = encode_usage([(window(meter, "o", "x", deployment_id, "p", 1), 0, 60_000, 0)])
    assert event.decode() == expected


def test_events_next_to_each_other_share_nothing_that_differs() -> None:
    dedicated, gpu = window("dedicated", "o", "r", "d", "p", 1), window("gpu", "o", "i", None, "q", 2)
    times = [(0, 60_000), (0, 60_000), (0, 30_000), (30_000, 60_000)]
    charges = [(charged, start, end, 7) for start, end in times for charged in (dedicated, gpu, gpu)]
    assert list(encode_usage(charges)) == [event for charge in charges for event in encode_usage([charge])]
    assert len(set(encode_usage(charges))) == 6
