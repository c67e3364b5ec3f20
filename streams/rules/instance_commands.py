"""Commands for instances, and their conditions (rules I5, I6, I11)."""

from collections import Counter
from collections.abc import Mapping

from schemas.commands import DeployInstance, DestroyInstance, StartInstance, StopInstance
from streams.billing.burn import burn_per_hour
from streams.billing.money import to_atto, to_text
from streams.lifecycle.instance import STAGES, Action, InstanceStage
from streams.limits import MAX_INSTANCES
from streams.meters import burn_units
from streams.rules import instances
from streams.rules.context import Turn
from streams.rules.results import Refusal, already_used
from streams.rules.rows import Instance


def deploy(turn: Turn, command: DeployInstance) -> Refusal | str:
    """Create an instance, within the limit (I5), if there is a price and the balance covers one hour of all (I6)."""
    instance_id = command.instance_id
    known = turn.rows.instances.get(instance_id)
    if known is not None:
        return Refusal(
            "ALREADY_EXISTS",
            f"instance {instance_id} is {known.state} already; deploy_instance needs an id never used before",
        )
    if (used := already_used(turn, "instance", instance_id, "deploy_instance")) is not None:
        return used
    if len(turn.rows.live_instances) >= MAX_INSTANCES:
        return Refusal(
            "INSTANCE_LIMIT",
            f"instance {instance_id} does not exist; deploy_instance would be one more than the {MAX_INSTANCES} that "
            f"org {turn.org_id} may hold: destroy one first",
        )
    burn = burn_units("instance", InstanceStage.CREATING, command)
    refusal = _unaffordable(turn, f"instance {instance_id} does not exist; deploy_instance", {}, burn)
    if refusal is not None:
        return refusal
    instance = Instance(
        org_id=command.org_id,
        instance_id=instance_id,
        stage=InstanceStage.CREATING,
        offer_id=command.offer_id,
        gpu_type=command.gpu_type,
        gpu_count=command.gpu_count,
        disk_gb=command.disk_gb,
        mode=command.template.mode,
        image=command.template.image,
        gpus_releasable=command.gpus_releasable,
        created_at=turn.now,
        entered_at=turn.now,
        labels=command.labels,
    )
    instances.begin(turn, instance)
    return f"instance {instance_id} is creating"


def start(turn: Turn, command: StartInstance) -> Refusal | str:
    """Start a stopped instance, if the balance covers one hour of everything, its disk counted once (I6)."""
    found = _find(turn, command.instance_id, "start_instance", Action.START)
    if isinstance(found, Refusal):
        return found
    before, after = (burn_units("instance", stage, found) for stage in (InstanceStage.STOPPED, InstanceStage.STARTING))
    refusal = _unaffordable(turn, f"instance {found.instance_id} is stopped; start_instance", before, after)
    if refusal is not None:
        return refusal
    return _act(turn, found, Action.START)


def stop(turn: Turn, command: StopInstance) -> Refusal | str:
    """Stop a running instance, whatever the balance."""
    found = _find(turn, command.instance_id, "stop_instance", Action.STOP)
    return found if isinstance(found, Refusal) else _act(turn, found, Action.STOP)


def destroy(turn: Turn, command: DestroyInstance) -> Refusal | str:
    """Destroy an instance in any state but destroyed; in destroying, accepted and nothing changes (I1)."""
    found = _find(turn, command.instance_id, "destroy_instance", Action.DESTROY)
    if isinstance(found, Refusal):
        return found
    if found.stage is InstanceStage.DESTROYING:
        return f"instance {found.instance_id} is destroying already"
    return _act(turn, found, Action.DESTROY)


def _act(turn: Turn, instance: Instance, action: Action) -> str:
    instances.apply_trigger(turn, instance, action, "user")
    return f"instance {instance.instance_id} is {instance.state}"


def _find(turn: Turn, instance_id: str, asked: str, action: Action) -> Instance | Refusal:
    instance = turn.rows.instances.get(instance_id)
    if instance is None:
        return Refusal(
            "NOT_FOUND", f"instance {instance_id} is not known in org {turn.org_id}; {asked} needs one that is"
        )
    row = STAGES[instance.stage]
    if action in row.allowed:
        return instance
    allowed = ", ".join(row.allowed) or "nothing"
    return Refusal(
        "ILLEGAL_TRANSITION",
        f"instance {instance_id} is {row.state}; {asked} is not allowed there, allowed: {allowed}",
    )


def _unaffordable(turn: Turn, asked: str, before: Mapping[str, int], after: Mapping[str, int]) -> Refusal | None:
    """Return why the balance does not cover an hour of the org's burn, `after` in it for `before`; None: it does (I6).

    All that is in `after` needs a price.
    """
    for needed in after:
        if turn.prices.at(needed, turn.now) is None:
            return Refusal(
                "UNPRICED_PROFILE",
                f"{asked} needs a price for {needed} and there is none: publish one on croesus.prices",
            )
    burn = burn_per_hour(turn.rows.units - Counter(before) + Counter(after), turn.prices, turn.now)
    balance = turn.rows.org.balance or "0"
    if to_atto(balance) >= burn:
        return None
    return Refusal(
        "INSUFFICIENT_BALANCE",
        f"{asked} needs a balance of one hour of everything, {to_text(burn)}, and the balance of org {turn.org_id} is "
        f"{balance}: top it up, or stop something",
    )
