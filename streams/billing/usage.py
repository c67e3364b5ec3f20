"""Usage events: the id and the bytes of each (contract, "Out"; rule B11)."""

from schemas.times import rfc3339
from streams.billing.windows import Window
from streams.meters import METERS


def usage_id(meter: str, owner_id: str, start_ms: int) -> str:
    """Return the id of the usage event that starts at `start_ms` on that meter of a replica or an instance."""
    return f"{METERS[meter].usage_prefix(owner_id)}{rfc3339(start_ms)}"


def encode_usage(window: Window, start_ms: int, end_ms: int) -> bytes:
    """Return the usage event of [`start_ms`, `end_ms`) as JSON: what `topics.codec.encode` writes for its model.

    A tick writes 100,000 of them, so no model is built. No id or profile has a character that JSON escapes.
    """
    meter, start = METERS[window.meter], rfc3339(start_ms)
    owner_id, deployment_id = window.owner_id, window.deployment_id
    deployment = "" if deployment_id is None else f'"deployment_id":"{deployment_id}",'
    return (
        f'{{"id":"{meter.usage_prefix(owner_id)}{start}","type":"{meter.usage_type}","org_id":"{window.org_id}",'
        f'{deployment}"{meter.owner}_id":"{owner_id}","window_id":"{window.window_id}","profile":"{window.profile}",'
        f'"quantity":{window.quantity},"interval_start":"{start}","interval_end":"{rfc3339(end_ms)}",'
        f'"duration_ms":{end_ms - start_ms}{window.labels_json}}}'
    ).encode()
