"""`execlet.heartbeats`: a replica is alive. The highest rate by far: this model has no optional field."""

from schemas.base import Wire
from schemas.ids import OrgId, ReplicaId


class Heartbeat(Wire):
    """A replica's sign of life; it carries the billing horizon of a running window (B2, B3)."""

    org_id: OrgId
    replica_id: ReplicaId
