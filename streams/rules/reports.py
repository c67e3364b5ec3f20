"""Host reports about instances (rules I1, I4, I10)."""

from schemas.reports import LaunchFailed, OtherReport
from streams.lifecycle.instance import STAGES, InstanceStage, Report
from streams.rules import instances
from streams.rules.context import Turn
from streams.rules.rows import Instance
from streams.rules.zombies import record_late_sign


def apply_report(turn: Turn, event: LaunchFailed | OtherReport, instance: Instance) -> None:
    """Apply a report: it changes the stage of its instance as I1 says, or is ignored with its reason."""
    report = Report(event.report)
    reached_host = event.reached_host if isinstance(event, LaunchFailed) else True
    if instances.apply_trigger(turn, instance, report, report.value, message=event.message, reached_host=reached_host):
        return
    order = STAGES[instance.stage].unbilled.get(report)
    if order is not None:
        instances.send_again(turn, instance, order)
        if instance.stage is InstanceStage.DESTROYED:
            record_late_sign(turn.store, instance, turn.now)
    turn.decision.ignore("terminal" if instance.stage is InstanceStage.DESTROYED else "out_of_place")
