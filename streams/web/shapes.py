"""Converts rows to the JSON of the contract's views. Pure; times are RFC 3339, absent values are null."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from schemas.base import Json
from schemas.times import is_time
from streams.billing.burn import burn_per_hour, runway_s
from streams.billing.money import ATTO, to_atto, to_text
from streams.billing.prices import Prices
from streams.billing.windows import Origin, Totals, Window, figures
from streams.lifecycle.deployment import DeploymentStatus
from streams.lifecycle.instance import STAGES, InstanceStage, InstanceState
from streams.lifecycle.replica import ReplicaStatus
from streams.limits import DEBT_LIMIT, DEBT_MS, HOUR_MS
from streams.meters import burn_units, dedicated_profile
from streams.rules.charging import held
from streams.rules.context import Switches
from streams.rules.rows import Deployment, Instance, Replica
from streams.rules.store import OrgRows
from streams.web.paging import MAX_LIMIT, Place
from streams.web.times import time_or_null, time_text

_status = attrgetter("status")
_state = attrgetter("state")


@dataclass(frozen=True, slots=True)
class Valuation:
    """What figures are computed with: the prices, the switches, and the time they are as of."""

    prices: Prices
    switches: Switches
    partition: int
    as_of: int


def origin(valuation: Valuation, cause: Origin | None) -> Json | None:
    """Return the position in Kafka of the record that caused a change."""
    if cause is None:
        return None
    return {
        "topic": cause.topic,
        "partition": valuation.partition,
        "offset": cause.offset,
        "timestamp": time_text(cause.timestamp),
    }


def window(valuation: Valuation, row: Window) -> Json:
    """Return a window's fields (contract), its unexplained time (B12), and the records that opened and closed it."""
    sums = figures(row, valuation.as_of)
    reason = held(row, valuation.prices, valuation.switches, valuation.as_of)
    return {
        "window_id": row.window_id,
        "profile": row.profile,
        "quantity": row.quantity,
        "opened_at": time_text(row.opened_at),
        "ended_at": time_or_null(row.ended_at),
        "last_health_check": time_or_null(row.last_health_check),
        "billed_until": time_text(row.billed_until),
        **sums._asdict(),
        "credited_ms": row.credited_ms,
        "credit_pending_ms": row.credit_pending_ms,
        "unexplained_ms": sums.unexplained_ms,
        "held": None if reason is None else reason.value,
        "meter": row.meter,
        "opened_by": origin(valuation, row.opened_by),
        "closed_by": origin(valuation, row.closed_by),
    }


def window_place(row: Window) -> Place:
    """Return the sort key of a window in the list of its owner's windows: its time, then its number."""
    meter, _, number = row.window_id.rpartition(".w")
    return row.opened_at, f"{int(number):012} {meter}"


def windows_of(org: OrgRows, owner: Replica | Instance) -> list[Window]:
    """Return the windows of a replica or an instance, oldest first."""
    return sorted(org.windows_of(owner), key=window_place)


def replicas_of(org: OrgRows, *deployment_ids: str) -> dict[str, list[Replica]]:
    """Return the replicas of some deployments, oldest first, by deployment."""
    found: dict[str, list[Replica]] = {deployment_id: [] for deployment_id in deployment_ids}
    for row in org.replicas.values():
        if row.deployment_id in found:
            found[row.deployment_id].append(row)
    for replicas in found.values():
        replicas.sort(key=replica_place)
    return found


def replica_place(row: Replica) -> Place:
    """Return the sort key of a replica in the list of its deployment's replicas."""
    return int(row.replica_id.rpartition("-r")[2]), row.replica_id


def replica_of(row: Replica) -> Json:
    """Return a replica as its deployment lists it."""
    return {"replica_id": row.replica_id, "status": row.status.value}


def deployment(row: Deployment, replicas: Sequence[Replica]) -> Json:
    """Return a deployment with the newest 1,000 of its `replicas`, which are oldest first."""
    return {
        "deployment_id": row.deployment_id,
        "status": row.status.value,
        "current_replicas": row.current_replicas,
        "min_replicas": row.min_replicas,
        "profile": dedicated_profile(row.gpu_type, row.gpu_count),
        "labels": dict(sorted(row.labels.items())),
        "replicas": [replica_of(replica) for replica in replicas[-MAX_LIMIT:]],
        "replicas_total": len(replicas),
        "model": row.model,
        "serving": row.serving,
        "idle_timeout_s": row.idle_timeout_s,
        "active_at": time_text(row.active_at),
        "created_at": time_text(row.created_at),
        "ended_at": time_or_null(row.ended_at),
    }


def replica(valuation: Valuation, org: OrgRows, row: Replica) -> Json:
    """Return a replica with the newest 1,000 of its windows, oldest first."""
    return {
        "replica_id": row.replica_id,
        "deployment_id": row.deployment_id,
        "status": row.status.value,
        "fail_reason": None if row.fail_reason is None else row.fail_reason.value,
        "last_health_check": time_or_null(row.health_checked_at),
        **windows(valuation, org, row),
        "created_at": time_text(row.created_at),
        "ended_at": time_or_null(row.ended_at),
    }


def instance(valuation: Valuation, org: OrgRows, row: Instance) -> Json:
    """Return an instance with the newest 1,000 of its windows, oldest first."""
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
        **windows(valuation, org, row),
        "stop_pending": row.stage is InstanceStage.STOP_PENDING,
        "gpu_type": row.gpu_type,
        "gpu_count": row.gpu_count,
        "disk_gb": row.disk_gb,
        "offer_id": row.offer_id,
        "mode": row.mode,
        "image": row.image,
        "created_at": time_text(row.created_at),
        "entered_at": time_text(row.entered_at),
        "ended_at": time_or_null(row.ended_at),
    }


def windows(valuation: Valuation, org: OrgRows, owner: Replica | Instance) -> Json:
    """Return the newest 1,000 windows of a replica or an instance, oldest first, and the sums of all of them."""
    found = windows_of(org, owner)
    return {
        "windows": [window(valuation, one) for one in found[-MAX_LIMIT:]],
        "windows_total": len(found),
        "conservation": conservation(totals(found, valuation.as_of)),
    }


def org(valuation: Valuation, org: OrgRows) -> Json:
    """Return an org: its money and how long it lasts, its rows counted by state, and its conservation (B12)."""
    row = org.org
    balance = to_atto(row.balance or "0")
    burn = burn_per_hour(org.units, valuation.prices, valuation.as_of)
    return {
        "org_id": row.org_id,
        "balance": row.balance,
        "epoch": None if row.balance is None else row.epoch,
        "sequence": row.sequence,
        "suspended": row.suspended,
        "burn_per_hour": to_text(burn),
        "runway_s": runway_s(balance, burn),
        "notices": [{"kind": one.kind, "threshold_s": one.threshold_s, "at": time_text(one.at)} for one in row.notices],
        "deployments": counts(DeploymentStatus, map(_status, org.deployments.values())),
        "replicas": counts(ReplicaStatus, map(_status, org.replicas.values())),
        "instances": counts(InstanceState, map(_state, org.instances.values())),
        "conservation": conservation(totals(org.windows.values(), valuation.as_of)),
        **prospects(valuation, org, balance, burn),
    }


def prospects(valuation: Valuation, org: OrgRows, balance: int, burn: int) -> Json:
    """Return when auto-stop (I7) and auto-destroy (I8) would occur at this burn; null where they concern nothing."""
    running = any(one.stage is InstanceStage.RUNNING for one in org.live_instances.values())
    empty_at: int | None = valuation.as_of
    if org.org.empty_since is not None and balance <= 0:
        empty_at = org.org.empty_since
    elif balance > 0:
        empty_at = valuation.as_of + -(-balance * HOUR_MS // burn) if burn else None
    destroy_at = _debt_at(valuation, org, balance, burn, empty_at)
    return {
        "empty_since": time_or_null(org.org.empty_since),
        "auto_stop_at": time_or_null(empty_at) if running and balance > 0 and _is_prospect(empty_at) else None,
        "auto_destroy_at": time_or_null(destroy_at) if org.live_instances and _is_prospect(destroy_at) else None,
    }


def counts(states: type[StrEnum], found: Iterable[StrEnum]) -> dict[str, int]:
    """Return how many rows are in each state, states without rows included."""
    counted = Counter(found)
    return {state.value: counted[state] for state in states}


def totals(windows: Iterable[Window], as_of: int) -> Totals:
    """Return the sums of windows' figures."""
    found = Totals()
    for one in windows:
        found.add(one, as_of)
    return found


def conservation(totals: Totals) -> dict[str, int]:
    """Return B12's figures with the unexplained remainder: 0, or an alarm."""
    return {**totals.figures._asdict(), "unexplained_ms": totals.unexplained_ms}


def _is_prospect(ms: int | None) -> bool:
    """A time after the year 9999 is not shown."""
    return ms is not None and is_time(ms)


def _debt_at(valuation: Valuation, org: OrgRows, balance: int, burn: int, empty_at: int | None) -> int | None:
    """Return when the balance has been at or below zero for 24 h and at or below −35 (I8) if nothing changes.

    Once the balance is empty the running instances stop, so what then burns is disks and dedicated replicas.
    """
    if empty_at is None or org.org.balance is None:
        return None
    floor = DEBT_LIMIT * ATTO
    if balance > 0:
        left = Counter({name: count for name, count in org.units.items() if name.startswith("dedicated.")})
        for one in org.live_instances.values():
            if one.state in {InstanceState.RUNNING, InstanceState.STOPPED}:
                left.update(burn_units("instance", InstanceStage.STOPPED, one))
        burn = burn_per_hour(left, valuation.prices, valuation.as_of)
        start, above = empty_at, -floor
    else:
        start, above = valuation.as_of, balance - floor
    if above <= 0:
        reached_at = start
    elif burn:
        reached_at = start + -(-above * HOUR_MS // burn)
    else:
        return None
    return max(reached_at, empty_at + DEBT_MS)
