"""Converts the acts of a timeline to records of the contract."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from schemas.times import rfc3339
from tests.world.timeline import Act, to_ms


class Record(NamedTuple):
    """A record to be sent."""

    topic: str
    timestamp: int
    key: str
    value: bytes


TOPIC_OF = {
    "create": "user.commands",
    "stop": "user.commands",
    "deploy": "user.commands",
    "start_instance": "user.commands",
    "stop_instance": "user.commands",
    "destroy_instance": "user.commands",
    "command": "user.commands",
    "credit": "operator.commands",
    "request": "inference.requests",
    "progress": "execlet.progress",
    "flagged": "execlet.progress",
    "pulling": "execlet.progress",
    "server": "execlet.progress",
    "healthy": "execlet.progress",
    "restarting": "execlet.progress",
    "failed": "execlet.progress",
    "system_failure": "execlet.progress",
    "vm_crash": "execlet.progress",
    "report": "host.reports",
    "heartbeat": "execlet.heartbeats",
    "balance": "croesus.accounts",
    "suspend": "croesus.accounts",
    "reinstate": "croesus.accounts",
    "price": "croesus.prices",
    "tick": "obol.clock",
}

CALLBACKS = {
    "pulling": ("STARTING", "Pulling image..."),
    "server": ("STARTING", "Model server is starting..."),
    "healthy": ("RUNNING", "All containers are healthy"),
    "restarting": ("RESTARTING", ""),
    "failed": ("FAILED", "exit 1"),
    "system_failure": ("SYSTEM_FAILURE", "exit 137"),
    "vm_crash": ("VM_CRASH", ""),
}

SHORT = {"min": "min_replicas", "idle": "idle_timeout_s", "gpu": "gpu_type", "count": "gpu_count"}
SHORT |= {"disk": "disk_gb", "releasable": "gpus_releasable"}
CONSTANTS = {"true": True, "false": False, "null": None}


class Numbers:
    """Generates ids where a timeline has none: c1, c2, … for commands, e1, e2, … for events."""

    def __init__(self) -> None:
        self._commands = count(1)
        self._events = count(1)

    def command(self, named: str | None) -> str:
        return named or f"c{next(self._commands)}"

    def event(self, named: str | None) -> str:
        return named or f"e{next(self._events)}"


def record(act: Act, numbers: Numbers) -> Record:
    """Return the record of one act."""
    verb, *words = act.words
    topic = TOPIC_OF[verb]
    if topic == "obol.clock":
        # `tick at=12:00`: with the writer's own clock.
        written = {name: to_ms(value) for name, _, value in (word.partition("=") for word in words)}
        return Record(topic, act.at, "", json.dumps({"type": "tick"} | written, separators=(",", ":")).encode())
    if topic == "croesus.prices":
        profile, price, *rest = words
        body = {"profile": profile, "price": price, "currency": rest[0] if rest else "JPY"}
        return Record(topic, act.at, profile, b"" if price == "none" else json.dumps(body).encode())
    named = words[words.index("as") + 1] if "as" in words else None
    if named:
        del words[words.index("as") :]
    if topic == "user.commands":
        fields = {"command_id": numbers.command(named)} | dict(_command(verb, words))
    elif topic == "operator.commands":
        fields = {"command_id": numbers.command(named), "type": "credit_window", "window_id": words[0]}
        fields |= {
            # A clock of the timeline, or a time as it is on the wire.
            name: rfc3339(to_ms(value)) if name in {"from", "until"} and "T" not in value.upper() else value
            for name, value in ((word.partition("=")[0], word.partition("=")[2]) for word in words[1:])
        }
    elif topic == "inference.requests":
        fields = {"deployment_id": words[0]} | dict(_options(words[1:]))
    elif topic == "execlet.heartbeats":
        fields = {"replica_id": words[0]}
    elif topic == "execlet.progress":
        fields = {"event_id": numbers.event(named), "replica_id": words[0]} | _callback(verb, words)
    elif topic == "host.reports":
        fields = {"event_id": numbers.event(named), "instance_id": words[0], "report": words[1]}
        fields |= dict(_options(words[2:]))
    else:
        fields = {"event_id": numbers.event(named)} | dict(_account(verb, words))
    return Record(topic, act.at, act.org_id, json.dumps(fields | {"org_id": act.org_id}).encode())


def _callback(verb: str, words: list[str]) -> dict[str, Any]:
    if verb == "flagged":
        # `flagged d1-r1 RUNNING false all healthy`: with the field `healthy`.
        flag = int(words[2]) if words[2].isdigit() else CONSTANTS.get(words[2], words[2])
        return {"status": words[1], "healthy": flag, "message": " ".join(words[3:])}
    status, message = CALLBACKS.get(verb) or (words[1], " ".join(words[2:]))
    return {"status": status, "message": message}


def _command(verb: str, words: list[str]) -> Iterator[tuple[str, Any]]:
    if verb == "command":
        # Any command, field by field: `command type=create_deployment deployment_id=7`.
        yield from _options(words)
        return
    if verb.endswith("_instance"):
        yield "type", verb
        yield "instance_id", words[0]
        return
    if verb == "deploy":
        yield "type", "deploy_instance"
        yield from {"instance_id": words[0], "offer_id": "o-1", "gpu_type": "h100", "gpu_count": 1}.items()
        yield from {"disk_gb": 100, "template": {"mode": "ssh", "image": "base:1"}}.items()
        for name, value in _options(words[1:]):
            yield SHORT.get(name, name), value
        return
    yield "type", f"{verb}_deployment"
    yield "deployment_id", words[0]
    if verb == "create":
        yield "model", "llama-3-8b"
        yield "gpu_type", "h100"
        yield "gpu_count", 1
        for name, value in _options(words[1:]):
            yield SHORT.get(name, name), value


def _account(verb: str, words: list[str]) -> Iterator[tuple[str, Any]]:
    if verb != "balance":
        yield "type", f"org_{verb}ed" if verb == "suspend" else "org_reinstated"
        return
    yield "type", "balance_updated"
    yield "balance", words[0]
    yield from _options(words[1:])


def _options(words: list[str]) -> Iterator[tuple[str, Any]]:
    for word in words:
        name, _, value = word.partition("=")
        if name == "labels":
            yield name, dict(pair.split(":", 1) for pair in value.split(",") if pair)
            continue
        yield name, int(value) if value.lstrip("-").isdigit() else CONSTANTS.get(value, value)
