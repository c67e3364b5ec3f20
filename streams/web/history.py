"""The changes of state of an entity, from `lifecycle.changes`, cached once all are found: they never change."""

import json
import time
from collections import OrderedDict
from dataclasses import dataclass

from schemas.base import Json
from streams.web.lookup import Lookup

_MOST_KEPT = 1_024
_RETRY_S = 30.0


@dataclass(slots=True)
class _Known:
    """The changes found, and the time of the last lookup that did not find all."""

    changes: list[Json]
    tried_at_s: float


class History:
    """Looks up an entity's changes of state; they are numbered, so it is known whether all were found."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    async def of(self, partition: int, org_id: str, entity: str, made: int, since_ms: int) -> list[Json]:
        """Return all `made` changes of `entity` (`<kind>:<id>`), oldest first; none where some are missing."""
        known = self._known.get((org_id, entity))
        now_s = time.monotonic()
        if known is not None and (len(known.changes) == made or now_s < known.tried_at_s + _RETRY_S):
            return known.changes if len(known.changes) == made else []
        found = await self._lookup.changes(partition, entity, org_id, made, since_ms)
        changes = sorted((_read(one.value) for one in found), key=lambda change: change["number"])
        complete = [change["number"] for change in changes] == list(range(1, made + 1))
        self._known[org_id, entity] = _Known(changes if complete else [], now_s if not complete else 0.0)
        self._known.move_to_end((org_id, entity))
        while len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return changes if complete else []


def _read(value: bytes) -> Json:
    change = json.loads(value)
    return {
        "number": int(change["event_id"].rpartition(":")[2]),
        "from": change.get("from"),
        "to": change["to"],
        "reason": change["reason"],
        "at": change["at"],
    }
