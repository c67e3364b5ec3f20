"""`host.reports`: what a host reports about an instance."""

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
"""The names of all reports but `launch_failed` (I1)."""

ReportName = Literal["launch_failed"] | OtherReportName
"""The names of all reports (I1)."""


class LaunchFailed(Wire):
    """A launch failed (I1, I10)."""

    event_id: EventId
    org_id: OrgId
    instance_id: InstanceId
    report: Literal["launch_failed"] = Field("launch_failed", description="Name of the report.")
    reached_host: Annotated[bool, NullIs(True)] = Field(
        default=True,
        description="False: the launch did not reach the host; the GPUs stay reserved until destroyed (I10).",
    )
    message: Message | None = Field(None, description="The host's error message (I3); cut at 4,096 characters.")


class OtherReport(Wire):
    """Any other report. Here `reached_host` is an unknown field (I1)."""

    event_id: EventId
    org_id: OrgId
    instance_id: InstanceId
    report: OtherReportName = Field(description="Name of the report.")
    message: Message | None = Field(None, description="The host's error message (I3); cut at 4,096 characters.")


Report = Annotated[LaunchFailed | OtherReport, Field(discriminator="report")]
"""Any record of `host.reports`, distinguished by `report`."""
