"""The contract's commands: which are rejected, in which order of codes, and that each has one result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.outside import rfc3339

if TYPE_CHECKING:
    from tests.support.outside import Outside

pytestmark = pytest.mark.kafka

GONE = object()
INT64_MAX = 2**63 - 1
NOT_AN_ID = (None, GONE, "", 1, True, "-a", "a b", "é", "i" * 113)
NOT_A_TEXT = (None, GONE, "", 1, True, "t" * 513)
NOT_A_GPU_TYPE = (None, GONE, "", 1, "A100", "-a", "a.b", "g" * 33)
CREATE = {"deployment_id": "d", "model": "m", "gpu_type": "cmd", "gpu_count": 1}
TEMPLATE = {"mode": "ssh", "image": "ubuntu"}
DEPLOY = {"instance_id": "i", "offer_id": "o", "gpu_type": "cmd", "gpu_count": 1, "disk_gb": 10, "template": TEMPLATE}


def not_a_count(low: int, high: int, *, absent: bool = True) -> tuple[Any, ...]:
    """Return values that are not integers from `low` to `high`. `absent` False: the field is optional."""
    wrong: tuple[Any, ...] = (True, float(low), str(low), 1.5, [], low - 1, high + 1, -1, INT64_MAX + 1)
    return (*wrong, None, GONE) if absent else wrong


BAD: list[tuple[str, dict[str, Any], dict[str, tuple[Any, ...]]]] = [
    (
        "create_deployment",
        CREATE,
        {
            "deployment_id": NOT_AN_ID,
            "model": NOT_A_TEXT,
            "gpu_type": NOT_A_GPU_TYPE,
            "gpu_count": not_a_count(1, 16),
            "serving": ("", "Dedicated", 1, True, "spot"),
            "min_replicas": not_a_count(0, 100, absent=False),
            "idle_timeout_s": not_a_count(1, 31_536_000, absent=False),
        },
    ),
    ("stop_deployment", {"deployment_id": "d"}, {"deployment_id": NOT_AN_ID}),
    (
        "deploy_instance",
        DEPLOY,
        {
            "instance_id": NOT_AN_ID,
            "offer_id": NOT_A_TEXT,
            "gpu_type": NOT_A_GPU_TYPE,
            "gpu_count": not_a_count(1, 16),
            "disk_gb": not_a_count(1, 65_536),
            "template": (
                None,
                GONE,
                "ssh",
                [],
                {},
                {"mode": "ssh"},
                {"image": "x"},
                {"mode": "vnc", "image": "x"},
                {"mode": "ssh", "image": ""},
                {"mode": "ssh", "image": "x" * 513},
                {"mode": None, "image": "x"},
                {"mode": "ssh", "image": 5},
            ),
            "gpus_releasable": ("true", 1, 0, 1.0, []),
        },
    ),
    *(
        (kind, {"instance_id": "i"}, {"instance_id": NOT_AN_ID})
        for kind in ("start_instance", "stop_instance", "destroy_instance")
    ),
    ("stop_deployment", {"deployment_id": "d"}, {"type": (None, GONE, "", 1, "drop_deployment", "STOP_DEPLOYMENT")}),
]


def test_each_bad_field_of_each_command_is_invalid(obol: Outside) -> None:
    org_id = obol.new_id("org")
    asked = []
    for kind, good, fields in BAD:
        for name, values in fields.items():
            for value in values:
                command_id = obol.new_id("cmd")
                body = {"command_id": command_id, "org_id": org_id, "type": kind, **good, name: value}
                stored = obol.send("user.commands", {k: v for k, v in body.items() if v is not GONE})
                asked.append((command_id, stored, (kind, name, value)))
    obol.wait_until_applied()
    for command_id, stored, case in asked:
        result = obol.result(command_id)
        assert (result.get("code"), result["status"], result["outcome"]) == ("INVALID", 400, "rejected"), case
        assert case[1] in result["message"], (case, result)
        assert result["at"] == rfc3339(obol.now)
        assert not obol.dead_letters("user.commands", stored)
    assert not obol.out("lifecycle.changes", org_id)


@pytest.mark.parametrize(
    "wrong",
    [
        {"command_id": None},
        {"command_id": "a b"},
        {"command_id": 5},
        {"command_id": "c" * 129},
        {"org_id": None},
        {"org_id": "a b"},
        {"org_id": 5},
    ],
)
def test_a_command_that_cannot_be_answered_is_a_dead_letter(obol: Outside, wrong: dict[str, Any]) -> None:
    body = {"command_id": "c", "org_id": "o1", "type": "stop_deployment", "deployment_id": "d", **wrong}
    stored = obol.send("user.commands", body, partition=obol.partition_of("o1"))
    obol.wait_until_applied()
    assert [r.body["reason"] for r in obol.dead_letters("user.commands", stored)] == ["invalid"]


def test_the_widest_command_is_accepted(obol: Outside) -> None:
    org_id, gpu_type = obol.new_id("org"), "9" + "g" * 31
    obol.price(f"dedicated.{gpu_type}.16x", "0")
    obol.price(f"instance.{gpu_type}.16x", "0")
    obol.price("disk", "0")
    obol.balance(org_id, "1")
    longest = "D" * 112
    wide = obol.ask(
        org_id,
        "create_deployment",
        command_id="C" * 128,
        deployment_id=longest,
        model="m" * 512,
        gpu_type=gpu_type,
        gpu_count=16,
        serving=None,
        min_replicas=None,
        idle_timeout_s=None,
        future={"x": [1.5]},
        instance_id=5,
        disk_gb="x",
    )
    assert wide == {
        "command_id": "C" * 128,
        "org_id": org_id,
        "outcome": "accepted",
        "status": 202,
        "message": wide["message"],
        "target": longest,
        "at": rfc3339(obol.now),
    }
    assert wide["message"]
    deploy = obol.ask(
        org_id,
        "deploy_instance",
        instance_id="I" * 112,
        offer_id="ü" * 512,
        gpu_type=gpu_type,
        gpu_count=16,
        disk_gb=65_536,
        template={"mode": "args", "image": "i" * 512, "future": 1},
        gpus_releasable=None,
        min_replicas="x",
    )
    assert deploy["outcome"] == "accepted"
    assert obol.get(f"/orgs/{org_id}/deployments/{longest}").json["min_replicas"] == 1
    many = obol.ask(
        org_id,
        "create_deployment",
        **{**CREATE, "deployment_id": "many", "gpu_type": gpu_type, "gpu_count": 16},
        min_replicas=100,
        idle_timeout_s=31_536_000,
    )
    assert many["outcome"] == "accepted"
    assert len(obol.out("execlet.orders", org_id, deployment_id="many")) == 100
    none = obol.ask(
        org_id,
        "create_deployment",
        **{**CREATE, "deployment_id": "none", "gpu_type": gpu_type, "gpu_count": 16},
        min_replicas=0,
    )
    assert none["outcome"] == "accepted"
    assert [r.body["replica_id"] for r in obol.out("execlet.orders", org_id, deployment_id="none")] == ["none-r1"]


UNPRICED = {"gpu_type": "nopricehere"}


class Asking:
    """Sends commands of an org with prices and a balance, and returns their code and status."""

    def __init__(self, obol: Outside, balance: str) -> None:
        self.obol = obol
        self.org_id = obol.new_id("org")
        for profile in ("dedicated.code.1x", "instance.code.1x", "disk"):
            obol.price(profile, "0.01")
        obol.balance(self.org_id, balance)
        self.create = {**CREATE, "gpu_type": "code"}
        self.deploy = {**DEPLOY, "gpu_type": "code"}

    def __call__(self, kind: str, **fields: Any) -> tuple[str | None, int]:
        """Send a command, and return its code and status."""
        result = self.obol.ask(self.org_id, kind, **fields)
        assert result["outcome"] == ("rejected" if result.get("code") else "accepted")
        assert result["target"] == fields.get("deployment_id", fields.get("instance_id"))
        return result.get("code"), result["status"]


def test_not_found_before_existing_before_illegal_before_unpriced(obol: Outside) -> None:
    code = Asking(obol, "100")
    create, deploy = code.create, code.deploy
    assert code("create_deployment", **create) == (None, 202)
    assert code("deploy_instance", **deploy) == (None, 202)
    assert code("stop_deployment", deployment_id="unknown") == ("NOT_FOUND", 404)
    for kind in ("start_instance", "stop_instance", "destroy_instance"):
        assert code(kind, instance_id="unknown") == ("NOT_FOUND", 404)
    assert code("create_deployment", **{**create, **UNPRICED}) == ("ALREADY_EXISTS", 409)
    assert code("create_deployment", **{**create, **UNPRICED, "deployment_id": "d2"}) == ("UNPRICED_PROFILE", 422)
    serverless = {**create, **UNPRICED, "deployment_id": "d3", "serving": "serverless"}
    assert code("create_deployment", **serverless) == (None, 202)
    assert code("deploy_instance", **{**deploy, **UNPRICED}) == ("ALREADY_EXISTS", 409)
    assert code("start_instance", instance_id="i") == ("ILLEGAL_TRANSITION", 409)
    assert code("stop_instance", instance_id="i") == ("ILLEGAL_TRANSITION", 409)
    assert code("stop_deployment", deployment_id="d") == (None, 202)
    assert code("stop_deployment", deployment_id="d") == ("ILLEGAL_TRANSITION", 409)
    assert code("create_deployment", **create) == ("ALREADY_EXISTS", 409)


def test_existing_before_the_limit_before_unpriced_before_the_balance(obol: Outside) -> None:
    code = Asking(obol, "100")
    deploy = code.deploy
    for n in range(24):
        obol.command(code.org_id, "deploy_instance", **{**deploy, "instance_id": f"n{n}"})
    assert code("deploy_instance", **deploy) == (None, 202)
    assert len(obol.out("command.results", code.org_id, outcome="accepted")) == 25
    assert code("deploy_instance", **deploy) == ("ALREADY_EXISTS", 409)
    assert code("deploy_instance", **{**deploy, **UNPRICED, "instance_id": "n24"}) == ("INSTANCE_LIMIT", 409)
    assert code("destroy_instance", instance_id="n23") == (None, 202)
    assert code("destroy_instance", instance_id="n23") == (None, 202)
    assert code("start_instance", instance_id="n23") == ("ILLEGAL_TRANSITION", 409)
    assert code("deploy_instance", **{**deploy, "instance_id": "n24"}) == ("INSTANCE_LIMIT", 409)
    obol.report(code.org_id, "n23", "teardown_finished")
    obol.advance(1)  # at one ms, commands come before reports
    assert code("destroy_instance", instance_id="n23") == ("ILLEGAL_TRANSITION", 409)
    assert code("deploy_instance", **{**deploy, "instance_id": "n23"}) == ("ALREADY_EXISTS", 409)
    obol.balance(code.org_id, "2.74")  # 25 times 0.01 + 10 GB at 0.01 is 2.75
    assert code("deploy_instance", **{**deploy, **UNPRICED, "instance_id": "n24"}) == ("UNPRICED_PROFILE", 422)
    short = obol.ask(code.org_id, "deploy_instance", **{**deploy, "instance_id": "n24"})
    assert (short["code"], short["status"]) == ("INSUFFICIENT_BALANCE", 402)
    assert "2.74" in short["message"]
    assert "2.75" in short["message"]
    obol.balance(code.org_id, "2.75")
    assert code("deploy_instance", **{**deploy, "instance_id": "n24"}) == (None, 202)


def test_invalid_before_suspended_before_the_rest(obol: Outside) -> None:
    code = Asking(obol, "100")
    create, deploy = code.create, code.deploy
    assert code("create_deployment", **create) == (None, 202)
    assert code("deploy_instance", **deploy) == (None, 202)
    obol.account(code.org_id, "org_suspended")
    assert code("create_deployment", **create) == ("ORG_SUSPENDED", 403)
    assert code("deploy_instance", **deploy) == ("ORG_SUSPENDED", 403)
    assert code("start_instance", instance_id="unknown") == ("ORG_SUSPENDED", 403)
    assert code("stop_deployment", deployment_id="unknown") == ("NOT_FOUND", 404)
    assert code("stop_instance", instance_id="i") == ("ILLEGAL_TRANSITION", 409)
    assert code("create_deployment", **{**create, "gpu_count": 0}) == ("INVALID", 400)
    assert code("destroy_instance", instance_id="i") == (None, 202)
    obol.account(code.org_id, "org_reinstated")
    assert code("create_deployment", **create) == ("ALREADY_EXISTS", 409)


def test_a_message_names_the_entity_its_state_what_was_asked_and_what_is_allowed(obol: Outside) -> None:
    org_id = obol.new_id("org")
    obol.price("instance.cmd.1x", "0")
    obol.price("disk", "0")
    obol.balance(org_id, "1")
    obol.command(org_id, "deploy_instance", **{**DEPLOY, "instance_id": "fickle"})
    message = obol.ask(org_id, "start_instance", instance_id="fickle")["message"]
    for word in ("fickle", "creating", "start", "destroy"):
        assert word in message


def test_a_repeated_command_gets_the_same_result_word_for_word(obol: Outside) -> None:
    org_id = obol.new_id("org")
    obol.price("dedicated.cmd.1x", "1")
    first = {"command_id": "again", **CREATE}
    obol.command(org_id, "create_deployment", **first)
    obol.command(org_id, "create_deployment", command_id="bad", **{**CREATE, "gpu_count": 0})
    obol.command(org_id, "start_instance", command_id="lost", instance_id="unknown")
    obol.advance(86_400_000 - 1)
    obol.command(org_id, "create_deployment", **first)
    obol.command(org_id, "stop_deployment", command_id="again", deployment_id="d")
    obol.command(org_id, "create_deployment", command_id="again", gpu_count="other content")
    obol.command(org_id, "create_deployment", command_id="bad", **{**CREATE, "deployment_id": "good"})
    obol.command(org_id, "deploy_instance", command_id="lost", **DEPLOY)
    obol.wait_until_applied()
    for command_id, times, code in (("again", 4, None), ("bad", 2, "INVALID"), ("lost", 2, "NOT_FOUND")):
        results = obol.out("command.results", org_id, command_id=command_id)
        assert len(results) == times
        assert len({r.value for r in results}) == 1
        assert results[0].body.get("code") == code
    assert [r.body["id"] for r in obol.out("lifecycle.changes", org_id, kind="deployment")] == ["d"]
    obol.advance(1)
    assert obol.get(f"/orgs/{org_id}/deployments/good").status == 404
    obol.command(org_id, "stop_deployment", command_id="again", deployment_id="d")
    obol.wait_until_applied()
    last = obol.out("command.results", org_id, command_id="again")[-1].body
    assert (last["outcome"], last["at"]) == ("accepted", rfc3339(obol.now))
    assert obol.get(f"/orgs/{org_id}/deployments/d").json["status"] == "stopped"
