"""Rows in the shapes that the contract gives its views. Pure; times out are RFC 3339, absent is null."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from schemas.times import is_time, rfc3339
from streams.billing.burn import burn_per_hour, runway_s
from streams.billing.money import ATTO, to_atto, to_text
from streams.billing.prices import Prices
from streams.billing.windows import Origin, Totals, Window, figures
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import STAGES, InstanceStage, InstanceState
from streams.lifecycle.replica import ReplicaStatus
from streams.limits import DEBT_LIMIT, DEBT_MS, HOUR_MS
from streams.meters import DISK_PROFILE, dedicated_profile
from streams.rules.charging import held
from streams.rules.context import Switches
from streams.rules.rows import Deployment, Instance, Replica
from streams.rules.store import OrgRows

Json = dict[str, Any]

_status = attrgetter("status")
_state = attrgetter("state")


@dataclass(frozen=True, slots=True)
class View:
    """What figures are judged by: the prices, the switches, and the time they are as of."""

    prices: Prices
    switches: Switches
    partition: int
    as_of: int


def time_or_null(ms: int | None) -> str | None:
    """A time as the contract writes it, or null."""
    return None if ms is None else rfc3339(ms)


def origin(view: View, cause: Origin | None) -> Json | None:
    """The record that caused something, as it can be found in Kafka."""
    if cause is None:
        return None
    return {
        "topic": cause.topic,
        "partition": view.partition,
        "offset": cause.offset,
        "timestamp": rfc3339(cause.timestamp),
    }


def window(view: View, row: Window) -> Json:
    """A window, whole (contract), with B12's remainder and the records that opened and closed it."""
    sums = figures(row, view.as_of)
    reason = held(row, view.prices, view.switches, view.as_of)
    return {
        "window_id": row.window_id,
        "profile": row.profile,
        "quantity": row.quantity,
        "opened_at": rfc3339(row.opened_at),
        "ended_at": time_or_null(row.ended_at),
        "last_health_check": time_or_null(row.last_health_check),
        "billed_until": rfc3339(row.billed_until),
        **sums._asdict(),
        "credited_ms": row.credited_ms,
        "credit_pending_ms": row.credit_pending_ms,
        "unexplained_ms": sums.unexplained_ms,
        "held": None if reason is None else reason.value,
        "meter": row.meter,
        "opened_by": origin(view, row.opened_by),
        "closed_by": origin(view, row.closed_by),
    }


def deployment(rows: OrgRows, row: Deployment) -> Json:
    """A deployment with its replicas, oldest first."""
    replicas = (rows.replicas.get(f"{row.deployment_id}-r{n}") for n in range(1, row.replicas_made + 1))
    return {
        "deployment_id": row.deployment_id,
        "status": row.status.value,
        "current_replicas": row.current_replicas,
        "min_replicas": row.min_replicas,
        "profile": dedicated_profile(row.gpu_type, row.gpu_count),
        "labels": dict(sorted(row.labels.items())),
        "replicas": [
            {"replica_id": replica.replica_id, "status": replica.status.value}
            for replica in replicas
            if replica is not None
        ],
        "model": row.model,
        "serving": row.serving,
        "idle_timeout_s": row.idle_timeout_s,
        "active_at": rfc3339(row.active_at),
        "created_at": rfc3339(row.created_at),
        "ended_at": time_or_null(row.ended_at),
    }


def replica(view: View, rows: OrgRows, row: Replica) -> Json:
    """A replica with its windows, oldest first."""
    return {
        "replica_id": row.replica_id,
        "deployment_id": row.deployment_id,
        "status": row.status.value,
        "fail_reason": None if row.fail_reason is None else row.fail_reason.value,
        "last_health_check": time_or_null(row.health_checked_at),
        "windows": [window(view, one) for one in rows.windows_of(row)],
        "created_at": rfc3339(row.created_at),
        "ended_at": time_or_null(row.ended_at),
    }


def instance(view: View, rows: OrgRows, row: Instance) -> Json:
    """An instance with its windows, oldest first."""
    stage = STAGES[row.stage]
    return {
        "instance_id": row.instance_id,
        "state": stage.state.value,
        "transitional": stage.transitional,
        "meter": stage.runs[0] if stage.runs else "none",
        "gpus_held": row.gpus_held,
        "error_code": row.error_code,
        "error_message": row.error_message,
        "labels": dict(sorted(row.labels.items())),
        "allowed_actions": [action.value for action in stage.allowed],
        "windows": [window(view, one) for one in rows.windows_of(row)],
        "stop_pending": row.stage is InstanceStage.STOP_PENDING,
        "gpu_type": row.gpu_type,
        "gpu_count": row.gpu_count,
        "disk_gb": row.disk_gb,
        "offer_id": row.offer_id,
        "mode": row.mode,
        "image": row.image,
        "created_at": rfc3339(row.created_at),
        "entered_at": rfc3339(row.entered_at),
        "ended_at": time_or_null(row.ended_at),
    }


def org(view: View, rows: OrgRows) -> Json:
    """An org: its money and how long it lasts, its rows counted by state, and its conservation (B12)."""
    row = rows.org
    balance = to_atto(row.balance or "0")
    burn = burn_per_hour(rows.units, view.prices, view.as_of)
    return {
        "org_id": row.org_id,
        "balance": row.balance,
        "epoch": row.epoch,
        "sequence": row.sequence,
        "suspended": row.suspended,
        "burn_per_hour": to_text(burn),
        "runway_s": runway_s(balance, burn),
        "deployments": counts(DeploymentStatus, map(_status, rows.deployments.values())),
        "replicas": counts(ReplicaStatus, map(_status, rows.replicas.values())),
        "instances": counts(InstanceState, map(_state, rows.instances.values())),
        "conservation": conservation(totals(rows, view.as_of)),
        **prospects(view, rows, balance, burn),
    }


def prospects(view: View, rows: OrgRows, balance: int, burn: int) -> Json:
    """When auto-stop (I7) and auto-destroy (I8) would come, at today's burn; null where nothing is there to be hit."""
    running = any(one.stage is InstanceStage.RUNNING for one in rows.live_instances.values())
    empty_at: int | None = view.as_of
    if rows.org.empty_since is not None and balance <= 0:
        empty_at = rows.org.empty_since
    elif balance > 0:
        empty_at = view.as_of + -(-balance * HOUR_MS // burn) if burn else None
    destroy_at = _debt_at(view, rows, balance, burn, empty_at)
    return {
        "empty_since": time_or_null(rows.org.empty_since),
        "auto_stop_at": time_or_null(empty_at) if running and balance > 0 and _is_prospect(empty_at) else None,
        "auto_destroy_at": time_or_null(destroy_at) if rows.live_instances and _is_prospect(destroy_at) else None,
    }


def counts(states: type[StrEnum], found: Iterable[StrEnum]) -> dict[str, int]:
    """How many rows are in each state, those with none too."""
    counted = Counter(found)
    return {state.value: counted[state] for state in states}


def totals(rows: OrgRows, as_of: int) -> Totals:
    """All windows of an org added up."""
    found = Totals()
    for one in rows.windows.values():
        found.add(one, as_of)
    return found


def conservation(totals: Totals) -> dict[str, int]:
    """B12's figures with what they leave unexplained: 0, or an alarm."""
    return {**totals.figures._asdict(), "unexplained_ms": totals.unexplained_ms}


def _is_prospect(ms: int | None) -> bool:
    """A prospect past the year 9999 is none."""
    return ms is not None and is_time(ms)


def _debt_at(view: View, rows: OrgRows, balance: int, burn: int, empty_at: int | None) -> int | None:
    """When the balance has been at or below zero for 24 h and at or below −35 (I8), if all goes on as it is.

    Once the balance is empty the running instances stop, so what then burns is disks and dedicated replicas.
    """
    if empty_at is None or rows.org.balance is None:
        return None
    floor = DEBT_LIMIT * ATTO
    if balance > 0:
        disks = sum(
            one.disk_gb
            for one in rows.live_instances.values()
            if one.state in {InstanceState.RUNNING, InstanceState.STOPPED}
        )
        left = {profile: count for profile, count in rows.units.items() if profile.startswith("dedicated.")}
        burn = burn_per_hour({**left, DISK_PROFILE: disks}, view.prices, view.as_of)
        start, above = empty_at, -floor
    else:
        start, above = view.as_of, balance - floor
    if above <= 0:
        reached_at = start
    elif burn:
        reached_at = start + -(-above * HOUR_MS // burn)
    else:
        return None
    return max(reached_at, empty_at + DEBT_MS)
