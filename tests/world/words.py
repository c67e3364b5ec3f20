"""Describes the outputs of a step in the format of a timeline."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.times import parse_rfc3339
from streams.rules.decision import LogLine
from tests.world.timeline import ORG, to_clock
from tests.world.world import Sent, World

# The order in which a step's lines are compared: Kafka has an order within a topic, but none across topics.
KINDS = {
    "deployment": 0,
    "replica": 0,
    "instance": 0,
    "result": 1,
    "order": 2,
    "usage": 3,
    "credit": 4,
    "notice": 5,
    "dead": 6,
}

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def describe_step(world: World) -> list[str]:
    """Return the lines of the last step: outputs by topic, counts and log lines."""
    lines = [*describe(world.sent), *describe_counts(world.counts), *describe_log_lines(world.log_lines)]
    return by_kind(lines)


def by_kind(lines: Sequence[str]) -> list[str]:
    """Return the lines in the order in which they are compared."""
    return sorted(lines, key=lambda line: KINDS.get(line.split()[0], len(KINDS)))


def describe(sent: Sequence[Sent]) -> Iterator[str]:  # noqa: C901 - one case for each topic
    """Yield a line for each output; consecutive usage events of one window are one line."""
    usage: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for topic, timestamp, key, value, _ in sent:
        name = "" if key == ORG else f"{key}/"
        match topic:
            case "lifecycle.changes":
                assert parse_rfc3339(value["at"]) == timestamp
                from_ = f"{value['from']} " if "from" in value else ""
                error = f" {value['error_code']}: {value['error_message']}" if "error_code" in value else ""
                yield f"{value['kind']} {name}{value['id']} {from_}-> {value['to']} ({value['reason']}){error}"
            case "command.results":
                how = value.get("code") or value["outcome"]
                target = f" {value['target']}" if "target" in value else ""
                yield f"result {name}{value['command_id']}{target} {how} {value['status']} at {_at(value['at'])}"
            case "execlet.orders":
                hardware = f" {value['model']} {value['gpu_type']}x{value['gpu_count']}" if "model" in value else ""
                attempt = f" attempt {value['attempt']}" if value["attempt"] > 1 else ""
                yield f"order {value['order']} {name}{value['replica_id']}{hardware}{attempt}"
            case "host.orders":
                yield f"order {value['order']} {name}{value['instance_id']} attempt {value['attempt']}"
            case "croesus.usage":
                usage.setdefault((name, value["window_id"]), []).append(value)
            case "croesus.credits":
                span = f"{_at(value['interval_start'])}..{_at(value['interval_end'])} {value['duration_ms']} ms"
                note = f" note={value['note']}" if "note" in value else ""
                taken_from = value["usage_id"].rpartition(":")[0] and _at(value["usage_id"][-24:])
                labels = f" {_labels(value)}" if "labels" in value else ""
                yield f"credit {name}{value['window_id']} {value['reason']} {span} of {taken_from}{labels}{note}"
            case "org.notices":
                threshold = f" {value['threshold_s']} s" if "threshold_s" in value else ""
                runway = f" runway {value['runway_s']} s" if "runway_s" in value else ""
                money = f"balance {value['balance']} burn {value['burn_per_hour']}{runway}"
                assert parse_rfc3339(value["at"]) == timestamp
                yield f"notice {name}{value['notice_id'].rpartition(':')[2]} {value['kind']}{threshold} {money}"
            case "dead.letters":
                yield f"dead {value['reason']}"
            case _:
                msg = f"a timeline has no format for {topic}"
                raise AssertionError(msg)
    for (name, window_id), events in usage.items():
        start, end = _at(events[0]["interval_start"]), _at(events[-1]["interval_end"])
        total = sum(event["duration_ms"] for event in events)
        (profile,) = {event["profile"] for event in events}
        (quantity,) = {event["quantity"] for event in events}
        many = f" x{quantity}" if quantity != 1 else ""
        (labels,) = {_labels(event) for event in events}
        many += f" {labels}" if labels else ""
        yield f"usage {name}{window_id} {profile}{many} {start}..{end} {len(events)} events {total} ms"


def describe_counts(counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yield a line for each count: ignored records by reason, duplicates and late ones by topic, overbilled time."""
    for (kind, detail), number in counts.items():
        yield f"{kind} {detail}" + (f" {number}" if number != 1 else "")


def describe_log_lines(lines: Sequence[LogLine]) -> Iterator[str]:
    """Yield the log lines, with short times."""
    for line in lines:
        fields = [f"{name}={plain(value)}" for name, value in line.fields.items() if name not in {"id", "org_id"}]
        yield f"log {line.level}: {line.event}: {' '.join(fields)}"


def plain(value: Any) -> str:  # noqa: PLR0911 - one case for each kind of value
    """Return a view's value in the format of a timeline: None is `-`, a time is short, a list is comma-separated."""
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case list():
            return ",".join(map(plain, value)) or "-"
        case {"replica_id": replica_id, "status": status}:
            return f"{replica_id}:{status}"
        case dict():
            return ",".join(f"{key}:{text}" for key, text in value.items()) or "-"
        case str() if _TIME.fullmatch(value):
            return _at(value)
        case _:
            return str(value)


def _labels(value: Mapping[str, Any]) -> str:
    return ",".join(f"{key}:{text}" for key, text in value.get("labels", {}).items())


def _at(text: str) -> str:
    return to_clock(parse_rfc3339(text))
