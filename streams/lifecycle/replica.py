"""The replica's state machine: what a progress callback does in each status (rules R1 to R4)."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from streams.lifecycle.machine import Machine, Stay


class ReplicaStatus(StrEnum):
    """The status of a replica (R1). `failed` and `stopped` are terminal."""

    PENDING = "pending"
    PULLING = "pulling_docker_image"
    INITING = "initing_docker_container"
    RUNNING = "running"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class Signal(StrEnum):
    """The meaning of a progress callback: its status and its message, read together (R2, R3)."""

    PULLING_IMAGE = "pulling_image"
    MODEL_SERVER = "model_server"
    HEALTHY = "healthy"
    RESTARTING = "restarting"
    FAILED = "failed"
    SYSTEM_FAILURE = "system_failure"
    VM_CRASH = "vm_crash"


class FailReason(StrEnum):
    """Why a replica failed (R3)."""

    IMAGE_PULL_FAILED = "image_pull_failed"
    CONTAINER_INIT_FAILED = "container_init_failed"
    CONTAINER_CRASHED = "container_crashed"


@dataclass(frozen=True, slots=True)
class ReplicaTransition:
    """A change to another status; a failure has its reason, and whether it is fatal for the deployment (P3)."""

    to: ReplicaStatus
    fail_reason: FailReason | None = None
    fatal: bool = False


TERMINAL: Final = frozenset({ReplicaStatus.FAILED, ReplicaStatus.STOPPED})

_TO_PULLING = ReplicaTransition(ReplicaStatus.PULLING)
_TO_INITING = ReplicaTransition(ReplicaStatus.INITING)
_TO_RUNNING = ReplicaTransition(ReplicaStatus.RUNNING)
_TO_RESTARTING = ReplicaTransition(ReplicaStatus.RESTARTING)
_PULL_FAILED = ReplicaTransition(ReplicaStatus.FAILED, FailReason.IMAGE_PULL_FAILED, fatal=True)
_INIT_FAILED = ReplicaTransition(ReplicaStatus.FAILED, FailReason.CONTAINER_INIT_FAILED, fatal=True)
_CRASHED = ReplicaTransition(ReplicaStatus.FAILED, FailReason.CONTAINER_CRASHED)

TRANSITIONS: Final[dict[ReplicaStatus, dict[Signal, ReplicaTransition | Stay]]] = {
    ReplicaStatus.PENDING: {
        Signal.PULLING_IMAGE: _TO_PULLING,
        Signal.MODEL_SERVER: _TO_INITING,
        Signal.HEALTHY: _TO_RUNNING,
        Signal.FAILED: _PULL_FAILED,
        Signal.SYSTEM_FAILURE: _CRASHED,
        Signal.VM_CRASH: _CRASHED,
    },
    ReplicaStatus.PULLING: {
        Signal.PULLING_IMAGE: Stay.ALREADY_THERE,
        Signal.MODEL_SERVER: _TO_INITING,
        Signal.HEALTHY: _TO_RUNNING,
        Signal.FAILED: _PULL_FAILED,
        Signal.SYSTEM_FAILURE: _CRASHED,
        Signal.VM_CRASH: _CRASHED,
    },
    ReplicaStatus.INITING: {
        Signal.PULLING_IMAGE: Stay.BACKWARDS,
        Signal.MODEL_SERVER: Stay.ALREADY_THERE,
        Signal.HEALTHY: _TO_RUNNING,
        Signal.FAILED: _INIT_FAILED,
        Signal.SYSTEM_FAILURE: _CRASHED,
        Signal.VM_CRASH: _CRASHED,
    },
    ReplicaStatus.RUNNING: {
        Signal.PULLING_IMAGE: Stay.BACKWARDS,
        Signal.MODEL_SERVER: Stay.BACKWARDS,
        Signal.HEALTHY: Stay.HEARTBEAT,
        Signal.RESTARTING: _TO_RESTARTING,
        Signal.FAILED: _CRASHED,
        Signal.SYSTEM_FAILURE: _CRASHED,
        Signal.VM_CRASH: _CRASHED,
    },
    ReplicaStatus.RESTARTING: {
        Signal.PULLING_IMAGE: Stay.BACKWARDS,
        Signal.MODEL_SERVER: Stay.BACKWARDS,
        Signal.HEALTHY: _TO_RUNNING,
        Signal.RESTARTING: Stay.ALREADY_THERE,
        Signal.FAILED: _CRASHED,
        Signal.SYSTEM_FAILURE: _CRASHED,
        Signal.VM_CRASH: _CRASHED,
    },
    ReplicaStatus.FAILED: {},
    ReplicaStatus.STOPPED: {},
}

MACHINE: Final[Machine[ReplicaStatus, Signal, ReplicaTransition]] = Machine(TRANSITIONS, TERMINAL)

_WORD: Final = re.compile(r"[\w']+")
_SENTENCE_END: Final = re.compile(r"[.,;:!?\n\r\v\f\x85\u2028\u2029]")
_VALUE: Final = re.compile(r"""[\s"'`\u2018“”]*[:=][\s"'`\u2018“”]*([^\s"'`\u2018“”,;)\]}>]*)""")
_DENIALS: Final = frozenset({"not", "no", "never", "cannot"})
_DENYING_PREFIXES: Final = frozenset({"un", "non"})
_TRUE_VALUES: Final = frozenset({"true", "yes", "ok", "1"})
_WORDS_BEFORE: Final = 3

_SIGNAL_BY_STATUS = {
    "RESTARTING": Signal.RESTARTING,
    "FAILED": Signal.FAILED,
    "SYSTEM_FAILURE": Signal.SYSTEM_FAILURE,
    "VM_CRASH": Signal.VM_CRASH,
}


def read_signal(status: str, message: str, *, healthy: bool | None = None) -> Signal | None:
    """Return the signal in a callback; None when it has no known one (R2).

    Two starting steps in one message count as the later one. `healthy`, where given, decides instead of the text.
    """
    if status == "STARTING":
        text = message.lower()
        if "model server" in text:
            return Signal.MODEL_SERVER
        return Signal.PULLING_IMAGE if "pulling image" in text else None
    if status == "RUNNING":
        return Signal.HEALTHY if (says_healthy(message) if healthy is None else healthy) else None
    return _SIGNAL_BY_STATUS[status]


@lru_cache(maxsize=256)
def says_healthy(message: str) -> bool:
    """Return whether the word "healthy" occurs in a text and no occurrence of it is denied (R2)."""
    text = message.lower().replace("’", "'")
    words = [(word, found) for found in _WORD.finditer(text) if (word := found[0].strip("'"))]
    found_healthy = False
    for at, (word, found) in enumerate(words):
        if word == "unhealthy":
            return False
        if word != "healthy":
            continue
        if _is_denied(text, words[max(0, at - _WORDS_BEFORE) : at + 1], found.end()):
            return False
        found_healthy = True
    return found_healthy


def _is_denied(text: str, words: list[tuple[str, re.Match[str]]], end: int) -> bool:
    """Return whether the last of `words`, which ends at `end`, is denied by those before it or by a value after it."""
    value = _VALUE.match(text, end)
    if value is not None and (assigned := value[1].rstrip(".!?")) and assigned not in _TRUE_VALUES:
        return True
    for (word, found), (_, following) in zip(words[-2::-1], words[:0:-1], strict=True):
        between = text[found.end() : following.start()]
        if between == "-" and word in _DENYING_PREFIXES and following is words[-1][1]:
            return True
        if _SENTENCE_END.search(between):
            return False
        if word in _DENIALS or word.endswith("n't"):
            return True
    return False
