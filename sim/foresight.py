"""What Obol will order, foretold from what it is told: for logs that are written before any worker reads them.

A sketch of rules.md, good for the stand-ins' own records only: commands that are well-formed, orgs that can pay or
can't pay at all. Where it guesses wrong, a worker counts or rejects the record; it is no second source of the rules.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from schemas.orders import ExecletOrder, ExecletOrderName, HostOrder, HostOrderName
from sim.records import HOUR_MS, MINUTE_MS, Record
from topics import catalogue

Order: TypeAlias = ExecletOrder | HostOrder

_TIMEOUT_MS: Final = 30 * MINUTE_MS
_WORKLOAD_ENDED: Final = ("workload_failed", "workload_completed")
_NO_WORKLOAD: Final = (*_WORKLOAD_ENDED, "workload_lost", "workload_gone")
_NOT_RESUMED: Final = ("start_refused", "start_unreachable", "gpus_unavailable", "workload_lost")


@dataclass(slots=True)
class _Org:
    suspended: bool = False
    dry: bool = True
    deployments: dict[str, "_Deployment"] = field(default_factory=dict)
    instances: dict[str, "_Instance"] = field(default_factory=dict)


@dataclass(slots=True)
class _Deployment:
    org: str
    name: str
    min_replicas: int
    idle_ms: int | None
    active_ms: int
    job: dict[str, Any]
    status: Literal["created", "paused", "failed", "stopped"] = "created"
    submitted: int = 0
    live: list[str] = field(default_factory=list)

    def submit(self, count: int) -> Iterator[ExecletOrder]:
        for _ in range(count):
            self.submitted += 1
            replica = f"{self.name}-r{self.submitted}"
            self.live.append(replica)
            yield self._order(replica, "submit_job", self.job)

    def abort(self, status: Literal["paused", "stopped"]) -> Iterator[ExecletOrder]:
        self.status = status
        aborted, self.live = self.live, []
        for replica in aborted:
            yield self._order(replica, "abort_job", {})

    def _order(self, replica: str, order: ExecletOrderName, job: dict[str, Any]) -> ExecletOrder:
        return ExecletOrder(
            order_id=f"{replica}:{order}",
            org_id=self.org,
            deployment_id=self.name,
            replica_id=replica,
            order=order,
            attempt=1,
            **job,
        )


@dataclass(slots=True)
class _Instance:
    org: str
    name: str
    state: str = "creating"
    since_ms: int = 0
    ran: bool = False
    code: str = ""
    stop_pending: bool = False
    attempt: int = 0
    sent_minute: int = 0

    @property
    def is_over(self) -> bool:
        return not self.ran or self.code in (*_WORKLOAD_ENDED, "workload_gone")

    def enter(self, state: str, at_ms: int, code: str = "") -> None:
        self.state, self.since_ms, self.code = state, at_ms, code
        self.ran = self.ran or state == "running"
        self.stop_pending = code == "stop_timed_out"

    def send(self, order: HostOrderName, at_ms: int, *, anew: bool = False) -> HostOrder:
        self.attempt = 1 if anew else self.attempt + 1
        self.sent_minute = at_ms // MINUTE_MS
        return HostOrder(
            order_id=f"{self.name}:{order}:{self.attempt}",
            org_id=self.org,
            instance_id=self.name,
            order=order,
            attempt=self.attempt,
        )


class Foresight:
    """Reads the records of a log in order of time and says which orders each leads to.

    `billing` is what the worker's `DEDICATED_BILLING_ENABLED` will be: only then are suspended orgs stopped (B22).
    """

    def __init__(self, *, billing: bool = True) -> None:
        self._billing = billing
        self._orgs: dict[str, _Org] = defaultdict(_Org)
        self._seen: set[bytes] = set()
        self._readers = {
            catalogue.ACCOUNTS.name: self._account,
            catalogue.COMMANDS.name: self._command,
            catalogue.REQUESTS.name: self._request,
            catalogue.PROGRESS.name: self._progress,
            catalogue.REPORTS.name: self._report,
        }

    def read(self, record: Record) -> Iterator[Order]:
        """Take a record; a copy of an earlier one changes nothing (C1, C4)."""
        reader = self._readers.get(record.topic)
        if reader is None or record.value is None:
            return
        if record.topic != catalogue.REQUESTS.name:
            if record.value in self._seen:
                return
            self._seen.add(record.value)
        body = json.loads(record.value)
        yield from reader(self._orgs[body["org_id"]], body, record.timestamp_ms)

    def tick(self, now_ms: int) -> Iterator[Order]:
        """Judge idleness, missing replicas, timeouts and what is sent again, as at a tick."""
        for org in self._orgs.values():
            for deployment in org.deployments.values():
                if deployment.status == "created":
                    yield from self._scale(org, deployment, now_ms)
            for instance in org.instances.values():
                yield from self._judge(instance, now_ms)

    def _scale(self, org: _Org, deployment: _Deployment, now_ms: int) -> Iterator[Order]:
        if org.suspended and self._billing:
            yield from deployment.abort("stopped")
        elif deployment.idle_ms is not None and now_ms - deployment.active_ms >= deployment.idle_ms:
            yield from deployment.abort("paused")
        else:
            yield from deployment.submit(deployment.min_replicas - len(deployment.live))

    def _judge(self, instance: _Instance, now_ms: int) -> Iterator[Order]:
        late = now_ms - instance.since_ms >= _TIMEOUT_MS
        if instance.state == "stopping" and late:
            instance.enter("running", now_ms, "stop_timed_out")
        elif instance.state == "starting" and late:
            instance.enter("stopped", now_ms, "start_timed_out")
        if instance.state == "error" and now_ms - instance.since_ms >= HOUR_MS and instance.is_over:
            instance.enter("destroying", now_ms)
            yield instance.send("destroy", now_ms, anew=True)
        elif instance.sent_minute < now_ms // MINUTE_MS:
            if instance.stop_pending:
                yield instance.send("stop", now_ms)
            elif instance.state == "destroying":
                yield instance.send("destroy", now_ms)

    def _account(self, org: _Org, body: dict[str, Any], at_ms: int) -> Iterator[Order]:
        if body["type"] == "balance_updated":
            org.dry = body["balance"].startswith("-") or not body["balance"].strip("0.")
            for instance in org.instances.values():
                yield from self._stop_if_dry(org, instance, at_ms)
        else:
            org.suspended = body["type"] == "org_suspended"

    def _stop_if_dry(self, org: _Org, instance: _Instance, at_ms: int) -> Iterator[Order]:
        if org.dry and instance.state == "running" and not instance.stop_pending:
            instance.enter("stopping", at_ms)
            yield instance.send("stop", at_ms, anew=True)

    def _command(self, org: _Org, body: dict[str, Any], at_ms: int) -> Iterator[Order]:
        kind = body["type"]
        if kind == "create_deployment":
            if not org.suspended and body["deployment_id"] not in org.deployments:
                yield from self._create(org, body, at_ms)
        elif kind == "stop_deployment":
            deployment = org.deployments.get(body["deployment_id"])
            if deployment is not None and deployment.status in ("created", "paused"):
                yield from deployment.abort("stopped")
        elif kind == "deploy_instance":
            if not org.suspended and not org.dry and body["instance_id"] not in org.instances:
                instance = org.instances[body["instance_id"]] = _Instance(body["org_id"], body["instance_id"])
                instance.enter("creating", at_ms)
                yield instance.send("create", at_ms, anew=True)
        elif body["instance_id"] in org.instances:
            yield from self._move(org, org.instances[body["instance_id"]], kind, at_ms)

    def _create(self, org: _Org, body: dict[str, Any], at_ms: int) -> Iterator[Order]:
        idle_s = body.get("idle_timeout_s")
        deployment = org.deployments[body["deployment_id"]] = _Deployment(
            org=body["org_id"],
            name=body["deployment_id"],
            min_replicas=body.get("min_replicas", 1),
            idle_ms=None if idle_s is None else idle_s * 1_000,
            active_ms=at_ms,
            job={name: body[name] for name in ("model", "gpu_type", "gpu_count")},
        )
        yield from deployment.submit(max(1, deployment.min_replicas))

    def _move(self, org: _Org, instance: _Instance, kind: str, at_ms: int) -> Iterator[Order]:
        if kind == "stop_instance" and instance.state == "running":
            instance.enter("stopping", at_ms)
            yield instance.send("stop", at_ms, anew=True)
        elif kind == "start_instance" and instance.state == "stopped" and not org.dry and not org.suspended:
            instance.enter("starting", at_ms)
            yield instance.send("start", at_ms, anew=True)
        elif kind == "destroy_instance" and instance.state not in ("destroying", "destroyed"):
            instance.enter("destroying", at_ms)
            yield instance.send("destroy", at_ms, anew=True)

    def _request(self, org: _Org, body: dict[str, Any], at_ms: int) -> Iterator[Order]:
        deployment = org.deployments.get(body["deployment_id"])
        if deployment is None or deployment.status not in ("created", "paused"):
            return
        deployment.active_ms = max(deployment.active_ms, at_ms)
        if not deployment.live and not org.suspended:
            deployment.status = "created"
            yield from deployment.submit(max(1, deployment.min_replicas))

    def _progress(self, org: _Org, body: dict[str, Any], at_ms: int) -> Iterator[Order]:
        deployment = org.deployments.get(body["replica_id"].rpartition("-r")[0])
        if deployment is None or body["replica_id"] not in deployment.live:
            return
        if body["status"] == "RUNNING":
            deployment.active_ms = max(deployment.active_ms, at_ms)
        elif body["status"] in ("FAILED", "SYSTEM_FAILURE", "VM_CRASH"):
            deployment.live.remove(body["replica_id"])
            # The stand-in execlets send FAILED only before "healthy", where it is fatal (R3).
            if body["status"] == "FAILED" and not deployment.live:
                deployment.status = "failed"
        yield from ()

    def _report(self, org: _Org, body: dict[str, Any], at_ms: int) -> Iterator[Order]:
        instance = org.instances.get(body["instance_id"])
        if instance is None:
            return
        state = self._after(instance, body["report"])
        if state is not None:
            instance.enter(state, at_ms, body["report"])
        yield from self._stop_if_dry(org, instance, at_ms)

    def _after(self, instance: _Instance, report: str) -> str | None:  # noqa: PLR0911 - a table, row by row
        match instance.state:
            case "creating" | "starting" | "error" if report in ("workload_up", "found_running"):
                return "running"
            case "creating" if report == "launch_failed" or report in _NO_WORKLOAD:
                return "error"
            case "starting" if report in _NOT_RESUMED:
                return "stopped"
            case "stopping" if report == "stop_confirmed" or report in _WORKLOAD_ENDED:
                return "stopped"
            case "running" if instance.stop_pending and (report == "stop_confirmed" or report in _WORKLOAD_ENDED):
                return "stopped"
            case "running" | "starting" | "stopping" if report in _NO_WORKLOAD:
                return "error"
            case "stopped" if report == "workload_gone":
                return "error"
            case "destroying" if report == "teardown_finished":
                return "destroyed"
        return None
