"""Instances: their transitions, and the meters, orders, error codes and GPUs that follow (rules I1 to I4, I7, I10)."""

from schemas.orders import HostOrder
from streams.billing.minutes import floor_minute
from streams.billing.money import to_atto
from streams.lifecycle.instance import (
    MACHINE,
    MESSAGES,
    STAGES,
    InstanceStage,
    InstanceState,
    OnEmptyBalance,
    Order,
    Timer,
    Trigger,
)
from streams.lifecycle.machine import Stay
from streams.rules import changes
from streams.rules.charging import close_windows, open_windows
from streams.rules.context import Turn
from streams.rules.rows import NEVER_SENT, Instance, OrderCount

ORDERS_TOPIC = "host.orders"


def begin(turn: Turn, instance: Instance) -> None:
    """Add a new instance, in creating, and send its `create` order (I1)."""
    turn.store.add(instance)
    changes.send_change(turn, instance, None, instance.state, "deployed")
    send_order(turn, instance, Order.CREATE)


def apply_trigger(
    turn: Turn,
    instance: Instance,
    trigger: Trigger,
    reason: str,
    *,
    message: str | None = None,
    reached_host: bool = True,
) -> bool:
    """Change the stage of `instance` as its row in the table says; return whether there is a transition on `trigger`.

    `reached_host`: False for a launch that failed before it reached the host, which keeps its GPUs (I10).
    """
    move = MACHINE.step(instance.stage, trigger)
    if isinstance(move, Stay) or (move.to is instance.stage and instance.error_code == trigger):
        return False
    close_windows(turn, instance)
    if move.through is not None:
        _enter(turn, instance, move.through, reason)
    code, words = (trigger.value, message or MESSAGES[trigger]) if move.sets_error_code else (None, None)
    _enter(turn, instance, move.to, reason, code, words)
    open_windows(turn, instance, instance.stage, instance)
    if move.order is not None:
        send_order(turn, instance, move.order)
    if move.releases_gpus and reached_host:
        _release_gpus(turn, instance)
    if balance_is_empty(turn):
        react_to_empty_balance(turn, instance)
    return True


def send_order(turn: Turn, instance: Instance, order: Order) -> None:
    """Send an order to the host. Its n is never reset; its attempt is, on each entry into the state that it serves."""
    last = instance.orders.get(order, NEVER_SENT)
    count = OrderCount(last.sent + 1, last.attempt + 1, floor_minute(turn.now))
    turn.store.change(instance, orders={**instance.orders, order: count})
    message = HostOrder(
        order_id=f"{instance.instance_id}:{order}:{count.sent}",
        org_id=instance.org_id,
        instance_id=instance.instance_id,
        order=order.value,
        attempt=count.attempt,
    )
    turn.decision.send(ORDERS_TOPIC, instance.org_id, turn.now, message)


def send_again(turn: Turn, instance: Instance, order: Order) -> None:
    """Send an order again, only in a later clock minute than the last one of that order (I1, I4)."""
    if floor_minute(turn.now) > instance.orders.get(order, NEVER_SENT).last_minute:
        send_order(turn, instance, order)


def balance_is_empty(turn: Turn) -> bool:
    """Return whether the balance is at or below zero; none received yet counts as zero (I6, I7)."""
    balance = turn.rows.org.balance
    return balance is None or to_atto(balance) <= 0


def react_to_empty_balance(turn: Turn, instance: Instance) -> None:
    """Apply I7 to an instance while the balance is at or below zero: stop it, or release its GPUs."""
    match STAGES[instance.stage].on_empty_balance:
        case OnEmptyBalance.STOP:
            apply_trigger(turn, instance, Timer.BALANCE_EMPTY, Timer.BALANCE_EMPTY.value)
            _release_if_idle(turn, instance)
        case OnEmptyBalance.RELEASE_GPUS:
            _release_if_idle(turn, instance)


def _release_if_idle(turn: Turn, instance: Instance) -> None:
    if instance.gpus_releasable and instance.gpus_held:
        _release_gpus(turn, instance)


def _release_gpus(turn: Turn, instance: Instance) -> None:
    turn.store.change(instance, gpus_held=False)
    send_order(turn, instance, Order.RELEASE_GPUS)


def _enter(
    turn: Turn,
    instance: Instance,
    stage: InstanceStage,
    reason: str,
    code: str | None = None,
    words: str | None = None,
) -> None:
    before = instance.stage
    orders = instance.orders
    if (order := STAGES[stage].serves) is not None:
        orders = {**orders, order: orders.get(order, NEVER_SENT)._replace(attempt=0)}
    runs, ended = STAGES[stage].state is InstanceState.RUNNING, stage is InstanceStage.DESTROYED
    turn.store.change(
        instance,
        stage=stage,
        error_code=code,
        error_message=words,
        # A change from error to error doesn't restart the hour of I9.
        entered_at=instance.entered_at if stage is before else turn.now,
        orders=orders,
        timer_from=None,
        ran=instance.ran or runs,
        gpus_held=(instance.gpus_held or runs) and not ended,
        ended_at=turn.now if ended else None,
    )
    changes.send_change(turn, instance, STAGES[before].state, STAGES[stage].state, reason)
