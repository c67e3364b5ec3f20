"""One partition's accountant with a hand-moved clock, for tests of instances.

After every record it runs the debug check of rows and indexes, and compares every window with B12, and every instance
with its meters (I2) and the limit (I5).
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from schemas.accounts import BalanceUpdated, OrgReinstated, OrgSuspended
from schemas.base import Wire
from schemas.changes import LifecycleChange
from schemas.clock import Tick
from schemas.commands import DeployInstance, DestroyInstance, StartInstance, StopInstance, Template
from schemas.orders import ExecletOrder, HostOrder
from schemas.reports import LaunchFailed, OtherReport
from schemas.results import CommandResult
from schemas.times import rfc3339
from streams.billing.prices import PriceRecord, Prices
from streams.billing.windows import Origin, figures
from streams.engine.check import RowCheck
from streams.engine.rowcodec import TYPES, RowReader, encode_row
from streams.rules.accountant import Accountant
from streams.rules.context import Switches
from streams.rules.decision import Dead, Decision
from streams.rules.rows import Instance, Org, Row, row_key
from streams.rules.store import RowStore
from tests.support.topics import topic_of

ORG: Final = "acme"
MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_MIDNIGHT: Final = int(datetime(2026, 11, 29, tzinfo=UTC).timestamp()) * 1_000
_TIME: Final = re.compile(r"(?:(\d+)d )?(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{3}))?)?")

METERS: Final = {"running": "gpu", "stopped": "disk"}


def at(text: str) -> int:
    """A time on the first day, or `1d 12:00` on the next one, in ms: `12:00`, `12:00:10`, `12:00:10.500`."""
    found = _TIME.fullmatch(text)
    assert found, text
    days, hours, minutes, seconds, millis = (int(part or 0) for part in found.groups())
    return _MIDNIGHT + days * DAY + hours * HOUR + minutes * MINUTE + seconds * 1_000 + millis


@dataclass
class Effect:
    """What one record did, in the short words in which tests write it."""

    result: CommandResult | None = None
    orders: list[str] = field(default_factory=list)  # `<instance>:<order>:<n>/<attempt>`
    changes: list[str] = field(default_factory=list)  # `<instance> <from>><to> <reason>`
    usage: list[str] = field(default_factory=list)  # `<usage id> <duration_ms>`
    told: list[LifecycleChange] = field(default_factory=list)
    profiles: Counter[tuple[str, int]] = field(default_factory=Counter)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    changed: list[Row] = field(default_factory=list)
    dead: Dead | None = None

    @property
    def ignored(self) -> int:
        """How many records were counted as ignored."""
        return sum(count for (kind, _), count in self.counts.items() if kind == "ignored")

    @property
    def answer(self) -> str:
        """A command's answer: `accepted`, or the code of its refusal."""
        assert self.result is not None
        return self.result.code or self.result.outcome

    @property
    def nothing(self) -> bool:
        """Whether nothing went out but a result."""
        return not (self.orders or self.changes or self.usage)


class World:
    """An org with a balance and prices: a GPU at 100 an hour, a GB of disk at 0.01."""

    def __init__(self, balance: str | None = "1000000", *, gpu: str | None = "100", disk: str | None = "0.01") -> None:
        self.prices = Prices()
        self.changelog: dict[tuple[str, bytes], bytes] = {}
        self.offsets: Counter[str] = Counter()
        self.usage: dict[str, int] = {}
        self.sent_commands = 0
        self.sent_events = 0
        self._start()
        if gpu is not None:
            self.price("instance.a100.1x", gpu)
        if disk is not None:
            self.price("disk", disk)
        if balance is not None:
            self.balance(balance, at("00:00"))

    # What happens

    def price(self, profile: str, price: str | None, now: int = 0) -> None:
        self.offsets["croesus.prices"] += 1
        self.prices.add(profile, PriceRecord(now, self.offsets["croesus.prices"], price))

    def deploy(self, instance_id: str, now: int, **fields: Any) -> Effect:
        given: dict[str, Any] = {"gpu_type": "a100", "gpu_count": 1, "disk_gb": 100, "gpus_releasable": True} | fields
        template = Template(mode="ssh", image="superheat/base:1")
        return self.apply(
            DeployInstance(
                command_id=self._command_id(),
                org_id=ORG,
                instance_id=instance_id,
                offer_id="offer-1",
                template=template,
                **given,
            ),
            now,
        )

    def start(self, instance_id: str, now: int) -> Effect:
        return self.apply(StartInstance(command_id=self._command_id(), org_id=ORG, instance_id=instance_id), now)

    def stop(self, instance_id: str, now: int) -> Effect:
        return self.apply(StopInstance(command_id=self._command_id(), org_id=ORG, instance_id=instance_id), now)

    def destroy(self, instance_id: str, now: int) -> Effect:
        return self.apply(DestroyInstance(command_id=self._command_id(), org_id=ORG, instance_id=instance_id), now)

    def command(self, name: str, instance_id: str, now: int) -> Effect:
        """`deploy`, `start`, `stop` or `destroy`."""
        commands = {"deploy": self.deploy, "start": self.start, "stop": self.stop, "destroy": self.destroy}
        return commands[name](instance_id, now)

    def report(self, instance_id: str, name: str, now: int, message: str | None = None) -> Effect:
        """A host's report; `launch_failed_before_host` is a `launch_failed` with `reached_host: false`."""
        fields: dict[str, Any] = {"event_id": self._event_id(), "org_id": ORG, "instance_id": instance_id}
        if name.startswith("launch_failed"):
            return self.apply(LaunchFailed(**fields, message=message, reached_host=name == "launch_failed"), now)
        return self.apply(OtherReport(**fields, message=message, report=name), now)  # type: ignore[arg-type] # a name of the table

    def balance(self, amount: str, now: int, sequence: int | None = None) -> Effect:
        return self.apply(BalanceUpdated(event_id=self._event_id(), org_id=ORG, balance=amount, sequence=sequence), now)

    def suspend(self, now: int) -> Effect:
        return self.apply(OrgSuspended(event_id=self._event_id(), org_id=ORG), now)

    def reinstate(self, now: int) -> Effect:
        return self.apply(OrgReinstated(event_id=self._event_id(), org_id=ORG), now)

    def tick(self, now: int) -> Effect:
        return self.apply(Tick(type="tick"), now)

    def ticks(self, first: int, last: int) -> Effect:
        """A tick every minute, from `first` to `last` inclusive; their effects together."""
        total = Effect()
        for now in range(first, last + 1, MINUTE):
            effect = self.tick(now)
            total.orders += effect.orders
            total.changes += effect.changes
            total.usage += effect.usage
        return total

    def restart(self) -> None:
        """Go on with rows taken from the changelog alone."""
        self._start()
        reader = RowReader()
        for table in TYPES:
            for (of, key), value in self.changelog.items():
                if of == table:
                    self.accountant.store.restore(reader.read(table, key, value))
                    self.row_check.restored(table, key, value)
        self.row_check.after_record(None)
        self.check()

    def _start(self) -> None:
        store = RowStore(7 * DAY)
        self.accountant = Accountant(store, self.prices, Switches())
        self.row_check = RowCheck(store)

    # What is seen

    def row(self, instance_id: str) -> Instance:
        return self.accountant.store.org(ORG).instances[instance_id]

    def state(self, instance_id: str) -> str:
        return str(self.row(instance_id).state.value)

    def windows_opened(self, instance_id: str, meter: str) -> int:
        return sum(count.opened for count in self.row(instance_id).window_counts if count.meter == meter)

    def meter(self, instance_id: str) -> str:
        """`gpu`, `disk` or `none`: what the open window measures."""
        windows = self.row(instance_id).open_windows
        return windows[0].meter if windows else "none"

    def apply(self, event: Wire, now: int) -> Effect:
        topic = topic_of(event)
        self.offsets[topic] += 1
        decision = Decision()
        dead = self.accountant.apply(event, Origin(topic, self.offsets[topic], now), decision)
        self.row_check.after_record(None)
        removed, changed = self.accountant.store.take_changes()
        for row in removed:
            self.changelog.pop((row.TABLE, row_key(row)), None)
        for row in changed:
            self.changelog[row.TABLE, row_key(row)] = encode_row(row)
        effect = self._read(decision, now)
        effect.changed = list(changed)
        effect.dead = dead
        self.check()
        return effect

    def check(self) -> None:
        """The invariants that hold after every record."""
        for org in self.accountant.store.orgs.values():
            assert sum(row.state.value != "destroyed" for row in org.instances.values()) <= 25
            for row in org.instances.values():
                metered = METERS.get(row.state.value)
                assert [window.meter for window in row.open_windows] == ([metered] if metered else [])
                for each in org.windows_of(row):
                    assert figures(each, each.billed_until).unexplained_ms == 0
                    assert each.last_health_check is None

    def _read(self, decision: Decision, now: int) -> Effect:
        effect = Effect(counts=Counter(decision.counts))
        for output in decision.outputs:
            message = output.message
            assert output.org_id == ORG
            match message:
                case HostOrder():
                    assert (output.topic, output.timestamp) == ("host.orders", now)
                    assert message.order_id.startswith(f"{message.instance_id}:{message.order}:")
                    effect.orders.append(f"{message.order_id}/{message.attempt}")
                case LifecycleChange(kind="instance"):
                    assert (output.topic, message.at) == ("lifecycle.changes", rfc3339(now))
                    effect.told.append(message)
                    effect.changes.append(f"{message.id} {message.from_ or ''}>{message.to} {message.reason}")
                case CommandResult():
                    assert output.topic == "command.results"
                    effect.result = message
                case bytes():
                    assert output.topic == "command.results"
                    effect.result = CommandResult.model_validate_json(message)
                case LifecycleChange() | ExecletOrder():
                    pass  # a deployment stands by where its replicas count in the burn
                case _:
                    raise AssertionError(message)
        for charge in decision.charges:
            window = charge.window
            meter = window.meter
            assert charge.start_ms < charge.end_ms
            assert charge.start_ms // MINUTE == (charge.end_ms - 1) // MINUTE, "a piece crosses a clock minute"
            assert charge.timestamp == now
            piece = f"{window.owner_id}:{meter}:{rfc3339(charge.start_ms)}"
            assert piece not in self.usage, "one id, sent twice"
            self.usage[piece] = charge.end_ms - charge.start_ms
            effect.usage.append(f"{window.owner_id}:{meter}:{short(charge.start_ms)} {charge.end_ms - charge.start_ms}")
            effect.profiles[window.profile, window.quantity] += charge.end_ms - charge.start_ms
        return effect

    def _command_id(self) -> str:
        self.sent_commands += 1
        return f"c-{self.sent_commands}"

    def _event_id(self) -> str:
        self.sent_events += 1
        return f"e-{self.sent_events}"


def short(ms: int) -> str:
    """The time of `ms` as `at` reads it, as short as it can be."""
    days, of_day = divmod(ms - _MIDNIGHT, DAY)
    text = rfc3339(_MIDNIGHT + of_day)[11:23]
    text = text.removesuffix(".000").removesuffix(":00") if text.endswith(":00.000") else text.removesuffix(".000")
    return f"{days}d {text}" if days else text


def org_row(world: World) -> Org:
    """The row of the org itself."""
    return world.accountant.store.org(ORG).org
