"""`host.reports`: what a host tells of an instance's workload."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import NullIs, Wire
from schemas.ids import EventId, InstanceId, Message, OrgId

OtherReportName = Literal[
    "workload_up",
    "stop_confirmed",
    "start_refused",
    "start_unreachable",
    "gpus_unavailable",
    "workload_failed",
    "workload_lost",
    "workload_completed",
    "workload_gone",
    "found_running",
    "found_held",
    "teardown_finished",
]
"""Every report's name but `launch_failed` (I1)."""

ReportName = Literal["launch_failed"] | OtherReportName
"""Every report's name (I1)."""


class LaunchFailed(Wire):
    """A launch that came to nothing (I1, I10)."""

    event_id: EventId
    org_id: OrgId
    instance_id: InstanceId
    report: Literal["launch_failed"] = Field("launch_failed", description="What the host reports.")
    reached_host: Annotated[bool, NullIs(True)] = Field(
        default=True, description="False: it failed before the host, so the slice is held until destroyed (I10)."
    )
    message: Message | None = Field(None, description="The host's words (I3); cut at 4,096 characters.")


class OtherReport(Wire):
    """Any other report; `reached_host` here is an unknown field (I1)."""

    event_id: EventId
    org_id: OrgId
    instance_id: InstanceId
    report: OtherReportName = Field(description="What the host reports.")
    message: Message | None = Field(None, description="The host's words (I3); cut at 4,096 characters.")


Report = Annotated[LaunchFailed | OtherReport, Field(discriminator="report")]
"""Any record of `host.reports`, told apart by `report`."""
