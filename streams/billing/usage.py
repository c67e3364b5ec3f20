"""Usage events: the id and the bytes of each (contract, "Out"; rule B11)."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from schemas.times import rfc3339
from streams.billing.windows import Window
from streams.meters import METERS

Charge: TypeAlias = tuple[Window, int, int, int]
"""One piece of a window to bill, and the time of its usage event: (window, start, end, timestamp), in ms.

A plain tuple, which takes a quarter of the time of a named one: a tick yields 100,000 of them.
"""


def usage_id(meter: str, owner_id: str, start_ms: int) -> str:
    """Return the id of the usage event that starts at `start_ms` on that meter of a replica or an instance."""
    return f"{METERS[meter].usage_prefix(owner_id)}{rfc3339(start_ms)}"


def encode_usage(charges: Iterable[Charge]) -> Iterator[bytes]:
    """Yield the usage event of each charge as JSON, the same bytes that `topics.codec.encode` writes for its model.

    A tick writes 100,000 of them, so no model is built, and text that neighbours share is made once. No id or profile
    holds a character that JSON escapes.
    """
    times: tuple[int, int] | None = None
    meter_name: str | None = None
    for window, start_ms, end_ms, _ in charges:
        if (start_ms, end_ms) != times:
            times, start = (start_ms, end_ms), rfc3339(start_ms)
            interval = (
                f',"interval_start":"{start}","interval_end":"{rfc3339(end_ms)}","duration_ms":{end_ms - start_ms}'
            )
        if window.meter is not meter_name:
            meter_name, meter = window.meter, METERS[window.meter]
            part, usage_type, owner = meter.usage_prefix(""), meter.usage_type, meter.owner
        owner_id, deployment_id = window.owner_id, window.deployment_id
        deployment = "" if deployment_id is None else f'"deployment_id":"{deployment_id}",'
        yield (
            f'{{"id":"{owner_id}{part}{start}","type":"{usage_type}","org_id":"{window.org_id}",{deployment}'
            f'"{owner}_id":"{owner_id}","window_id":"{window.window_id}","profile":"{window.profile}",'
            f'"quantity":{window.quantity}{interval}{window.labels_json}}}'
        ).encode()
