"""The entry point of the rules: applies a record to the rows and to a decision."""

from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, Final

from streams.billing.prices import Prices
from streams.billing.windows import Origin
from streams.rules.commands import refuse_command
from streams.rules.context import Switches, Turn
from streams.rules.decision import Dead, Decision
from streams.rules.heartbeats import HeartbeatIds, apply_heartbeats
from streams.rules.memory import is_duplicate, remember_event
from streams.rules.store import RowStore
from streams.rules.tick import apply_tick
from streams.rules.unknown import unknown
from topics.catalogue import CLOCK, HEARTBEATS, INBOUND, TOPICS

HANDLERS: Final[Mapping[str, Callable[..., None]]] = {
    spec.name: resolve_name(f"streams.rules.{spec.handler}") for spec in INBOUND if spec.handler is not None
}
"""The function that applies a topic's records, as its row in the catalogue names it."""


class Accountant:
    """Applies records to one partition's rows, in the order in which they are given."""

    def __init__(self, store: RowStore, prices: Prices, switches: Switches) -> None:
        self.store = store
        self.prices = prices
        self.switches = switches

    def apply(self, event: Any, origin: Origin, decision: Decision) -> Dead | None:
        """Apply one parsed record of `origin`; now is `origin.timestamp`. Returns the dead letter if it becomes one."""
        spec = TOPICS[origin.topic]
        if spec is CLOCK:
            apply_tick(self.store, self.prices, self.switches, event, origin, decision)
            return None
        if spec is HEARTBEATS:
            is_unknown = self.heartbeats([event], [origin.timestamp], decision)
            return unknown("replica", event) if is_unknown else None
        if spec.entity is not None and event.org_id not in self.store.orgs:
            return unknown(spec.entity, event)
        turn = self._turn(event.org_id, origin, decision)
        once = isinstance(event, spec.once)
        if once and is_duplicate(turn, spec.name, event.event_id):
            return None
        entity: tuple[Any, ...] = ()
        if spec.entity is not None:
            row = turn.rows.table(f"{spec.entity}s").get(getattr(event, f"{spec.entity}_id"))
            if row is None:
                return unknown(spec.entity, event)
            entity = (row,)
        if once:
            remember_event(turn, spec.name, event.event_id)
        HANDLERS[spec.name](turn, event, *entity)
        return None

    def heartbeats(self, heartbeats: Sequence[HeartbeatIds], times: Sequence[int], decision: Decision) -> Sequence[int]:
        """Apply a run of heartbeats; returns the index of each whose org has no such replica."""
        return apply_heartbeats(self.store, heartbeats, times, decision)

    def refuse(
        self, command_id: str, org_id: str, target: str | None, error: str, origin: Origin, decision: Decision
    ) -> None:
        """Send `INVALID` for a command that could not be read but whose `command_id` and `org_id` are good."""
        refuse_command(self._turn(org_id, origin, decision), command_id, target, error)

    def _turn(self, org_id: str, origin: Origin, decision: Decision) -> Turn:
        return Turn(self.store, self.store.org(org_id), self.prices, self.switches, origin, decision)
