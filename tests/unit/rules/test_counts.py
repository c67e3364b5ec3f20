"""What is counted, logged and said, word for word and to the last one."""

from typing import Any

from schemas.times import rfc3339
from streams.rules.context import Switches
from streams.rules.rows import CommandMemory
from tests.world.records import record
from tests.world.timeline import acts, to_ms
from tests.world.world import Sent, World

PRICE = "11:00 price dedicated.h100.1x 1"


def at_once(world: World, *lines: str) -> list[Sent]:
    """Apply and commit lines together."""
    return world.take([record(act, world.numbers) for line in lines for act in acts(line)])


def counted(world: World, kind: str) -> dict[str, int]:
    return {detail: number for (name, detail), number in world.driver.counts().items() if name == kind}


def message_of(world: World, line: str) -> Any:
    (message,) = [sent.value["message"] for sent in world.do(line) if sent.topic == "command.results"]
    return message


def test_every_duplicate_of_a_commit_is_counted() -> None:
    world = World()
    world.do(PRICE, "11:59 create d")
    at_once(world, *3 * ["12:00 healthy d-r1 as up"], *4 * ["12:01 stop d as c9"])
    assert counted(world, "duplicate") == {"execlet.progress": 2, "user.commands": 3}


def test_every_notice_of_a_tick_is_counted() -> None:
    world = World()
    at_once(world, "12:00 balance 0", "12:00 bolt: balance -1", "12:00 calm: balance 1", "12:01 tick")
    assert counted(world, "notices") == {"balance_empty": 2}


def test_requests_are_counted_by_their_count() -> None:
    world = World()
    world.do(PRICE, "11:59 create d")
    at_once(world, "12:00 request d count=3", "12:00 request d", "12:00 request d count=4")
    assert counted(world, "inference_requests") == {"count": 8}


def test_credited_time_is_counted_by_meter() -> None:
    world = World()
    world.do(PRICE, "11:59 create d", "12:00 healthy d-r1", "12:01 heartbeat d-r1", "12:03 tick")
    world.do("12:04 credit d-r1.w1 from=12:00:30 until=12:02")
    assert counted(world, "credited_ms") == {"dedicated": 90_000}


def test_balances_of_a_lower_epoch_are_counted() -> None:
    world = World()
    world.do("12:00 balance 1 epoch=2")
    at_once(world, "12:01 balance 2 epoch=1", "12:02 balance 3")
    assert counted(world, "old_epoch") == {"balance_updated": 2}
    assert [(line.fields["epoch"], line.fields["last_epoch"]) for line in world.log_lines] == [(1, 2), (0, 2)]


def test_a_void_tick_is_logged_with_both_clocks() -> None:
    world = World()
    world.do("12:00 balance 1", "12:10 tick at=12:00")
    (line,) = world.log_lines
    assert line.level == "warning"
    assert line.fields == {"timestamp": to_ms("12:10"), "at": to_ms("12:00"), "offset": 0}


def test_a_dry_run_logs_priced_windows_behind_unpriced_ones() -> None:
    """B21, B9: d-r1 has no price, e-r1 behind it has."""
    world = World()
    world.do("11:00 price dedicated.a100.1x 1", PRICE, "11:59 create d", "11:59 create e gpu=a100")
    world.do("12:00 healthy d-r1", "12:00 healthy e-r1", "12:00:10 price dedicated.h100.1x none")
    world.set(Switches(billing_enabled=True, dry_run=True))
    world.do("12:01 tick")
    assert [line.fields["window_id"] for line in world.log_lines] == ["e-r1.w1"]


def test_results_say_how_many_replicas_there_are() -> None:
    world = World()
    world.do(PRICE)
    assert message_of(world, "12:00 create d") == "deployment d is created with 1 pending replica"
    assert message_of(world, "12:00 create e min=2") == "deployment e is created with 2 pending replicas"


def test_the_result_of_a_command_that_cannot_be_read_has_the_reason() -> None:
    message = message_of(World(), "12:00 command type=create_deployment deployment_id=7")
    assert "deployment_id" in message
    assert "None" not in message


def test_an_id_that_was_used_before_is_refused_with_the_command() -> None:
    world = World()
    world.set(retention_h=1)
    world.do("11:00 price instance.h100.1x 1", "11:00 price disk 1", "11:00 balance 10000", PRICE)
    world.do("12:00 deploy i", "12:00 create d", "12:01 destroy_instance i", "12:01 stop d")
    world.do("12:02 report i teardown_finished", "13:02 tick")
    for line, kind, name in (("deploy i", "instance", "i"), ("create d", "deployment", "d")):
        asked = "deploy_instance" if kind == "instance" else "create_deployment"
        assert message_of(world, f"13:03 {line}") == (
            f"{kind} {name} existed before, until {rfc3339(to_ms('13:02'))}; {asked} needs an id never used"
        )


def test_labels_are_written_as_they_are_in_usage_events() -> None:
    """C6: keys sorted, no escapes, as all other JSON is written."""
    world = World()
    world.do(PRICE, "11:59 create d labels=zone:東京,team:ä", "12:00 healthy d-r1")
    (usage,) = world.do("12:01 tick")
    assert usage.raw.endswith('"labels":{"team":"ä","zone":"東京"}}'.encode())


def test_the_smallest_balance_is_not_empty() -> None:
    """I7: at or below zero."""
    world = World()
    world.do("11:00 price instance.h100.1x 1", "11:00 price disk 0", "11:00 balance 10")
    world.do("12:00 deploy i", "12:01 report i workload_up", "12:02 balance 0.000000000000000001")
    assert world.view("instance", "i")["state"] == "running"
    world.do("12:03 balance 0.000000000000000000")
    assert world.view("instance", "i")["state"] == "stopping"


def test_the_reason_is_left_out_from_the_10001st_remembered_result_on() -> None:
    world = World()
    world.do("12:00 balance 1")
    for number in range(9_999):
        world.driver.store().add(CommandMemory("acme", f"m{number}", to_ms("12:00"), "{}"))
    unread = "12:01 command type=create_deployment deployment_id=7"
    assert "deployment_id" in message_of(world, unread)
    assert message_of(world, f"{unread} as c0").endswith("the org has too many results in 24 h for the reason")
