"""Host reports: what a host says of an instance (rules I1, I4, I10)."""

from schemas.reports import LaunchFailed, OtherReport
from streams.lifecycle.instance import InstanceState, Order, Report
from streams.rules import instances
from streams.rules.context import Turn
from streams.rules.decision import Dead
from streams.rules.memory import remember, seen_before

TOPIC = "host.reports"


def apply_report(turn: Turn, event: LaunchFailed | OtherReport) -> Dead | None:
    """A report moves its instance as the table of I1 says, or is ignored with its reason."""
    if seen_before(turn, TOPIC, event.event_id):
        return None
    instance = turn.rows.instances.get(event.instance_id)
    if instance is None:
        return unknown_instance(event.org_id, event.instance_id)
    remember(turn, TOPIC, event.event_id)
    report = Report(event.report)
    reached_host = event.reached_host if isinstance(event, LaunchFailed) else True
    if instances.apply_trigger(turn, instance, report, report.value, message=event.message, reached_host=reached_host):
        return None
    if report is Report.WORKLOAD_UP and instance.state is InstanceState.STOPPED:
        # Nothing may run unbilled (I4).
        instances.send_order(turn, instance, Order.STOP)
    turn.decision.ignore("terminal" if instance.state is InstanceState.DESTROYED else "out_of_place")
    return None


def unknown_instance(org_id: str, instance_id: str) -> Dead:
    """No such instance in that org."""
    return Dead(
        "unknown_instance", f"org {org_id} has no instance {instance_id}; it may belong to another org or have left"
    )
