"""The demo's report: what happened to each org, with figures read from the topics and the views."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from schemas.base import Json
from schemas.changes import LifecycleChange
from schemas.notices import Notice
from schemas.results import CommandResult
from schemas.times import rfc3339
from schemas.usage import Usage
from sim import script
from sim.records import CURRENCY, MINUTE_MS, SECOND_MS
from sim.stage import Stage
from sim.views import Views, items


@dataclass(frozen=True, slots=True)
class Story:
    """The report about one org."""

    title: str
    lines: tuple[str, ...]


class Evidence:
    """The outputs that were received, and the views."""

    def __init__(self, stage: Stage, views: Views) -> None:
        self.memory = stage.memory
        self.croesus = stage.croesus
        self.get = views.get
        self.views = views

    def usage(self, org: str, window_id: str | None = None) -> list[tuple[int, Usage]]:
        """Return the usage events of an org or a window, each with the time of the tick that sent it."""
        return [
            (at, usage)
            for at, usage in self.memory.usage
            if usage.org_id == org and (window_id is None or usage.window_id == window_id)
        ]

    def changes(self, org: str, entity: str) -> list[LifecycleChange]:
        """Return the changes of one entity, oldest first."""
        return [change for change in self.memory.changes if change.org_id == org and change.id == entity]

    def change(self, org: str, entity: str, to: str, reason: str) -> LifecycleChange:
        """Return the first change of an entity to a state for a reason. Raises `LookupError` if there is none."""
        for change in self.changes(org, entity):
            if (change.to, change.reason) == (to, reason):
                return change
        msg = f"{entity} of {org} never became {to} by {reason}"
        raise LookupError(msg)

    def refusals(self, org: str) -> list[CommandResult]:
        """Return the rejected commands of an org, oldest first."""
        return [result for result in self.memory.results if result.org_id == org and result.outcome == "rejected"]

    def windows(self, org: str, replica: str) -> list[Json]:
        """Return the windows of a replica."""
        windows: list[Json] = self.get(f"/orgs/{org}/replicas/{replica}")["windows"]
        return windows

    def instance(self, org: str, name: str) -> Json:
        """Return an instance."""
        return self.get(f"/orgs/{org}/instances/{name}")

    def deployment(self, org: str, name: str) -> Json:
        """Return a deployment."""
        return self.get(f"/orgs/{org}/deployments/{name}")


StoryBuilder: TypeAlias = Callable[[Evidence], Story]


def clock(time: str, *, ms: bool = False) -> str:
    """Return the time of day of `2026-11-29T12:00:00.000Z`, with or without ms."""
    return time[11:23] if ms else time[11:19]


def long(ms: int) -> str:
    """Return a duration with milliseconds, such as `31 min 16.682 s`."""
    minutes, rest = divmod(ms, MINUTE_MS)
    seconds = f"{rest // SECOND_MS}.{rest % SECOND_MS:03} s"
    return f"{minutes} min {seconds}" if minutes else seconds


def _largest_catch_up(usage: list[tuple[int, Usage]]) -> tuple[int, int, int]:
    """Return the tick that sent the most events: the previous tick with events, this tick, the number of events."""
    by_tick = Counter(at for at, _ in usage)
    largest = max(by_tick, key=lambda at: (by_tick[at], -at))
    return max((at for at in by_tick if at < largest), default=largest), largest, by_tick[largest]


def dead_node(evidence: Evidence) -> Story:
    """B8: a node dies, and the failure is reported an hour later."""
    org, _ = script.DEAD_NODE
    [window] = evidence.windows(org, script.DEAD_REPLICA)
    sent = [usage for _, usage in evidence.usage(org, window["window_id"])]
    return Story(
        f"{org}: a node dies, and the failure is reported an hour later (B8)",
        (
            (
                f"{script.DEAD_REPLICA} was running from {clock(window['opened_at'], ms=True)}; its last heartbeat was "
                f"at {clock(window['last_health_check'], ms=True)}; it failed at "
                f"{clock(window['ended_at'], ms=True)}."
            ),
            (
                f"Billed up to 90 s after that heartbeat: {len(sent)} events, {long(window['billed_ms'])}, up to "
                f"{clock(max(usage.interval_end for usage in sent), ms=True)}."
            ),
            f"Forgiven: {long(window['forgiven_ms'])}. billed_until is {clock(window['billed_until'], ms=True)}.",
        ),
    )


def pause(evidence: Evidence) -> Story:
    """B7: heartbeats stop and resume."""
    org, name = script.PAUSE
    [window] = evidence.windows(org, f"{name}-r1")
    usage = evidence.usage(org, window["window_id"])
    before, at, count = _largest_catch_up(usage)
    caught_up = [piece for sent, piece in usage if sent == at]
    return Story(
        f"{org}: heartbeats stop and resume while the replica is running (B7)",
        (
            (
                f"Billing paused after the tick of {clock(rfc3339(before))}: {(at - before) // MINUTE_MS} "
                f"minutes without an event while {name}-r1 was running."
            ),
            (
                f"After the heartbeats resumed, the tick of {clock(rfc3339(at))} sent {count} events: "
                f"{clock(caught_up[0].interval_start)} to {clock(caught_up[-1].interval_end)}."
            ),
            (
                f"Now {long(window['billed_ms'])} billed, {long(window['pending_ms'])} pending, "
                f"{long(window['forgiven_ms'])} forgiven."
            ),
        ),
    )


def restart(evidence: Evidence) -> Story:
    """B1: a restart results in two windows."""
    org, name = script.RESTART
    first, second = evidence.windows(org, f"{name}-r1")
    last = max(usage.interval_end for _, usage in evidence.usage(org, first["window_id"]))
    return Story(
        f"{org}: a restart results in two windows (B1)",
        (
            (
                f"{first['window_id']}: {clock(first['opened_at'], ms=True)} to {clock(first['ended_at'], ms=True)}, "
                f"{long(first['billed_ms'])} billed, up to {clock(last, ms=True)}."
            ),
            (
                f"{second['window_id']}: from {clock(second['opened_at'], ms=True)} on, "
                f"{long(second['billed_ms'])} billed; the time in restarting is not billed."
            ),
        ),
    )


def fatal_image(evidence: Evidence) -> Story:
    """P3: an image that does not exist."""
    org, name = script.FATAL_IMAGE
    deployment = evidence.deployment(org, name)
    failed = [
        change
        for replica in deployment["replicas"]
        for change in evidence.changes(org, replica["replica_id"])
        if change.to == "failed"
    ]
    last = evidence.change(org, name, "failed", "replicas_failed")
    return Story(
        f"{org}: an image that does not exist (P3)",
        (
            *(f"{change.id} failed at {clock(change.at)}, {change.reason}." for change in failed),
            (
                f"With the last replica, {name} became {deployment['status']} ({last.reason}) at {clock(last.at)}: "
                f"{len(deployment['replicas'])} replicas submitted, none replaced, "
                f"{len(evidence.usage(org))} events."
            ),
        ),
    )


def crash_loop(evidence: Evidence) -> Story:
    """P5: a replica crashes repeatedly and is replaced at the next tick."""
    org, name = script.CRASH_LOOP
    deployment = evidence.deployment(org, name)
    states = Counter(replica["status"] for replica in deployment["replicas"])
    scaled = [
        change.at
        for replica in deployment["replicas"]
        for change in evidence.changes(org, replica["replica_id"])
        if (change.to, change.reason) == ("pending", "scaler")
    ]
    billed_ms = sum(usage.duration_ms for _, usage in evidence.usage(org))
    return Story(
        f"{org}: a crash loop (P5)",
        (
            (
                f"{len(deployment['replicas'])} replicas so far: "
                f"{', '.join(f'{count} {status}' for status, count in sorted(states.items()))}; {name} is still "
                f"{deployment['status']}."
            ),
            (
                f"{len(scaled)} replacements by the scaler, at most {max(Counter(scaled).values(), default=0)} "
                f"per tick. Only the time in running is billed: {long(billed_ms)}."
            ),
        ),
    )


def idle(evidence: Evidence) -> Story:
    """P6, P7: a deployment is idle, then gets a request."""
    org, name = script.IDLE
    paused = evidence.change(org, name, "paused", "idle")
    woken = evidence.change(org, name, "created", "request")
    between = [usage for _, usage in evidence.usage(org) if paused.at <= usage.interval_start < woken.at]
    healthy = next(change for change in evidence.changes(org, f"{name}-r2") if change.to == "running")
    return Story(
        f"{org}: paused when idle, resumed by the next request (P6, P7)",
        (
            f"After 15 min without a request {name} was paused at {clock(paused.at)} and its replica stopped.",
            (
                f"A request at {clock(woken.at, ms=True)} resumed it: {name}-r2 was running at {clock(healthy.at)}; "
                f"{len(between)} events for the time in paused."
            ),
        ),
    )


def unpriced(evidence: Evidence) -> Story:
    """B9, B20: a profile loses its price for a while."""
    org, name = script.UNPRICED
    [refused] = evidence.refusals(org)
    [window] = evidence.windows(org, f"{name}-r1")
    usage = evidence.usage(org, window["window_id"])
    before, at, count = _largest_catch_up(usage)
    return Story(
        f"{org}: a profile without a price (B9, B20)",
        (
            (
                f"At {clock(refused.at)} {script.UNPRICED_PROFILE} had no price: {refused.status} "
                f"{refused.code}. With a price, {name} was created."
            ),
            (
                f"The price was removed: after the tick of {clock(rfc3339(before))} the window was held for "
                f"{(at - before) // MINUTE_MS} minutes."
            ),
            (
                f"The price was set again, and the tick of {clock(rfc3339(at))} sent {count} events. Now "
                f"{long(window['billed_ms'])} billed, {long(window['pending_ms'])} pending."
            ),
        ),
    )


def suspended(evidence: Evidence) -> Story:
    """B22: an org that Croesus suspends."""
    org, name = script.SUSPENDED
    stopped = evidence.change(org, name, "stopped", "org_suspended")
    [refused] = evidence.refusals(org)
    again = evidence.change(org, script.REINSTATED, "created", "deployed")
    return Story(
        f"{org}: suspended by Croesus, later reinstated (B22)",
        (
            (
                f"After the suspension, {name} and its {len(evidence.deployment(org, name)['replicas'])} replicas were "
                f"{stopped.to} at the next tick, {clock(stopped.at)} ({stopped.reason})."
            ),
            (
                f"A new deployment at {clock(refused.at)}: {refused.status} {refused.code}. After the "
                f"reinstatement, {script.REINSTATED} was accepted at {clock(again.at)}."
            ),
        ),
    )


def run_dry(evidence: Evidence) -> Story:
    """I6, I7: an instance uses up the balance."""
    org, name = script.RUN_DRY
    stopping = evidence.change(org, name, "stopping", "balance_empty")
    stopped = evidence.change(org, name, "stopped", "stop_confirmed")
    [refused] = evidence.refusals(org)
    started = evidence.change(org, name, "starting", "user")
    events = evidence.usage(org)
    disk = [usage for _, usage in events if usage.type == "instance_disk_stopped"]
    disk_ms = sum(usage.duration_ms for usage in disk)
    gpu_ms = sum(usage.duration_ms for _, usage in events if usage.type == "instance_gpu_running")
    view = evidence.get(f"/orgs/{org}")
    return Story(
        f"{org}: the balance is used up, then topped up (I6, I7)",
        (
            (
                f"{name} used up the balance: {stopping.to} at {clock(stopping.at)} ({stopping.reason}), "
                f"{stopped.to} at {clock(stopped.at)}. From then on only the disk was billed, {disk[0].quantity} GB: "
                f"{len(disk)} events, {long(disk_ms)}."
            ),
            (
                f"A start at {clock(refused.at)}: {refused.status} {refused.code}. After the top-up, it was started at "
                f"{clock(started.at)} and is {evidence.instance(org, name)['state']} again."
            ),
            f"GPU time billed: {long(gpu_ms)}. Balance {view['balance']}, runway {view['runway_s']} s.",
        ),
    )


def unconfirmed_stop(evidence: Evidence) -> Story:
    """I1: a stop that the host does not confirm in time."""
    org, name = script.UNCONFIRMED_STOP
    requested = evidence.change(org, name, "stopping", "user")
    timed_out = evidence.change(org, name, "running", "stop_timed_out")
    stopped = evidence.change(org, name, "stopped", "stop_confirmed")
    gpu = [window for window in evidence.instance(org, name)["windows"] if ".gpu." in window["window_id"]]
    return Story(
        f"{org}: a stop that the host does not confirm in time (I1)",
        (
            (
                f"Stop requested at {clock(requested.at)}. After 30 minutes without confirmation, {name} was "
                f"{timed_out.to} again at {clock(timed_out.at)} ({timed_out.reason}), and `stop` was sent each minute."
            ),
            f"Confirmed at {clock(stopped.at)}. GPU windows: "
            + "; ".join(
                f"{clock(window['opened_at'])} to {clock(window['ended_at'])}, {long(window['billed_ms'])}"
                for window in gpu
            )
            + ". The time in stopping was not billed.",
        ),
    )


def mixed_host(evidence: Evidence) -> Story:
    """I1, I9, I10: other outcomes of instances."""
    org = script.MIXED_HOST

    def histories() -> Iterator[str]:
        for instance in items(evidence.views, f"/orgs/{org}/instances?include_destroyed=true"):
            name = instance["instance_id"]
            path = " > ".join(
                change.to if change.error_code is None else f"{change.to} ({change.error_code})"
                for change in evidence.changes(org, name)
            )
            billed_ms = sum(window["billed_ms"] for window in instance["windows"])
            yield f"{name}: {path}; {long(billed_ms)} billed."

    return Story(f"{org}: completed jobs, failed launches, refused starts (I1, I9, I10)", tuple(histories()))


def serverless(evidence: Evidence) -> Story:
    """P8: a serverless deployment has no windows."""
    org, name = script.SERVERLESS
    deployment = evidence.deployment(org, name)
    windows = sum(len(evidence.windows(org, replica["replica_id"])) for replica in deployment["replicas"])
    return Story(
        f"{org}: a serverless deployment, without windows (P8)",
        (
            (
                f"{name}: {deployment['current_replicas']} replicas running, {windows} windows, "
                f"{len(evidence.usage(org))} events."
            ),
        ),
    )


def credited(evidence: Evidence) -> Story:
    """B13: an operator credits ten minutes in which a host served nothing."""
    org, name = script.CREDITED
    accepted, refused = [result for result in evidence.memory.results if result.org_id == org and result.operator]
    sent = [credit for credit in evidence.memory.credits if credit.org_id == org]
    first, last = sent[0], sent[-1]
    account = evidence.croesus.accounts[org]
    [window] = evidence.windows(org, f"{name}-r1")
    explained = evidence.get(f"/orgs/{org}/explain/{first.usage_id}")
    [part] = explained["credits"]
    return Story(
        f"{org}: a host served nothing for ten minutes, and an operator credits them (B13)",
        (
            (
                f"An operator's command at {clock(accepted.at)}, as of `obol credit {first.window_id} --org {org} "
                f'--from {first.interval_start} --until {last.interval_end} --note "{first.note}"`: '
                f"{accepted.status}, {accepted.message}."
            ),
            (
                f"{len(sent)} credits, one for each usage event of that time: "
                f"{long(sum(credit.duration_ms for credit in sent))}. The same again at {clock(refused.at)}: "
                f"{refused.status} {refused.code}."
            ),
            (
                f"`obol explain {explained['event_id']} --org {org}`: charged {clock(explained['interval_start'])} to "
                f"{clock(explained['interval_end'])}, credited {clock(part['from'])} to {clock(part['until'])}."
            ),
            (
                f"{window['window_id']}: {long(window['billed_ms'])} billed, {long(window['credited_ms'])} credited. "
                f"The bill: {account.amount:,.2f} {CURRENCY} - {account.credited:,.2f} credited = "
                f"{account.amount - account.credited:,.2f}."
            ),
        ),
    )


def notices(evidence: Evidence) -> Story:
    """N1: the notices to the org whose balance is used up."""
    org, _ = script.RUN_DRY
    words = {"runway_low": "runway below", "balance_empty": "balance empty"}
    sent = [notice for notice in evidence.memory.notices if notice.org_id == org]
    return Story(
        f"{org}: the notices that its customer got (N1)",
        tuple(
            f"{clock(notice.at)}  {words[notice.kind]}{_threshold(notice)}: balance {notice.balance}, "
            f"{notice.burn_per_hour} per hour, runway {notice.runway_s} s."
            for notice in sent
        ),
    )


def _threshold(notice: Notice) -> str:
    return "" if notice.threshold_s is None else f" {notice.threshold_s // 3_600} h"


STORIES: Final[tuple[StoryBuilder, ...]] = (
    dead_node,
    pause,
    restart,
    fatal_image,
    crash_loop,
    idle,
    unpriced,
    suspended,
    run_dry,
    notices,
    unconfirmed_stop,
    mixed_host,
    serverless,
    credited,
)
