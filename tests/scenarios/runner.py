"""Plays a scenario and holds what comes of it against what its file says, line by line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import ndiff
from itertools import pairwise
from pathlib import Path
from typing import Any

from schemas.times import parse_rfc3339
from streams.billing.windows import Window, figures
from streams.lifecycle.replica import ReplicaStatus
from streams.rules.charging import held
from streams.rules.context import Switches
from streams.rules.decision import Note
from tests.scenarios.records import WHERE, record
from tests.scenarios.timeline import ORG, Step, read, to_clock
from tests.scenarios.world import Mode, Sent, World

# In this order a step's lines are compared: within a topic order counts, across topics Kafka has none.
KINDS = {"deployment": 0, "replica": 0, "instance": 0, "result": 1, "order": 2, "usage": 3, "dead": 4}


# The fields of the contract; an instance's change may say what went wrong, a refusal its code.
USAGE_FIELDS = {"id", "type", "org_id", "window_id", "profile", "quantity", "duration_ms"}
USAGE_FIELDS |= {"interval_start", "interval_end"}
CHANGE_FIELDS = {"event_id", "org_id", "kind", "id", "to", "reason", "at"}
RESULT_FIELDS = {"command_id", "org_id", "outcome", "status", "message", "at"}
ORDER_FIELDS = {"order_id", "org_id", "order"}


class Scenario:
    """One scenario being played."""

    def __init__(self, path: Path, mode: Mode) -> None:
        self.path = path
        self.world = World(mode)

    def play(self) -> None:
        """Play all of it."""
        for step in read(self.path):
            try:
                self._play(step)
                self._check_figures()
            except BaseException as error:
                error.add_note(f"{self.path.name}:{step.line}")
                raise
        check_outputs(self.world.sent)

    def _play(self, step: Step) -> None:
        settings = [act for act in step.acts if act.words[0] not in WHERE]
        for act in settings:
            self._set(act.words)
        sent = self.world.take([record(act, self.world.numbers) for act in step.acts if act not in settings])
        times = {act.at for act in step.acts}
        assert {message.timestamp for message in sent} <= times, "an output has the time of no record"
        told = [*tell(sent), *tell_counts(self.world.counts), *tell_notes(self.world.notes)]
        difference = "\n".join(ndiff(_sorted(step.sent), _sorted(told)))
        assert _sorted(told) == _sorted(step.sent), f"- as written, + as it came:\n{difference}"
        for line, question in step.state:
            subject, _, expected = question.partition(": ")
            found = self._state(subject, expected)
            assert found == expected, f"line {line}:\n- {expected}\n+ {found}"

    def _set(self, words: list[str]) -> None:
        match words:
            case ["billing", "on"]:
                self.world.set(Switches(billing_enabled=True))
            case ["billing", "off"]:
                self.world.set(Switches(billing_enabled=False))
            case ["billing", "on", "dry-run"]:
                self.world.set(Switches(billing_enabled=True, dry_run=True))
            case ["billing", "off", "dry-run"]:
                self.world.set(Switches(billing_enabled=False, dry_run=True))
            case ["retention", hours]:
                self.world.set(retention_h=int(hours.removesuffix("h")))
            case ["restart"]:
                self.world.set()
            case _:
                msg = f"unknown words: {words}"
                raise AssertionError(msg)

    def _state(self, subject: str, expected: str) -> str:
        kind, *rest = subject.split()
        if kind == "usage":
            events = [each.value for each in self.world.sent if each.value.get("window_id") == rest[0]]
            return f"events={len(events)} ms={sum(event['duration_ms'] for event in events)}"
        org_id, _, row_id = (rest[0] if rest else "").rpartition("/")
        rows = self.world.store.org(org_id or ORG)
        find: dict[str, Callable[[str], Any]] = {
            "deployment": rows.deployments.get,
            "replica": rows.replicas.get,
            "instance": rows.instances.get,
            "window": rows.windows.get,
            "org": lambda _: rows.org,
        }
        row = find[kind](row_id)
        if row is None:
            return "gone"
        shown: dict[str, Any] = {}
        if isinstance(row, Window):
            shown |= figures(row, self.world.as_of)._asdict()
            shown["held"] = held(row, self.world.prices, self.world.switches, self.world.as_of)
        elif kind == "replica":
            shown["last_health_check"] = row.health_checked_at
        elif kind == "deployment":
            replicas = [each for each in rows.replicas.values() if each.deployment_id == row_id]
            shown["replicas"] = ",".join(sorted(f"{each.replica_id}:{each.status}" for each in replicas)) or None
        names = [pair.partition("=")[0] for pair in expected.split()] if expected != "gone" else []
        return " ".join(f"{name}={_plain(name, shown.get(name, getattr(row, name, None)))}" for name in names)

    def _check_figures(self) -> None:
        """B12 of every window, and so of their sum, and R5, after every step."""
        for rows in self.world.store.orgs.values():
            for window in rows.windows.values():
                part = figures(window, self.world.as_of)
                assert part.unexplained_ms == 0, f"{window.window_id} {part}"
                assert min(part) >= 0, f"{window.window_id} {part}"
            for deployment in rows.deployments.values():
                running = [
                    replica
                    for replica in rows.replicas.values()
                    if replica.deployment_id == deployment.deployment_id and replica.status is ReplicaStatus.RUNNING
                ]
                assert deployment.current_replicas == len(running), "R5"


def check_outputs(sent: Sequence[Sent]) -> None:
    """What holds of every scenario's output: ids follow from content, and stand for one thing each."""
    changes: dict[tuple[str, str, str], int] = {}
    orders: set[tuple[str, str]] = set()
    pieces: dict[tuple[str, str], list[tuple[int, int]]] = {}
    ids: set[tuple[str, str]] = set()
    results: dict[tuple[str, str, str], bytes] = {}
    for topic, _, key, value, raw in sent:
        if topic == "dead.letters":
            continue
        assert key == value["org_id"]
        if topic == "lifecycle.changes":
            wrong = {"error_code", "error_message"} if value["kind"] == "instance" else set()
            assert set(value) - wrong - {"from"} == CHANGE_FIELDS
            entity = (key, value["kind"], value["id"])
            changes[entity] = changes.get(entity, 0) + 1
            assert value["event_id"] == f"{value['kind']}:{value['id']}:{changes[entity]}"
        elif topic == "command.results":
            assert set(value) - {"target"} == RESULT_FIELDS | ({"code"} if value["outcome"] == "rejected" else set())
            first = results.setdefault((key, value["command_id"], value["at"]), raw)
            assert raw == first, "a command's result changed"
        elif topic == "execlet.orders":
            job = {"model", "gpu_type", "gpu_count"} if value["order"] == "submit_job" else set()
            assert set(value) == ORDER_FIELDS | {"deployment_id", "replica_id"} | job
            assert value["order_id"] == f"{value['replica_id']}:{value['order']}"
            assert (key, value["order_id"]) not in orders, "an order went out twice"
            orders.add((key, value["order_id"]))
        elif topic == "croesus.usage":
            dedicated = value["type"] == "dedicated_inference_running"
            assert set(value) == USAGE_FIELDS | ({"deployment_id", "replica_id"} if dedicated else {"instance_id"})
            assert value["quantity"] == 1 or value["type"] == "instance_disk_stopped"
            start, end = parse_rfc3339(value["interval_start"]), parse_rfc3339(value["interval_end"])
            assert value["id"] == f"{_meter(value)}:{value['interval_start']}"
            assert (key, value["id"]) not in ids, "a usage id went out twice"
            ids.add((key, value["id"]))
            assert 0 < value["duration_ms"] == end - start <= 60_000
            assert start // 60_000 == (end - 1) // 60_000, "a piece crosses a clock minute"
            pieces.setdefault((key, value["window_id"]), []).append((start, end))
    for intervals in pieces.values():
        assert all(before[1] == after[0] for before, after in pairwise(intervals)), "a gap, or out of order"


def _meter(value: dict[str, Any]) -> str:
    match value["type"]:
        case "dedicated_inference_running":
            return str(value["replica_id"])
        case "instance_gpu_running":
            return f"{value['instance_id']}:gpu"
        case _:
            return f"{value['instance_id']}:disk"


def tell(sent: Sequence[Sent]) -> Iterator[str]:
    """Outputs as a scenario has them; the usage events of one window in a row are one line."""
    usage: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for topic, timestamp, key, value, _ in sent:
        name = "" if key == ORG else f"{key}/"
        match topic:
            case "lifecycle.changes":
                assert parse_rfc3339(value["at"]) == timestamp
                from_ = f"{value['from']} " if "from" in value else ""
                yield f"{value['kind']} {name}{value['id']} {from_}-> {value['to']} ({value['reason']})"
            case "command.results":
                how = value.get("code") or value["outcome"]
                target = f" {value['target']}" if "target" in value else ""
                yield f"result {name}{value['command_id']}{target} {how} {value['status']} at {_at(value['at'])}"
            case "execlet.orders":
                hardware = f" {value['model']} {value['gpu_type']}x{value['gpu_count']}" if "model" in value else ""
                yield f"order {value['order']} {name}{value['replica_id']}{hardware}"
            case "host.orders":
                yield f"order {value['order']} {name}{value['instance_id']} attempt {value['attempt']}"
            case "croesus.usage":
                usage.setdefault((name, value["window_id"]), []).append(value)
            case "dead.letters":
                yield f"dead {value['reason']}"
            case _:
                msg = f"a scenario has no words for {topic}"
                raise AssertionError(msg)
    for (name, window_id), events in usage.items():
        start, end = _at(events[0]["interval_start"]), _at(events[-1]["interval_end"])
        total = sum(event["duration_ms"] for event in events)
        profiles = {event["profile"] for event in events}
        yield f"usage {name}{window_id} {'+'.join(profiles)} {start}..{end} {len(events)} events {total} ms"


def tell_counts(counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """What was counted: ignored records by reason, duplicates and late ones by topic, what was overbilled."""
    for (kind, detail), number in counts.items():
        if number:
            yield f"{kind} {detail}" + (f" {number}" if number != 1 else "")


def tell_notes(notes: Sequence[Note]) -> Iterator[str]:
    """What the log says, its times short."""
    for note in notes:
        fields = [
            f"{name}={_plain(name, value)}" for name, value in note.fields.items() if name not in {"id", "org_id"}
        ]
        yield f"log {note.level}: {note.event}: {' '.join(fields)}"


def _sorted(lines: Sequence[str]) -> list[str]:
    return sorted(lines, key=lambda line: KINDS.get(line.split()[0], len(KINDS)))


def _at(text: str) -> str:
    return to_clock(parse_rfc3339(text))


def _plain(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and name.endswith(("_at", "_until", "_check")):
        return to_clock(value)
    if isinstance(value, str) and name.startswith("interval_"):
        return _at(value)
    return str(value)
