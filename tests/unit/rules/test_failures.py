"""R3 and P3: every status x every failure status x every status of another replica."""

from itertools import product

import pytest

from tests.world.world import World

# The callbacks that lead to each status, from pending.
WAYS = {
    "pending": [],
    "pulling_docker_image": ["pulling"],
    "initing_docker_container": ["server"],
    "running": ["healthy"],
    "restarting": ["healthy", "restarting"],
    "failed": ["vm_crash"],
}

# From the rules: fail reason, and "!" where it is fatal.
FAILURES = {
    ("pending", "failed"): "image_pull_failed!",
    ("pending", "system_failure"): "container_crashed",
    ("pending", "vm_crash"): "container_crashed",
    ("pulling_docker_image", "failed"): "image_pull_failed!",
    ("pulling_docker_image", "system_failure"): "container_crashed",
    ("pulling_docker_image", "vm_crash"): "container_crashed",
    ("initing_docker_container", "failed"): "container_init_failed!",
    ("initing_docker_container", "system_failure"): "container_crashed",
    ("initing_docker_container", "vm_crash"): "container_crashed",
    ("running", "failed"): "container_crashed",
    ("running", "system_failure"): "container_crashed",
    ("running", "vm_crash"): "container_crashed",
    ("restarting", "failed"): "container_crashed",
    ("restarting", "system_failure"): "container_crashed",
    ("restarting", "vm_crash"): "container_crashed",
}

# Whether the other replica keeps the deployment alive. None: there is no other.
OTHERS = {
    None: False,
    "failed": False,
    "pending": True,
    "pulling_docker_image": True,
    "initing_docker_container": True,
    "running": True,
    "restarting": True,
}


@pytest.mark.parametrize(("status", "failure", "other"), [(*case, other) for case, other in product(FAILURES, OTHERS)])
def test_a_failure_ends_the_deployment_only_when_fatal_and_last(status: str, failure: str, other: str | None) -> None:
    world = World()
    world.do("11:00 price dedicated.h100.1x 2.50", f"12:00 create d1 min={2 if other else 1}")
    if other:
        world.do(*(f"12:01 {way} d1-r2" for way in WAYS[other]))
    world.do(*(f"12:02 {way} d1-r1" for way in WAYS[status]))

    sent = [message.value for message in world.do(f"12:03 {failure} d1-r1")]

    reason = FAILURES[status, failure]
    ends = reason.endswith("!") and not OTHERS[other]
    assert [(each["id"], each["from"], each["to"], each["reason"]) for each in sent] == [
        ("d1-r1", status, "failed", reason.removesuffix("!")),
        *([("d1", "created", "failed", "replicas_failed")] if ends else []),
    ]
    deployment = world.view("deployment", "d1")
    assert world.view("replica", "d1-r1")["fail_reason"] == reason.removesuffix("!")
    assert deployment["status"] == ("failed" if ends else "created")
    assert deployment["current_replicas"] == (1 if other == "running" else 0)
