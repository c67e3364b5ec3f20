"""Obol without a broker, for tests of the stand-ins: the rules over one partition, and its views."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from schemas.prices import Price, PriceRemoved
from sim.records import CURRENCY, Record
from sim.stage import Output
from streams.billing.prices import PriceRecord, Prices
from streams.billing.usage import encode_usage
from streams.billing.windows import Origin
from streams.rules.accountant import Accountant
from streams.rules.context import Switches
from streams.rules.decision import Dead, Decision
from streams.rules.store import OrgRows, RowStore
from streams.web import explain, shapes, usage
from topics import catalogue, codec

WEEK_MS = 7 * 24 * 3_600_000


class Platform:
    """Applies records in order of time, with all orgs in one partition, and yields Obol's outputs."""

    def __init__(self) -> None:
        self.prices = Prices()
        self.accountant = Accountant(RowStore(WEEK_MS), self.prices, Switches(billing_enabled=True))
        self.dead: list[Dead] = []
        self.rejected: list[codec.Rejected] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self._offset = 0

    def apply(self, record: Record) -> Iterator[Output]:
        """Apply one record. Of the ticks, only those of partition 0 are applied."""
        self._offset += 1
        if record.topic == catalogue.PRICES.name:
            self._price(record)
            return
        if record.topic == catalogue.CLOCK.name and record.partition:
            return
        event = codec.decode(catalogue.TOPICS[record.topic], record.value)
        if isinstance(event, codec.Rejected):
            self.rejected.append(event)
            return
        decision = Decision()
        dead = self.accountant.apply(event, Origin(record.topic, self._offset, record.timestamp_ms), decision)
        if dead is not None:
            self.dead.append(dead)
        self.counts.update(decision.counts)
        for (_, _, _, timestamp), value in zip(decision.charges, encode_usage(decision.charges), strict=True):
            yield Output(catalogue.USAGE.name, timestamp, value)
        for output in decision.outputs:
            value = output.message if isinstance(output.message, bytes) else codec.encode(output.message)
            yield Output(output.topic, output.timestamp, value)

    def _price(self, record: Record) -> None:
        key = None if record.key is None else record.key.encode()
        [price] = codec.decode_prices([(key, record.value)], CURRENCY)
        if isinstance(price, codec.Rejected):
            self.rejected.append(price)
        elif isinstance(price, Price):
            self.prices.add(price.profile, PriceRecord(record.timestamp_ms, self._offset, price.price))
        elif isinstance(price, PriceRemoved):
            self.prices.add(price.profile, PriceRecord(record.timestamp_ms, self._offset, None))


class PlatformViews:
    """The views of a `Platform` that the demo reads."""

    def __init__(self, platform: Platform, as_of: int) -> None:
        self._store = platform.accountant.store
        self._valuation = shapes.Valuation(platform.prices, platform.accountant.switches, 0, as_of)

    def get(self, path: str) -> dict[str, Any]:
        _, _, org, *rest = urlsplit(path).path.split("/")
        rows = self._store.orgs[org]
        match rest:
            case []:
                return shapes.org(self._valuation, rows)
            case [name]:
                return {"items": list(self._items(rows, name)), "next": None}
            case [kind, entity_id]:
                return self._entity(rows, kind, entity_id)
        msg = f"no view at {path}"
        raise LookupError(msg)

    def _items(self, rows: OrgRows, name: str) -> Iterable[dict[str, Any]]:
        match name:
            case "deployments":
                return (self._deployment(rows, one) for one in rows.deployments)
            case "instances":
                return (shapes.instance(self._valuation, rows, row) for row in rows.instances.values())
            case "usage":
                return map(usage.item, usage.rows_of(rows, usage.Span("1970-01-01", "9999-12-31")))
        raise LookupError(name)

    def _entity(self, rows: OrgRows, kind: str, entity_id: str) -> dict[str, Any]:
        match kind:
            case "deployments":
                return self._deployment(rows, entity_id)
            case "replicas":
                return shapes.replica(self._valuation, rows, rows.replicas[entity_id])
            case "instances":
                return shapes.instance(self._valuation, rows, rows.instances[entity_id])
            case "explain":
                asked = explain.read_usage_id(entity_id)
                piece = explain.evaluate(self._valuation, rows, rows.replicas[asked.owner_id], asked)
                return explain.explain(self._valuation, entity_id, rows.org.org_id, piece, CURRENCY, None)
        raise LookupError(kind)

    def _deployment(self, org: OrgRows, name: str) -> dict[str, Any]:
        return shapes.deployment(org.deployments[name], shapes.replicas_of(org, name)[name])
