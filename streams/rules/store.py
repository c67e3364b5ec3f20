"""The store of one partition's rows: the only code that changes a row, and the only path for every change.

A rule reads rows through `OrgRows` and changes them through `RowStore`, which updates the row, lists it for the commit
and updates every derived index. A restore uses the same code. Rows are frozen, so that any other change raises.
"""

import json
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import date
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Final, TypeVar

from streams.billing.credits import union
from streams.billing.minutes import floor_minute
from streams.billing.windows import DERIVED, Origin, OwedCredit, Window, is_settled
from streams.lifecycle import deployment as deployments
from streams.lifecycle import replica as replicas
from streams.lifecycle.instance import InstanceStage
from streams.limits import DAY_MS, DEDUPE_MS
from streams.meters import METERS, OWNER_KINDS, OwnerKind, burn_units
from streams.rules.rows import (
    ROW_TYPES,
    CommandMemory,
    DayUsage,
    Deployment,
    EventMemory,
    Instance,
    OperatorCommandMemory,
    Org,
    Owner,
    Replica,
    Row,
    UsedId,
)

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()

NEVER: Final = -1
"""A time before all others."""

RowT = TypeVar("RowT", bound=Org | Deployment | Replica | Instance)

# A slot's descriptor sets a field of a frozen row, at the cost of an ordinary assignment.
_SET: Final[Mapping[type, Mapping[str, Callable[[Any, Any], None]]]] = {
    row_type: {field.name: getattr(row_type, field.name).__set__ for field in fields(row_type)}
    for row_type in ROW_TYPES
}
_WRITTEN: Final[Mapping[type, Sequence[str]]] = {
    row_type: tuple(field.name for field in fields(row_type) if DERIVED not in field.metadata) for row_type in ROW_TYPES
}
# The fields from which indexes and expiry are derived; a change of other fields leaves both as they are.
_INDEXED_FIELDS: Final[Mapping[type, frozenset[str]]] = {
    Org: frozenset(),
    Deployment: frozenset({"status", "ended_at", "labels"}),
    Replica: frozenset({"status", "ended_at", "late_signs"}),
    Instance: frozenset({"stage", "ended_at", "late_signs", "labels", "gpu_type", "gpu_count", "disk_gb"}),
}
_set_health_check: Final = _SET[Replica]["last_health_check"]
_set_window_health_check: Final = _SET[Window]["last_health_check"]
_set_billed_until: Final = _SET[Window]["billed_until"]
_set_billed_ms: Final = _SET[Window]["billed_ms"]
_set_billed: Final = _SET[DayUsage]["billed"]
_set_cost: Final = _SET[DayUsage]["cost"]
_set_credited: Final = _SET[DayUsage]["credited"]
_set_credited_cost: Final = _SET[DayUsage]["credited_cost"]

_replica_id: Final = attrgetter("replica_id")
_window_id: Final = attrgetter("window_id")
_opened_at: Final = attrgetter("opened_at")


class OrgRows:
    """One org's rows, read-only, for rules and views. Everything is looked up within its org (contract).

    Tables by id: `deployments`, `replicas`, `instances`, `windows`, `answers`, `operator_answers`, `used_ids`,
    `day_usage`; of an event only its time is kept, `events` (C4). Derived from them: `created` (deployments in that
    status), `live_instances` (not destroyed), `zombies` (replicas and instances that still send signs of life, though
    they have ended, by table and id), `units` (the number of each profile that counts for the burn, I6).
    """

    __slots__ = (
        "_closed_of",
        "_crediting",
        "_due",
        "_live",
        "_tables",
        "_unsorted",
        "answers",
        "created",
        "day_usage",
        "deployments",
        "events",
        "instances",
        "live_instances",
        "operator_answers",
        "org",
        "replicas",
        "units",
        "used_ids",
        "windows",
        "zombies",
    )

    def __init__(self, org: Org) -> None:
        self.org = org
        self._tables: dict[str, dict[str, Any]] = {row_type.TABLE: {} for row_type in ROW_TYPES if row_type is not Org}
        self.deployments: Mapping[str, Deployment] = self._tables[Deployment.TABLE]
        self.replicas: Mapping[str, Replica] = self._tables[Replica.TABLE]
        self.instances: Mapping[str, Instance] = self._tables[Instance.TABLE]
        self.windows: Mapping[str, Window] = self._tables[Window.TABLE]
        self.answers: Mapping[str, CommandMemory] = self._tables[CommandMemory.TABLE]
        self.operator_answers: Mapping[str, OperatorCommandMemory] = self._tables[OperatorCommandMemory.TABLE]
        self.used_ids: Mapping[str, UsedId] = self._tables[UsedId.TABLE]
        self.day_usage: Mapping[str, DayUsage] = self._tables[DayUsage.TABLE]
        self.events: Mapping[str, int] = self._tables[EventMemory.TABLE]
        self.created: dict[str, Deployment] = {}
        self.live_instances: dict[str, Instance] = {}
        self.zombies: dict[tuple[str, str], Owner] = {}
        self.units: Counter[str] = Counter()
        self._live: dict[str, list[Replica]] = {}
        self._due: dict[OwnerKind, list[Window]] = {kind: [] for kind in OWNER_KINDS}
        self._crediting: dict[OwnerKind, list[Window]] = {kind: [] for kind in OWNER_KINDS}
        self._unsorted = False
        self._closed_of: dict[str, list[Window]] = {}

    def table(self, name: str) -> Mapping[str, Any]:
        """Return the rows of one table by id; `events` maps an id to its time."""
        return {self.org.org_id: self.org} if name == Org.TABLE else self._tables[name]

    def live_replicas(self, deployment_id: str) -> Sequence[Replica]:
        """Return the deployment's live replicas, in order of their ids."""
        return self._live.get(deployment_id, ())

    def due(self, kind: OwnerKind) -> Sequence[Window]:
        """Return the windows of that kind of owner that are not done, in order of window id."""
        self._refresh()
        return self._due[kind]

    def crediting(self, kind: OwnerKind) -> Sequence[Window]:
        """Return the windows of that kind of owner with credits to send, in order of window id (B13)."""
        self._refresh()
        return self._crediting[kind]

    def _refresh(self) -> None:
        if self._unsorted:
            for windows in self._due.values():
                windows[:] = sorted((window for window in windows if not window.done), key=_window_id)
            for windows in self._crediting.values():
                windows[:] = sorted((window for window in windows if window.owed_credits), key=_window_id)
            self._unsorted = False

    def windows_of(self, owner: Owner) -> list[Window]:
        """Return all windows of a replica or an instance, oldest first."""
        return sorted((*self._closed_of.get(owner.row_id, ()), *owner.open_windows), key=_opened_at)

    def labels_of(self, window: Window) -> dict[str, str] | None:
        """Return the labels that go with a window's credits, keys sorted; None: it has none (C6)."""
        specification = self._specification(window)
        return (
            dict(sorted(specification.labels.items())) if specification is not None and specification.labels else None
        )

    def owner_of(self, window: Window) -> Owner | None:
        """Return the row of the owner of `window`; None when it has expired."""
        owners: Mapping[str, Owner] = self.replicas if METERS[window.meter].owner == "replica" else self.instances
        return owners.get(window.owner_id)

    @property
    def is_empty(self) -> bool:
        """Whether the org has no rows, no balance and no suspension."""
        return not any(self._tables.values()) and self.org.balance is None and not self.org.suspended

    def derived(self) -> dict[str, Any]:
        """Return every derived index in a comparable form, for the check against one rebuilt from the rows."""
        return {
            "created": set(self.created),
            "live_instances": set(self.live_instances),
            "live_replicas": {key: [row.row_id for row in rows] for key, rows in self._live.items() if rows},
            "units": dict(self.units),
            "late_signs": set(self.zombies),
            "due": {kind: [window.window_id for window in self.due(kind)] for kind in OWNER_KINDS},
            "crediting": {kind: [window.window_id for window in self.crediting(kind)] for kind in OWNER_KINDS},
            "labels": {window.window_id: window.labels_json for window in self.windows.values() if window.labels_json},
            "closed_of": {key: {window.window_id for window in rows} for key, rows in self._closed_of.items()},
            "open_windows": {
                owner.row_id: {window.window_id for window in owner.open_windows}
                for owners in (self.replicas, self.instances)
                for owner in owners.values()
                if owner.open_windows
            },
        }

    # Only the RowStore calls these.

    def _insert(self, row: Row) -> None:
        if isinstance(row, Org):
            self.org = row
        else:
            self._tables[row.TABLE][row.row_id] = row
            self._index(row)

    def _delete(self, row: Row) -> None:
        if isinstance(row, Org):
            self.org = Org(row.org_id)
        else:
            self._unindex(row)
            del self._tables[row.TABLE][row.row_id]

    def _index(self, row: Row) -> None:
        """Add what `row` contributes to the indexes."""
        match row:
            case Deployment():
                _set_labels_json(row)
                if row.status is deployments.DeploymentStatus.CREATED:
                    self.created[row.deployment_id] = row
            case Replica():
                if row.late_signs is not None:
                    self.zombies[row.TABLE, row.row_id] = row
                if row.status not in replicas.TERMINAL:
                    insort(self._live.setdefault(row.deployment_id, []), row, key=_replica_id)
                self._count(row, 1)
            case Instance():
                _set_labels_json(row)
                if row.late_signs is not None:
                    self.zombies[row.TABLE, row.row_id] = row
                if row.stage is not InstanceStage.DESTROYED:
                    self.live_instances[row.instance_id] = row
                self._count(row, 1)
            case Window():
                self._index_window(row)

    def _unindex(self, row: Row) -> None:
        """Remove what `row`, as it is now, contributes to the indexes."""
        match row:
            case Deployment():
                self.created.pop(row.deployment_id, None)
            case Replica():
                self.zombies.pop((row.TABLE, row.row_id), None)
                if row.status not in replicas.TERMINAL:
                    live = self._live[row.deployment_id]
                    del live[bisect_left(live, row.replica_id, key=_replica_id)]
                    if not live:
                        del self._live[row.deployment_id]
                self._count(row, -1)
            case Instance():
                self.zombies.pop((row.TABLE, row.row_id), None)
                self.live_instances.pop(row.instance_id, None)
                self._count(row, -1)
            case Window():
                self._unindex_window(row)

    def _index_window(self, window: Window) -> None:
        specification = self._specification(window)
        if specification is not None and specification.labels_json:
            _SET[Window]["labels_json"](window, specification.labels_json)
        if window.ended_at is None:
            self._add_open(window)
        else:
            self._closed_of.setdefault(window.owner_id, []).append(window)
        if not window.done:
            self._due[METERS[window.meter].owner].append(window)
            # Sorted when it is next read: one sort for all windows that a record, or a restore, adds.
            self._unsorted = True
        if window.owed_credits:
            self._crediting[METERS[window.meter].owner].append(window)
            self._unsorted = True

    def _close_window(self, window: Window, ended_at: int, closed_by: Origin) -> None:
        # It stays due, so that only the indexes of open and closed windows change.
        self._remove_open(window)
        _SET[Window]["ended_at"](window, ended_at)
        _SET[Window]["closed_by"](window, closed_by)
        self._closed_of.setdefault(window.owner_id, []).append(window)

    def _unindex_window(self, window: Window) -> None:
        if window.ended_at is None:
            self._remove_open(window)
        else:
            closed = self._closed_of[window.owner_id]
            closed.remove(window)
            if not closed:
                del self._closed_of[window.owner_id]
        if not window.done:
            self._due[METERS[window.meter].owner].remove(window)
        if window.owed_credits:
            self._crediting[METERS[window.meter].owner].remove(window)

    def _specification(self, window: Window) -> Deployment | Instance | None:
        if window.deployment_id is not None:
            return self.deployments.get(window.deployment_id)
        return self.instances.get(window.owner_id)

    def _add_open(self, window: Window) -> None:
        owner = self._owner_with_row(window)
        _SET[type(owner)]["open_windows"](owner, (*owner.open_windows, window))

    def _remove_open(self, window: Window) -> None:
        owner = self._owner_with_row(window)
        _SET[type(owner)]["open_windows"](owner, tuple(one for one in owner.open_windows if one is not window))

    def _owner_with_row(self, window: Window) -> Owner:
        owner = self.owner_of(window)
        if owner is None:
            msg = f"org {window.org_id}: window {window.window_id} is open, but its owner {window.owner_id} has no row"
            raise AssertionError(msg)
        return owner

    def _count(self, owner: Owner, sign: int) -> None:
        """Add the units of `owner` to the burn, or with sign −1 remove them (I6)."""
        stage, specification = (
            (owner.status, self.deployments.get(owner.deployment_id))
            if isinstance(owner, Replica)
            else (owner.stage, owner)
        )
        for profile, quantity in burn_units(owner.OWNER, stage, specification).items():
            self.units[profile] += sign * quantity
            if not self.units[profile]:
                del self.units[profile]


def _set_labels_json(row: Deployment | Instance) -> None:
    """Derive the labels as usage events write them: one string for all windows of the row (C6)."""
    if row.labels and not row.labels_json:
        labels = dict(sorted(row.labels.items()))
        text = json.dumps(labels, ensure_ascii=False, separators=(",", ":"))
        _SET[type(row)]["labels_json"](row, f',"labels":{text}')


class RowStore:
    """All rows of one partition. `restore` and `restore_removed` apply changelog records; rules use the other methods.

    `retention_ms`: how long the row of an ended entity is kept (C5); `id_retention_ms`: how long its id stays used
    after that, and how long usage by day is kept (U1). `latest_tick`: the greatest time of an applied tick, in ms.
    """

    def __init__(self, retention_ms: int, id_retention_ms: int = 400 * DAY_MS) -> None:
        self.orgs: dict[str, OrgRows] = {}
        self.retention_ms = retention_ms
        self.id_retention_ms = id_retention_ms
        self.latest_tick = NEVER
        self.changed: dict[Row, None] = {}
        self.removed: dict[Row, None] = {}
        self._expiring: list[tuple[int, int, Row]] = []
        self._pushes = 0
        self._events_by_minute: dict[int, dict[str, list[str]]] = {}

    def org(self, org_id: str) -> OrgRows:
        """Return the org's rows; those of a new org are empty."""
        rows = self.orgs.get(org_id)
        if rows is None:
            rows = self.orgs[org_id] = OrgRows(Org(org_id))
        return rows

    # Restoring

    def restore_event(self, org_id: str, row_id: str, at_ms: int) -> None:
        """Add an event memory, as `restore` does, but without its row, which is not stored: there are many."""
        self.org(org_id)._tables[EventMemory.TABLE][row_id] = at_ms
        self._list_event(org_id, row_id, at_ms)

    def restore(self, row: Row) -> None:
        """Add `row` from its changelog; it replaces an earlier one of its key."""
        rows = self.orgs.get(row.org_id)
        if rows is not None and not isinstance(row, EventMemory):
            known = rows.table(row.TABLE).get(row.row_id)
            if isinstance(known, Replica | Instance):
                # Its open windows refer to the existing row object.
                self._assign(known, {name: getattr(row, name) for name in _WRITTEN[type(row)]})
                return
            if known is not None:
                rows._delete(known)
        self._insert(row)

    def restore_removed(self, table: str, org_id: str, row_id: str) -> None:
        """Apply a tombstone; an unknown row is no error."""
        known = self._known(table, org_id, row_id)
        if known is not None:
            self.orgs[org_id]._delete(known)
            if self.orgs[org_id].is_empty:
                del self.orgs[org_id]

    def _known(self, table: str, org_id: str, row_id: str) -> Row | None:
        rows = self.orgs.get(org_id)
        row = None if rows is None else rows.table(table).get(row_id)
        return event_memory(org_id, row_id, row) if isinstance(row, int) else row

    # Changes

    def add(self, row: Row) -> None:
        """Add a new row; a command memory or event memory replaces an earlier one of its id."""
        self._insert(row)
        self.changed[row] = None

    def change(self, row: RowT, **values: Any) -> RowT:
        """Set fields of `row`, which is not a window, and return it. Raises `KeyError` for an unknown field."""
        self._assign(row, values)
        self.changed[row] = None
        return row

    def remove(self, row: Row) -> None:
        """Remove `row` from its table, and its org when nothing else is left of it."""
        rows = self.orgs[row.org_id]
        rows._delete(row)
        self._mark_removed(row)
        if rows.is_empty:
            self._mark_removed(rows.org)
            del self.orgs[row.org_id]

    def heartbeat(self, owner: Owner, at_ms: int) -> None:
        """Record a heartbeat of a running owner, never backwards: in its open windows, else in its row (B2)."""
        for window in owner.open_windows:
            before = window.last_health_check
            if before is not None and at_ms > before:
                _set_window_health_check(window, at_ms)
                self.changed[window] = None
        if not owner.open_windows and isinstance(owner, Replica) and at_ms > (owner.last_health_check or NEVER):
            _set_health_check(owner, at_ms)
            self.changed[owner] = None

    def close_window(self, window: Window, ended_at: int, closed_by: Origin) -> None:
        """Close an open window."""
        rows = self.orgs[window.org_id]
        rows._close_window(window, ended_at, closed_by)
        self._expire_at(ended_at + self.retention_ms, window)
        self.changed[window] = None

    def bill(self, window: Window, until_ms: int) -> None:
        """Advance the watermark: [`billed_until`, `until_ms`) is billed (B6)."""
        _set_billed_ms(window, window.billed_ms + until_ms - window.billed_until)
        _set_billed_until(window, until_ms)
        self.changed[window] = None

    def finish(self, window: Window, now_ms: int) -> None:
        """Move the watermark of a closed window with nothing left to bill to its end, never backwards (B6)."""
        if not is_settled(window, now_ms):
            return
        if window.ended_at is not None and window.billed_until < window.ended_at:
            _set_billed_until(window, window.ended_at)
        self.orgs[window.org_id]._unsorted = True
        self.changed[window] = None

    def owe(self, window: Window, owed: Sequence[OwedCredit]) -> None:
        """Record billed stretches of a window as owed back (B13)."""
        rows = self.orgs[window.org_id]
        if owed and not window.owed_credits:
            rows._crediting[METERS[window.meter].owner].append(window)
        _SET[Window]["owed_back"](window, union((*window.owed_back, *((one.start, one.end) for one in owed))))
        self.credit(window, (*window.owed_credits, *owed))

    def credit(self, window: Window, remaining: tuple[OwedCredit, ...]) -> None:
        """Record that credits of a window were sent: `remaining` is what is still owed (B13)."""
        _SET[Window]["owed_credits"](window, remaining)
        self.orgs[window.org_id]._unsorted = True
        self.changed[window] = None

    def add_usage(self, org_id: str, day: str, usage_type: str, profile: str, unit_ms: int, cost: int) -> None:
        """Add billed unit-ms and their cost, in unit-ms times atto per hour, to an org's sums of a day (U1)."""
        row = self._day_usage(org_id, day, usage_type, profile)
        _set_billed(row, row.billed + unit_ms)
        _set_cost(row, str(int(row.cost) + cost))
        self.changed[row] = None

    def add_credit(self, org_id: str, day: str, usage_type: str, profile: str, unit_ms: int, cost: int) -> None:
        """Add credited unit-ms and their cost likewise."""
        row = self._day_usage(org_id, day, usage_type, profile)
        _set_credited(row, row.credited + unit_ms)
        _set_credited_cost(row, str(int(row.credited_cost) + cost))
        self.changed[row] = None

    def _day_usage(self, org_id: str, day: str, usage_type: str, profile: str) -> DayUsage:
        row = self.orgs[org_id].day_usage.get(f"{day}/{usage_type}/{profile}")
        if row is None:
            row = DayUsage(org_id, day, usage_type, profile)
            self.add(row)
        return row

    def take_changes(self) -> tuple[Sequence[Row], Sequence[Row]]:
        """Return the rows removed and the rows changed since the last call, each once."""
        removed, changed = self.removed, self.changed
        self.removed, self.changed = type(removed)(), type(changed)()
        return tuple(removed), tuple(changed)

    # Expiry

    def expires_at(self, row: Row) -> int | None:
        """Return the time from which `row` may be removed, in ms; None: not known yet (C1, C5)."""
        since: int | None = None
        kept_ms = self.retention_ms
        match row:
            case Window() | Replica() if row.ended_at is None:
                return None
            case CommandMemory() | OperatorCommandMemory():
                since, kept_ms = row.at, DEDUPE_MS
            case UsedId():
                since, kept_ms = row.left_at, self.id_retention_ms
            case DayUsage():
                since, kept_ms = day_start(row.day) + DAY_MS, self.id_retention_ms
            case Replica() | Instance() if row.ended_at is not None and row.late_signs is not None:
                since = max(row.ended_at, row.late_signs.last_at)
            case Deployment() | Replica() | Instance() | Window():
                since = row.ended_at
        return None if since is None else since + kept_ms

    def expired(self, now_ms: int) -> list[Row]:
        """Remove the expired rows from the expiry queue and return them, oldest first; `keep` puts one back."""
        found = []
        while self._expiring and self._expiring[0][0] <= now_ms:
            at, _, row = heappop(self._expiring)
            rows = self.orgs.get(row.org_id)
            if rows is not None and rows.table(row.TABLE).get(row.row_id) is row and self.expires_at(row) == at:
                found.append(row)
        return found

    def keep(self, row: Row) -> None:
        """Put an expired row that is still needed back, to be checked again at the next tick."""
        at = self.expires_at(row)
        if at is not None:
            self._expire_at(at, row)

    def expired_events(self, now_ms: int) -> Iterator[EventMemory]:
        """Yield the events of 24 h ago or more, each once; one that was applied again since then stays (C4)."""
        for minute in [minute for minute in self._events_by_minute if minute + DEDUPE_MS <= now_ms]:
            for org_id, events in self._events_by_minute.pop(minute).items():
                for event in events:
                    at_ms = self.orgs[org_id].events.get(event) if org_id in self.orgs else None
                    if at_ms is None or floor_minute(at_ms) != minute:
                        continue
                    seen = event_memory(org_id, event, at_ms)
                    if at_ms + DEDUPE_MS > now_ms:
                        self._list_event(org_id, event, at_ms)
                    else:
                        yield seen

    @property
    def expiry_entries(self) -> int:
        """The number of entries that `expiring` searches."""
        return len(self._expiring) + len(self._events_by_minute)

    def expiring(self, org_id: str) -> set[tuple[int, str, str]]:
        """Return the expiry times of an org's rows and events in a comparable form: (ms, table, id)."""
        found = {
            (at, row.TABLE, row.row_id)
            for at, _, row in self._expiring
            if row.org_id == org_id
            and self.expires_at(row) == at
            and self.orgs[org_id].table(row.TABLE).get(row.row_id) is row
        }
        at_of = self.orgs[org_id].events
        for minute, events in self._events_by_minute.items():
            found.update(
                (minute, EventMemory.TABLE, event)
                for event in events.get(org_id, ())
                if event in at_of and floor_minute(at_of[event]) == minute
            )
        return found

    def _insert(self, row: Row) -> None:
        if isinstance(row, EventMemory):
            self.restore_event(row.org_id, row.row_id, row.at)
            return
        self.org(row.org_id)._insert(row)
        if (at := self.expires_at(row)) is not None:
            self._expire_at(at, row)

    def _assign(self, row: Row, values: Mapping[str, Any]) -> None:
        setters = _SET[type(row)]
        if _INDEXED_FIELDS[type(row)].isdisjoint(values):
            for name, value in values.items():
                setters[name](row, value)
            return
        rows, expires_at = self.orgs[row.org_id], self.expires_at(row)
        rows._unindex(row)
        for name, value in values.items():
            setters[name](row, value)
        rows._index(row)
        if (at := self.expires_at(row)) is not None and at != expires_at:
            self._expire_at(at, row)

    def _mark_removed(self, row: Row) -> None:
        self.changed.pop(row, None)
        self.removed[row] = None

    def _expire_at(self, at_ms: int, row: Row) -> None:
        self._pushes += 1
        heappush(self._expiring, (at_ms, self._pushes, row))

    def _list_event(self, org_id: str, row_id: str, at_ms: int) -> None:
        """List an event by its minute: there are too many of them for a heap with an entry for each."""
        by_org = self._events_by_minute.setdefault(floor_minute(at_ms), {})
        by_org.setdefault(org_id, []).append(row_id)


def event_memory(org_id: str, row_id: str, at_ms: int) -> EventMemory:
    """Return the row of an event, of which only the time is stored."""
    topic, _, event_id = row_id.partition("/")
    return EventMemory(org_id, topic, event_id, at_ms)


def day_start(day: str) -> int:
    """Return the start of a UTC day given as `2026-11-29`, in ms."""
    return (date.fromisoformat(day).toordinal() - _EPOCH_ORDINAL) * DAY_MS
