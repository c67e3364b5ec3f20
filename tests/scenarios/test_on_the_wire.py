"""The outputs of an instance, byte for byte; the timelines have them in a short form."""

from tests.world.timeline import to_ms
from tests.world.world import World


def out(world: World, topic: str) -> list[str]:
    return [sent.raw.decode() for sent in world.all_sent if sent.topic == topic]


def test_an_instance_on_the_wire() -> None:
    world = World()
    world.do(
        "11:00 price instance.h100.1x 100",
        "11:00 price disk 0.01",
        "11:00 balance 500",
        "12:00 deploy i",
        "12:01:30.250 report i workload_up",
        "12:01:45.500 stop_instance i",
        "12:01:50 report i stop_confirmed message=bye",
        "12:02:02 tick",
    )
    assert out(world, "croesus.usage") == [
        (
            '{"id":"i:gpu:2026-11-29T12:01:30.250Z","type":"instance_gpu_running","org_id":"acme","instance_id":"i",'
            '"window_id":"i.gpu.w1","profile":"instance.h100.1x","quantity":1,'
            '"interval_start":"2026-11-29T12:01:30.250Z","interval_end":"2026-11-29T12:01:45.500Z","duration_ms":15250}'
        ),
        (
            '{"id":"i:disk:2026-11-29T12:01:50.000Z","type":"instance_disk_stopped","org_id":"acme","instance_id":"i",'
            '"window_id":"i.disk.w1","profile":"disk","quantity":100,'
            '"interval_start":"2026-11-29T12:01:50.000Z","interval_end":"2026-11-29T12:02:00.000Z","duration_ms":10000}'
        ),
    ]
    assert out(world, "host.orders") == [
        '{"order_id":"i:create:1","org_id":"acme","instance_id":"i","order":"create","attempt":1}',
        '{"order_id":"i:stop:1","org_id":"acme","instance_id":"i","order":"stop","attempt":1}',
    ]
    assert out(world, "lifecycle.changes")[:2] == [
        (
            '{"event_id":"instance:i:1","org_id":"acme","kind":"instance","id":"i","to":"creating",'
            '"reason":"deployed","at":"2026-11-29T12:00:00.000Z"}'
        ),
        (
            '{"event_id":"instance:i:2","org_id":"acme","kind":"instance","id":"i","from":"creating","to":"running",'
            '"reason":"workload_up","at":"2026-11-29T12:01:30.250Z"}'
        ),
    ]
    assert [(sent.key, sent.timestamp) for sent in world.all_sent if sent.topic == "host.orders"] == [
        ("acme", to_ms("12:00")),
        ("acme", to_ms("12:01:45.500")),
    ]


def test_an_error_gives_its_code_and_message_and_the_next_change_has_none() -> None:
    world = World()
    world.do(
        "11:00 price instance.h100.1x 100",
        "11:00 price disk 0.01",
        "11:00 balance 500",
        "12:00 deploy i",
        '12:01 report i launch_failed reached_host=false "message=no such image"',
        "13:01 tick",
    )
    assert out(world, "lifecycle.changes")[1:] == [
        (
            '{"event_id":"instance:i:2","org_id":"acme","kind":"instance","id":"i","from":"creating","to":"error",'
            '"reason":"launch_failed","error_code":"launch_failed","error_message":"no such image",'
            '"at":"2026-11-29T12:01:00.000Z"}'
        ),
        (
            '{"event_id":"instance:i:3","org_id":"acme","kind":"instance","id":"i","from":"error","to":"destroying",'
            '"reason":"error_expired","at":"2026-11-29T13:01:00.000Z"}'
        ),
    ]
    assert [sent.value["order"] for sent in world.all_sent if sent.topic == "host.orders"] == ["create", "destroy"]
