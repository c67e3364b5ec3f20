"""The book: all rows of one partition, with the look-ups that the rules need, derived from the rows alone."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from streams.billing.minutes import floor_minute
from streams.billing.prices import DISK_PROFILE, instance_profile
from streams.billing.windows import Window, WindowMeter
from streams.lifecycle import deployment as deployments
from streams.lifecycle import replica as replicas
from streams.lifecycle.instance import InstanceState
from streams.limits import DEDUPE_MS
from streams.rules.rows import Answer, Deployment, Instance, Org, Replica, Row, Seen

_replica_id = attrgetter("replica_id")
_window_id = attrgetter("window_id")
_opened_at = attrgetter("opened_at")


class OrgBook:
    """One org's rows. Everything is looked up within its org (contract). Of an event, only its time is kept (C4).

    Derived: `created` (deployments in that status), `live` (the replicas of each deployment that are not terminal),
    `held` (instances that are not destroyed), `units` (how many of each profile the burn of I6 counts), and the windows
    that are not done, in order of their ids.
    """

    __slots__ = (
        "answers",
        "closed",
        "created",
        "deployments",
        "due_dedicated",
        "due_metered",
        "events",
        "held",
        "instances",
        "live",
        "org",
        "replicas",
        "units",
    )

    def __init__(self, org: Org) -> None:
        self.org = org
        self.deployments: dict[str, Deployment] = {}
        self.replicas: dict[str, Replica] = {}
        self.instances: dict[str, Instance] = {}
        self.closed: dict[str, Window] = {}
        self.answers: dict[str, Answer] = {}
        self.events: dict[str, int] = {}
        self.created: dict[str, Deployment] = {}
        self.live: dict[str, list[Replica]] = {}
        self.held: dict[str, Instance] = {}
        self.units: Counter[str] = Counter()
        self.due_dedicated: list[Window] = []
        self.due_metered: list[Window] = []

    def due(self, meter: WindowMeter) -> list[Window]:
        """The windows still to be billed on the side of `meter`, in order of window id."""
        return self.due_dedicated if meter is WindowMeter.DEDICATED else self.due_metered

    def add_due(self, window: Window) -> None:
        """`window` is open, or closed with something left to bill."""
        insort(self.due(window.meter), window, key=_window_id)

    def drop_due(self, window: Window) -> None:
        """`window` is done."""
        due = self.due(window.meter)
        at = bisect_left(due, window.window_id, key=_window_id)
        if at < len(due) and due[at] is window:
            del due[at]

    def add_live(self, replica: Replica) -> None:
        """`replica` is not terminal."""
        insort(self.live.setdefault(replica.deployment_id, []), replica, key=_replica_id)

    def live_of(self, deployment_id: str) -> list[Replica]:
        """The deployment's replicas that are not terminal, in order of their ids."""
        return self.live.get(deployment_id, [])

    def window(self, window_id: str) -> Window | None:
        """The window of that id, closed or open."""
        if window_id in self.closed:
            return self.closed[window_id]
        owner = self._owner(window_id)
        open_window = owner.window if owner is not None else None
        return open_window if open_window is not None and open_window.window_id == window_id else None

    @property
    def is_blank(self) -> bool:
        """Nothing is known of the org any more: it is as if it had never been heard of."""
        org = self.org
        return (
            not any((self.deployments, self.replicas, self.instances, self.closed, self.answers, self.events))
            and org.balance is None
            and not org.suspended
        )

    def table(self, name: str) -> dict[str, Any]:
        """The rows of one table by id; `orgs` has none here, an org's row never leaves."""
        tables: dict[str, dict[str, Any]] = {
            Deployment.TABLE: self.deployments,
            Replica.TABLE: self.replicas,
            Instance.TABLE: self.instances,
            Window.TABLE: self.closed,
            Answer.TABLE: self.answers,
            Seen.TABLE: self.events,
        }
        return tables[name]

    def windows_of(self, owner: Replica | Instance) -> list[Window]:
        """All windows of a replica or an instance, oldest first; of an instance, its GPU and disk windows together."""
        if isinstance(owner, Replica):
            ids = [f"{owner.replica_id}.w{n}" for n in range(1, owner.windows_made + 1)]
        else:
            ids = [f"{owner.instance_id}.gpu.w{n}" for n in range(1, owner.gpu_windows_made + 1)]
            ids += [f"{owner.instance_id}.disk.w{n}" for n in range(1, owner.disk_windows_made + 1)]
        windows = [self.closed[window_id] for window_id in ids if window_id in self.closed]
        if owner.window is not None:
            windows.append(owner.window)
        return sorted(windows, key=_opened_at)

    def windows(self) -> list[Window]:
        """Every window of the org, closed and open, in no order."""
        return [
            *self.closed.values(),
            *(row.window for row in self.replicas.values() if row.window is not None),
            *(row.window for row in self.instances.values() if row.window is not None),
        ]

    def fresh_units(self) -> Counter[str]:
        """What `units` must equal at every tick: summed anew (I6).

        A dedicated replica counts while it is running, which is while its window is open.
        """
        units = Counter(window.profile for window in self.due_dedicated if window.ended_at is None)
        for instance in self.held.values():
            units.update(instance_units(instance))
        return units

    def count_units(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """One entity's part of the burn changes from `before` to `after`."""
        for profile, count in before.items():
            self.units[profile] -= count
            if not self.units[profile]:
                del self.units[profile]
        for profile, count in after.items():
            self.units[profile] += count

    def _owner(self, window_id: str) -> Replica | Instance | None:
        owner_id, _, _ = window_id.rpartition(".w")
        if owner_id in self.replicas:
            return self.replicas[owner_id]
        return self.instances.get(owner_id.rpartition(".")[0])


def instance_units(instance: Instance) -> dict[str, int]:
    """What an instance adds to the burn (I6): GPU and disk while running, starting or creating, disk while stopped."""
    match instance.state:
        case InstanceState.RUNNING | InstanceState.STARTING | InstanceState.CREATING:
            return {instance_profile(instance.gpu_type, instance.gpu_count): 1, DISK_PROFILE: instance.disk_gb}
        case InstanceState.STOPPED:
            return {DISK_PROFILE: instance.disk_gb}
        case InstanceState.STOPPING | InstanceState.DESTROYING | InstanceState.DESTROYED | InstanceState.ERROR:
            return {}


class Book:
    """All rows of one partition. `restore` takes a row back from its changelog; `settle` follows the last of them."""

    def __init__(self, retention_ms: int) -> None:
        self.orgs: dict[str, OrgBook] = {}
        self.retention_ms = retention_ms
        self._expiring: list[tuple[int, int, Row]] = []
        self._ticket = 0
        self._seen: dict[int, dict[str, list[str]]] = {}

    def org(self, org_id: str) -> OrgBook:
        """The org's rows, begun when it is new."""
        book = self.orgs.get(org_id)
        if book is None:
            book = self.orgs[org_id] = OrgBook(Org(org_id))
        return book

    def restore(self, row: Row) -> None:
        """Take `row` as its changelog has it, in place of an earlier one of its key; `settle` must follow."""
        book = self.org(row.org_id)
        match row:
            case Org():
                book.org = row
            case Deployment():
                book.deployments[row.deployment_id] = row
            case Replica():
                book.replicas[row.replica_id] = row
            case Instance():
                book.instances[row.instance_id] = row
            case Window():
                book.closed[row.window_id] = row
            case Answer():
                book.answers[row.command_id] = row
            case Seen():
                book.events[row.row_id] = row.at

    def forget(self, table: str, org_id: str, row_id: str) -> None:
        """The changelog says that this row left its table; unknown ones are no error."""
        book = self.orgs.get(org_id)
        if book is not None and table != Org.TABLE:
            book.table(table).pop(row_id, None)

    def settle(self) -> None:
        """Derive, once after a restore, all that is not kept in rows."""
        self._expiring.clear()
        self._seen.clear()
        for book in self.orgs.values():
            self._settle_org(book)

    def _settle_org(self, book: OrgBook) -> None:
        book.live.clear()
        for replica in book.replicas.values():
            if replica.status not in replicas.TERMINAL:
                book.add_live(replica)
            elif replica.ended_at is not None:
                self.expire_at(replica.ended_at + self.retention_ms, replica)
        book.held = {key: row for key, row in book.instances.items() if row.state is not InstanceState.DESTROYED}
        for row in book.instances.values():
            if row.ended_at is not None:
                self.expire_at(row.ended_at + self.retention_ms, row)
        book.created = {
            key: row for key, row in book.deployments.items() if row.status is deployments.DeploymentStatus.CREATED
        }
        for deployment in book.deployments.values():
            if deployment.status in deployments.TERMINAL and deployment.ended_at is not None:
                self.expire_at(deployment.ended_at + self.retention_ms, deployment)
        self._settle_memory(book)
        unfinished = [window for window in book.closed.values() if not window.done]
        unfinished += [row.window for row in book.replicas.values() if row.window is not None]
        unfinished += [row.window for row in book.instances.values() if row.window is not None]
        unfinished.sort(key=_window_id)
        book.due_dedicated = [window for window in unfinished if window.meter is WindowMeter.DEDICATED]
        book.due_metered = [window for window in unfinished if window.meter is not WindowMeter.DEDICATED]
        book.units = book.fresh_units()

    def _settle_memory(self, book: OrgBook) -> None:
        for answer in book.answers.values():
            self.expire_at(answer.at + DEDUPE_MS, answer)
        for event, at_ms in book.events.items():
            self.note_event(book.org.org_id, event, at_ms)

    def expire_at(self, at_ms: int, row: Row) -> None:
        """`row` may leave its table at the first tick at or after `at_ms` (C1, C5)."""
        self._ticket += 1
        heappush(self._expiring, (at_ms, self._ticket, row))

    def note_event(self, org_id: str, event: str, at_ms: int) -> None:
        """`event` (`<topic>/<event_id>`) was taken in at `at_ms`. There are many, so they are listed by minute."""
        self._seen.setdefault(floor_minute(at_ms), {}).setdefault(org_id, []).append(event)

    def expired_events(self, now_ms: int) -> Iterator[Seen]:
        """Events that are 24 h past, each once; one that was taken in anew since then stays (C4)."""
        for minute in [minute for minute in self._seen if minute + DEDUPE_MS <= now_ms]:
            for org_id, events in self._seen.pop(minute).items():
                for event in events:
                    at_ms = self.orgs[org_id].events.get(event) if org_id in self.orgs else None
                    if at_ms is None or floor_minute(at_ms) != minute:
                        continue
                    if at_ms + DEDUPE_MS > now_ms:
                        self.note_event(org_id, event, at_ms)
                        continue
                    topic, _, event_id = event.partition("/")
                    yield Seen(org_id, topic, event_id, at_ms)

    def expired(self, now_ms: int) -> Iterator[Row]:
        """Rows whose time has come, oldest first; each is handed out once."""
        while self._expiring and self._expiring[0][0] <= now_ms:
            yield heappop(self._expiring)[2]
