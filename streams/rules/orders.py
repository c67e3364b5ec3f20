"""`execlet.orders`: submit and abort jobs (rules P2, P4, R6)."""

from schemas.orders import ExecletOrder, ExecletOrderName
from streams.rules.decision import Decision
from streams.rules.rows import Deployment, Replica
from streams.rules.store import RowStore
from topics.catalogue import EXECLET_ORDERS


def send_order(
    store: RowStore,
    replica: Replica,
    order: ExecletOrderName,
    now: int,
    decision: Decision,
    deployment: Deployment | None = None,
) -> None:
    """Send an order to the replica's execlet, with its next attempt; `deployment` goes with `submit_job` (P2, P4)."""
    attempt = 1
    if order == "abort_job":
        attempt = replica.aborts_sent + 1
        store.change(replica, aborts_sent=attempt)
    suffix = "" if attempt == 1 else f":{attempt}"
    message = ExecletOrder(
        order_id=f"{replica.replica_id}:{order}{suffix}",
        org_id=replica.org_id,
        deployment_id=replica.deployment_id,
        replica_id=replica.replica_id,
        order=order,
        attempt=attempt,
        model=None if deployment is None else deployment.model,
        gpu_type=None if deployment is None else deployment.gpu_type,
        gpu_count=None if deployment is None else deployment.gpu_count,
    )
    decision.send(EXECLET_ORDERS.name, replica.org_id, now, message)
