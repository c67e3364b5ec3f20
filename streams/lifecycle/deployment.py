"""The deployment's state machine (rule P1): which trigger moves it from which status to which."""

from enum import StrEnum
from typing import Final

from streams.lifecycle.machine import Machine


class DeploymentStatus(StrEnum):
    """The status of a deployment (P1). `failed` and `stopped` are terminal; `paused` is scaled to zero."""

    CREATED = "created"
    PAUSED = "paused"
    FAILED = "failed"
    STOPPED = "stopped"


class Trigger(StrEnum):
    """What moves a deployment: a user, an inference request, the clock, or its replicas' end (P3 to P7, B22)."""

    STOP = "stop"
    IDLE = "idle"
    REQUEST = "request"
    REPLICAS_FAILED = "replicas_failed"
    ORG_SUSPENDED = "org_suspended"


TERMINAL: Final = frozenset({DeploymentStatus.FAILED, DeploymentStatus.STOPPED})

TRANSITIONS: Final[dict[DeploymentStatus, dict[Trigger, DeploymentStatus]]] = {
    DeploymentStatus.CREATED: {
        Trigger.STOP: DeploymentStatus.STOPPED,
        Trigger.IDLE: DeploymentStatus.PAUSED,
        Trigger.REPLICAS_FAILED: DeploymentStatus.FAILED,
        Trigger.ORG_SUSPENDED: DeploymentStatus.STOPPED,
    },
    DeploymentStatus.PAUSED: {Trigger.STOP: DeploymentStatus.STOPPED, Trigger.REQUEST: DeploymentStatus.CREATED},
    DeploymentStatus.FAILED: {},
    DeploymentStatus.STOPPED: {},
}

MACHINE: Final[Machine[DeploymentStatus, Trigger, DeploymentStatus]] = Machine(TRANSITIONS, TERMINAL)
