"""Instances: how they move, and the meters, orders, codes and GPUs that follow (rules I1 to I4, I7, I10)."""

from schemas.orders import HostOrder
from streams.billing.minutes import floor_minute
from streams.billing.money import to_atto
from streams.billing.prices import DISK_PROFILE, instance_profile
from streams.billing.windows import Window, WindowMeter
from streams.lifecycle.instance import MESSAGES, METER, InstanceState, Meter, Order, Timer, Trigger, step
from streams.rules import changes
from streams.rules.book import instance_units
from streams.rules.charging import close_window, settle
from streams.rules.context import Turn
from streams.rules.rows import NEVER_SENT, Instance, OrderCount

ORDERS_TOPIC = "host.orders"

SERVES: dict[InstanceState, Order] = {
    InstanceState.CREATING: Order.CREATE,
    InstanceState.STARTING: Order.START,
    InstanceState.STOPPING: Order.STOP,
    InstanceState.DESTROYING: Order.DESTROY,
}


def begin(turn: Turn, instance: Instance) -> None:
    """A new instance, in creating, with its `create` order (I1)."""
    turn.rows.instances[instance.instance_id] = instance
    turn.rows.held[instance.instance_id] = instance
    turn.rows.count_units({}, instance_units(instance))
    changes.tell(turn, instance, None, instance.state, "deployed")
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
    """Move `instance` as its table says; returns whether `trigger` is a move from its state.

    `reached_host` False: a launch that failed before the host keeps its slice (I10).
    """
    move = step(instance.state, trigger, stop_pending=instance.stop_pending)
    if move is None or (move.to is instance.state and instance.error_code == trigger):
        return False
    units = instance_units(instance)
    _close_meter(turn, instance)
    if move.passing is not None:
        _enter(turn, instance, move.passing, reason)
    code, words = (trigger.value, message or MESSAGES[trigger]) if move.explains else (None, None)
    _enter(turn, instance, move.to, reason, code, words, stop_pending=move.stays_pending)
    turn.rows.count_units(units, instance_units(instance))
    _open_meter(turn, instance)
    if move.order is not None:
        send_order(turn, instance, move.order)
    if move.releases and reached_host:
        _release_gpus(turn, instance)
    _heed_balance(turn, instance)
    return True


def send_order(turn: Turn, instance: Instance, order: Order) -> None:
    """Tell the host; the order's n never starts anew, its attempt does with each entry into the state it serves."""
    last = instance.orders.get(order, NEVER_SENT)
    count = instance.orders[order] = OrderCount(last.sent + 1, last.attempt + 1, floor_minute(turn.now))
    turn.decision.put(instance)
    message = HostOrder.model_construct(
        order_id=f"{instance.instance_id}:{order}:{count.sent}",
        org_id=instance.org_id,
        instance_id=instance.instance_id,
        order=order.value,
        attempt=count.attempt,
    )
    turn.decision.send(ORDERS_TOPIC, instance.org_id, turn.now, message)


def send_again(turn: Turn, instance: Instance) -> None:
    """Ask again for what the host has not confirmed, once a clock minute: a stop that timed out, a destroy (I1)."""
    if instance.state is InstanceState.DESTROYING:
        order = Order.DESTROY
    elif instance.state is InstanceState.RUNNING and instance.stop_pending:
        order = Order.STOP
    else:
        return
    if floor_minute(turn.now) > instance.orders[order].last_minute:
        send_order(turn, instance, order)


def balance_is_empty(turn: Turn) -> bool:
    """Balance at or below zero; none heard yet counts as zero (I6, I7)."""
    balance = turn.rows.org.balance
    return balance is None or to_atto(balance) <= 0


def release_if_idle(turn: Turn, instance: Instance) -> None:
    """Let others have the GPUs that an instance holds but may release (I7)."""
    if instance.gpus_releasable and instance.gpus_held:
        _release_gpus(turn, instance)


def stop_for_balance(turn: Turn, instance: Instance) -> None:
    """Stop a running instance because the balance is empty, unless a stop is pending; its GPUs go with it (I7)."""
    if apply_trigger(turn, instance, Timer.BALANCE_EMPTY, Timer.BALANCE_EMPTY.value):
        release_if_idle(turn, instance)


def _heed_balance(turn: Turn, instance: Instance) -> None:
    """What reaches running or stopped while the balance is empty does not stay as it is (I7).

    A stop that timed out stays in running: it is pending, and an empty balance adds nothing to it.
    """
    if instance.state not in {InstanceState.RUNNING, InstanceState.STOPPED} or not balance_is_empty(turn):
        return
    if instance.state is InstanceState.STOPPED:
        release_if_idle(turn, instance)
    else:
        stop_for_balance(turn, instance)


def _enter(
    turn: Turn,
    instance: Instance,
    state: InstanceState,
    reason: str,
    code: str | None = None,
    words: str | None = None,
    *,
    stop_pending: bool = False,
) -> None:
    before = instance.state
    instance.state = state
    instance.error_code, instance.error_message = code, words
    instance.stop_pending = stop_pending
    if state is not before:
        # From error to error the hour of I9 runs on.
        instance.entered_at = turn.now
    if state in SERVES:
        order = SERVES[state]
        instance.orders[order] = instance.orders.get(order, NEVER_SENT)._replace(attempt=0)
    if state is InstanceState.RUNNING:
        instance.ran = True
        instance.gpus_held = True
    if state is InstanceState.DESTROYED:
        instance.gpus_held = False
        instance.ended_at = turn.now
        del turn.rows.held[instance.instance_id]
        turn.book.expire_at(turn.now + turn.book.retention_ms, instance)
    changes.tell(turn, instance, before, state, reason)


def _release_gpus(turn: Turn, instance: Instance) -> None:
    instance.gpus_held = False
    send_order(turn, instance, Order.RELEASE_GPUS)


def _close_meter(turn: Turn, instance: Instance) -> None:
    """Settle what is owed, up to this millisecond, before the change takes effect (I2)."""
    window = instance.window
    if window is None:
        return
    instance.window = None
    free_at = close_window(turn, window)
    if window.meter is WindowMeter.GPU:
        instance.gpu_free_at = free_at
    else:
        instance.disk_free_at = free_at
    settle(turn, window)


def _open_meter(turn: Turn, instance: Instance) -> None:
    meter = METER[instance.state]
    if meter is Meter.NONE:
        return
    if meter is Meter.GPU:
        instance.gpu_windows_made += 1
        number, free_at = instance.gpu_windows_made, instance.gpu_free_at
        profile, quantity = instance_profile(instance.gpu_type, instance.gpu_count), 1
    else:
        instance.disk_windows_made += 1
        number, free_at = instance.disk_windows_made, instance.disk_free_at
        profile, quantity = DISK_PROFILE, instance.disk_gb
    opened_at = max(turn.now, free_at)
    instance.window = Window(
        org_id=instance.org_id,
        window_id=f"{instance.instance_id}.{meter}.w{number}",
        meter=WindowMeter(meter.value),
        owner_id=instance.instance_id,
        deployment_id=None,
        profile=profile,
        quantity=quantity,
        opened_at=opened_at,
        billed_until=opened_at,
        last_health_check=None,
        opened_by=turn.origin,
    )
    turn.rows.add_due(instance.window)
