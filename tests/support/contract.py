"""The contract's names, written by hand: tests compare the code with them."""

INBOUND = (
    "croesus.accounts",
    "user.commands",
    "operator.commands",
    "inference.requests",
    "execlet.progress",
    "host.reports",
    "execlet.heartbeats",
    "obol.clock",
)
"""The partitioned ones, in order of rank; `croesus.prices` comes before them."""

OUTBOUND = (
    "croesus.usage",
    "croesus.credits",
    "org.notices",
    "lifecycle.changes",
    "command.results",
    "execlet.orders",
    "host.orders",
    "dead.letters",
)

DEPLOYMENT = {"deployment_id", "status", "current_replicas", "min_replicas", "profile", "labels", "replicas"}
REPLICA = {"replica_id", "deployment_id", "status", "fail_reason", "last_health_check", "windows"}
INSTANCE = {
    "instance_id",
    "state",
    "transitional",
    "meter",
    "gpus_held",
    "error_code",
    "error_message",
    "allowed_actions",
    "labels",
    "windows",
}
WINDOW = {
    "window_id",
    "profile",
    "quantity",
    "opened_at",
    "ended_at",
    "last_health_check",
    "billed_until",
    "running_ms",
    "billed_ms",
    "pending_ms",
    "forgiven_ms",
    "overbilled_ms",
    "credited_ms",
    "credit_pending_ms",
    "held",
}
ORG = {"balance", "epoch", "sequence", "suspended", "burn_per_hour", "runway_s", "deployments", "replicas", "instances"}
"""The fields of the web views' objects; each view also has `as_of`."""
