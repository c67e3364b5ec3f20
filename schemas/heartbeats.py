"""`execlet.heartbeats`: the topic with the highest rate, so its model has no optional field."""

from schemas.base import Wire
from schemas.ids import OrgId, ReplicaId


class Heartbeat(Wire):
    """A heartbeat of a running replica: its open window may be billed up to 90 s from now (B2, B3)."""

    org_id: OrgId
    replica_id: ReplicaId
