"""`lifecycle.changes`: one message for every change of an entity's state, numbered per entity (contract, "Out")."""

from schemas.changes import Kind, LifecycleChange
from schemas.times import rfc3339
from streams.rules.context import Turn
from streams.rules.rows import Deployment, Instance, Replica

TOPIC = "lifecycle.changes"


def send_change(
    turn: Turn, entity: Deployment | Replica | Instance, before: str | None, after: str, reason: str
) -> None:
    """Send the change of `entity` from `before` (None: it is new) to `after`, with the next number of the entity."""
    turn.store.change(entity, changes_made=entity.changes_made + 1)
    code = message = None
    kind: Kind
    match entity:
        case Deployment():
            kind = "deployment"
        case Replica():
            kind = "replica"
        case Instance():
            kind, code, message = "instance", entity.error_code, entity.error_message
    change = LifecycleChange(
        event_id=f"{kind}:{entity.row_id}:{entity.changes_made}",
        org_id=entity.org_id,
        kind=kind,
        id=entity.row_id,
        from_=before,
        to=after,
        reason=reason,
        error_code=code,
        error_message=message,
        at=rfc3339(turn.now),
    )
    turn.decision.send(TOPIC, entity.org_id, turn.now, change)
