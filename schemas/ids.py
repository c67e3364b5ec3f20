"""Constrained wire types: ids, texts, numbers and money, with the contract's limits.

Only ASCII digits are valid, so the patterns list them as `0-9`. Pydantic's regex engine matches `$` only at the end of
the text, so a trailing newline does not match.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

MAX_ID_CHARS: Final = 128
MAX_LONG_LIVED_ID_CHARS: Final = 112
MAX_TEXT_CHARS: Final = 512
MAX_MESSAGE_CHARS: Final = 4_096
MAX_LABELS: Final = 16
MAX_LABEL_VALUE_CHARS: Final = 255
MAX_GPU_COUNT: Final = 16
MAX_DISK_GB: Final = 65_536
MAX_MIN_REPLICAS: Final = 100
MAX_IDLE_TIMEOUT_S: Final = 31_536_000
MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1

_AMOUNT: Final = r"[0-9]{1,18}(\.[0-9]{1,18})?"


def _cut(message: str) -> str:
    return message[:MAX_MESSAGE_CHARS]


Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""An id in an input: 1 to 128 letters, digits, `.`, `_` and `-`; the first a letter or a digit."""

LongLivedId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,111}$")]
"""An id from which Obol builds longer ones (of replicas, windows, orders), so at most 112 characters."""

GpuType = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$"),
    Field(description="GPU model as in the price profiles: lower case, at most 32 characters."),
]

Text512 = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARS)]
"""Free text of 1 to 512 characters."""

Message = Annotated[str, AfterValidator(_cut)]
"""Free text; anything beyond 4,096 characters is cut off, not refused."""

Int64 = Annotated[int, Field(ge=MIN_INT64, le=MAX_INT64)]
"""A 64-bit integer; not a bool, a float or a string."""

Money = Annotated[str, StringConstraints(pattern=rf"^-?{_AMOUNT}$")]
"""A decimal string in the installation's currency, at most 18 digits on each side of the point; never a float."""

NonNegativeMoney = Annotated[str, StringConstraints(pattern=rf"^(-0{{1,18}}(\.0{{1,18}})?|{_AMOUNT})$")]
"""`Money` that is 0 or more."""

Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
"""An ISO 4217 code."""

Rfc3339 = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$")
]
"""A time in an output: RFC 3339, UTC, milliseconds, `Z`."""

LabelKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")]
"""The key of a label: letters, digits, `.`, `_`, `/`, `-`; 1 to 63 characters; the first a letter or a digit."""

LabelValue = Annotated[str, StringConstraints(max_length=MAX_LABEL_VALUE_CHARS)]
"""The value of a label: at most 255 characters."""

Labels = Annotated[
    dict[LabelKey, LabelValue],
    Field(max_length=MAX_LABELS, description="Labels for cost reports, at most 16; they never change (C6)."),
]
"""Labels of a deployment or an instance."""

OrgId = Annotated[
    Id, Field(description="The organisation. It determines the partition, and every other id is looked up within it.")
]
EventId = Annotated[
    Id, Field(description="Unique within the org and topic for 24 h; a second one is a duplicate (C4).")
]
CommandId = Annotated[
    Id, Field(description="Unique within the org for 24 h; a second one gets the result of the first (C1).")
]
WindowId = Annotated[Id, Field(description="A window, looked up within its org.")]
DeploymentId = Annotated[LongLivedId, Field(description="The deployment; unique within its org, never reused.")]
InstanceId = Annotated[LongLivedId, Field(description="The instance; unique within its org, never reused.")]
ReplicaId = Annotated[Id, Field(description="The replica, `<deployment_id>-r<n>`; looked up within its org.")]
GpuCount = Annotated[int, Field(ge=1, le=MAX_GPU_COUNT, description="Number of GPUs, 1 to 16.")]
DiskGb = Annotated[int, Field(ge=1, le=MAX_DISK_GB, description="Disk in GB, 1 to 65,536.")]
